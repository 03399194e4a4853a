"""Receipt: the result of one split. The first attempt to create the file has written the split."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from kcli.spark.split import BatchMark, OffsetInterval

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A Parquet file; paths are relative to the target, with forward slashes."""

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
class Receipt:
    """What one attempt at one split wrote."""

    plan: int
    plan_id: str
    index: int
    attempt: str
    topic: str
    partition: int
    start: int
    end: int
    files: tuple[WrittenFile, ...] = ()
    dead_letters: tuple[WrittenFile, ...] = ()
    counters: Counters = field(default_factory=Counters)
    missing: tuple[OffsetInterval, ...] = ()
    """Offsets that are damaged."""
    marks: tuple[BatchMark, ...] = ()
    """The last batch read of each leader epoch; empty if Spark's own connector read."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Receipt:
        return cls(
            **dict(stored)
            | {
                "files": tuple(WrittenFile(**one) for one in stored["files"]),
                "dead_letters": tuple(WrittenFile(**one) for one in stored["dead_letters"]),
                "counters": Counters(**stored["counters"]),
                "missing": tuple(OffsetInterval(*one) for one in stored["missing"]),
                "marks": tuple(BatchMark(*one) for one in stored.get("marks", ())),
            }
        )
