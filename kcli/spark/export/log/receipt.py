"""Receipt: the result of one task. The first attempt to create the file has written the task's splits.

Splits of several partitions may share files: the rows of one follow those of the other, and the parts of a
file say which are whose. Files of one partition have no parts, nor have receipts of earlier versions.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kcli.spark.split import BatchMark, OffsetInterval

if TYPE_CHECKING:
    from collections.abc import Mapping

SEVERAL = -1
"""The partition of a file that several partitions share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """The rows of one partition in a file, one after the other."""

    partition: int
    start: int
    end: int
    rows: int
    first_row: int = 0
    first_offset: int | None = None
    last_offset: int | None = None

    def to_json(self) -> dict[str, Any]:
        # Not `asdict`, which takes as long as writing the rows where each part has one.
        return {
            "partition": self.partition,
            "start": self.start,
            "end": self.end,
            "rows": self.rows,
            "first_row": self.first_row,
            "first_offset": self.first_offset,
            "last_offset": self.last_offset,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A Parquet file; paths are relative to the target, with forward slashes.

    A shared file has the partition -1; its offsets are the smallest and largest of its parts.
    """

    path: str
    temporary: str | None
    """Its path before it was published; None if it was written under its final name."""
    topic: str
    partition: int
    start: int
    end: int
    rows: int
    size_bytes: int
    first_offset: int | None = None
    last_offset: int | None = None
    first_timestamp_us: int | None = None
    last_timestamp_us: int | None = None
    crc32c: int | None = None
    """Of all its bytes; None in an object store, which would have to send them back."""
    parts: tuple[FilePart, ...] = ()
    """Of a shared file, in the order of their rows."""
    copy_of: str | None = None
    """The path of the shared file that it replaces, of which some partitions were reset."""

    @property
    def pieces(self) -> tuple[FilePart, ...]:
        """Return the parts, or that of the only partition."""
        return self.parts or (
            FilePart(
                partition=self.partition,
                start=self.start,
                end=self.end,
                rows=self.rows,
                first_offset=self.first_offset,
                last_offset=self.last_offset,
            ),
        )

    def to_json(self) -> dict[str, Any]:
        stored = asdict(replace(self, parts=()))
        stored["parts"] = [one.to_json() for one in self.parts]
        for name in ("parts", "copy_of"):
            if not stored[name]:
                del stored[name]
        return stored

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> WrittenFile:
        parts = tuple(FilePart(**one) for one in stored.get("parts", ()))
        return cls(**dict(stored) | {"parts": parts})


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    rows: int = 0
    bytes_read: int = 0
    rows_filtered: int = 0
    """Rows that `where` left out."""
    corrupt_batches: int = 0
    corrupt_bytes: int = 0
    bad_values: int = 0
    """Keys and values that could not be decoded."""
    dead_letter_batches: int = 0
    dead_letter_rows: int = 0

    def __add__(self, other: Counters) -> Counters:
        mine, others = asdict(self), asdict(other)
        return Counters(**{name: mine[name] + others[name] for name in mine})


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRead:
    """The offsets that a task read of one partition."""

    topic: str
    partition: int
    start: int
    end: int
    missing: tuple[OffsetInterval, ...] = ()
    """Offsets that are damaged."""
    marks: tuple[BatchMark, ...] = ()
    """The last batch read of each leader epoch; empty if Spark's own connector read."""

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> SplitRead:
        return cls(
            topic=stored["topic"],
            partition=stored["partition"],
            start=stored["start"],
            end=stored["end"],
            missing=tuple(OffsetInterval(*one) for one in stored["missing"]),
            marks=tuple(BatchMark(*one) for one in stored.get("marks", ())),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What one attempt at one task wrote."""

    plan: int
    plan_id: str
    index: int
    attempt: str
    reads: tuple[SplitRead, ...]
    """Of every split that could still be read."""
    files: tuple[WrittenFile, ...] = ()
    dead_letters: tuple[WrittenFile, ...] = ()
    counters: Counters = field(default_factory=Counters)

    def to_json(self) -> dict[str, Any]:
        return asdict(replace(self, files=(), dead_letters=())) | {
            "files": [one.to_json() for one in self.files],
            "dead_letters": [one.to_json() for one in self.dead_letters],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Receipt:
        """Return what `to_json` wrote, or an earlier version, whose receipts are of one split."""
        return cls(
            plan=stored["plan"],
            plan_id=stored["plan_id"],
            index=stored["index"],
            attempt=stored["attempt"],
            reads=tuple(SplitRead.from_json(one) for one in stored.get("reads", (stored,))),
            files=tuple(WrittenFile.from_json(one) for one in stored["files"]),
            dead_letters=tuple(WrittenFile.from_json(one) for one in stored["dead_letters"]),
            counters=Counters(**stored["counters"]),
        )
