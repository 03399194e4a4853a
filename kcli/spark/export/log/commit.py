"""Commit: the files of a finished plan, which count once it is written; Summary: the result of a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from kcli.spark.export.log.receipt import Counters, WrittenFile
from kcli.spark.export.target.layout import OLD_LOGS
from kcli.spark.source.ranges.json_forms import flat, marks_of, nested, resets_of
from kcli.spark.split import OffsetInterval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.protocol.topics import TopicPartition
    from kcli.spark.split import BatchMark


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Offsets `start` (included) to `end` (excluded) that were gone or damaged."""

    topic: str
    partition: int
    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSummary:
    topic: str
    partition: int
    start: int
    end: int
    rows: int
    files: int
    """With rows of the partition; others may have rows in them, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """A partition that was read from its beginning again, as the log read before is gone."""

    topic: str
    partition: int
    kept_in: str | None
    """The directory of the earlier rows, None if they were removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The result of a run; all zeros if nothing was new."""

    target: str
    state: str
    """Where the log and dead letters are."""
    committed_plans: tuple[int, ...] = ()
    resumed: bool = False
    """Whether an earlier run began the first of them."""
    partitions: tuple[PartitionSummary, ...] = ()
    files: int = 0
    bytes_written: int = 0
    counters: Counters = field(default_factory=Counters)
    gaps: tuple[Gap, ...] = ()
    resets: tuple[Reset, ...] = ()
    seconds: float = 0.0
    notes: tuple[str, ...] = ()


class RunTotals:
    def __init__(self, target: str, state: str) -> None:
        self.resumed = False
        self._target = target
        self._state = state
        self._plans: list[int] = []
        self._partitions: dict[TopicPartition, PartitionSummary] = {}
        self._counters = Counters()
        self._gaps: list[Gap] = []
        self._resets: list[Reset] = []
        self._files = 0
        self._bytes = 0

    def add(self, commit: Commit) -> None:
        self._plans.append(commit.number)
        self._counters += commit.counters
        self._gaps += commit.gaps
        kept_in = None
        if commit.keeps_resets:
            kept_in = f"{self._state}/{commit.old_log.partition('/')[2]}"
        self._resets += [
            Reset(topic=one.topic, partition=one.partition, kept_in=kept_in) for one in commit.resets
        ]
        rows: Counter[tuple[str, int]] = Counter()
        files: Counter[tuple[str, int]] = Counter()
        written = [file for file in commit.files if file.copy_of is None]
        for file in written:
            for one in file.pieces:
                rows[file.topic, one.partition] += one.rows
                files[file.topic, one.partition] += 1
        self._files += len(written)
        self._bytes += sum(file.size_bytes for file in written)
        for partition, (start, end) in commit.ranges.items():
            before = self._partitions.get(partition)
            self._partitions[partition] = PartitionSummary(
                topic=partition.topic,
                partition=partition.partition,
                start=before.start if before else start,
                end=end,
                rows=rows[partition] + (before.rows if before else 0),
                files=files[partition] + (before.files if before else 0),
            )

    def found_nothing(self, ranges: Mapping[TopicPartition, OffsetInterval]) -> None:
        """Name the offsets where a first export found no records."""
        for partition, (start, end) in ranges.items():
            self._partitions[partition] = PartitionSummary(
                topic=partition.topic, partition=partition.partition, start=start, end=end, rows=0, files=0
            )

    def summary(self, seconds: float) -> Summary:
        return Summary(
            target=self._target,
            state=self._state,
            committed_plans=tuple(self._plans),
            resumed=self.resumed,
            partitions=tuple(self._partitions[one] for one in sorted(self._partitions)),
            files=self._files,
            bytes_written=self._bytes,
            counters=self._counters,
            gaps=tuple(self._gaps),
            resets=tuple(self._resets),
            seconds=seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The files of a plan, and where each partition of the target stands now."""

    number: int
    plan_id: str
    committed_ms: int
    overwrites: bool
    """Whether it drops everything that was committed before."""
    topics: dict[str, str | None]
    """Topic ids by name, of all topics so far."""
    ranges: Mapping[TopicPartition, OffsetInterval]
    next_offsets: Mapping[TopicPartition, int]
    splits: int
    marks: Mapping[TopicPartition, tuple[BatchMark, ...]] = field(default_factory=dict)
    """Batches that the next run looks for in the log of each partition: it then is the log that was read."""
    files: tuple[WrittenFile, ...] = field(default=(), repr=False)
    dead_letters: tuple[WrittenFile, ...] = ()
    counters: Counters = field(default_factory=Counters)
    gaps: tuple[Gap, ...] = ()
    resets: tuple[TopicPartition, ...] = ()
    """Partitions whose files of earlier commits do not count any more: they are of another log."""
    keeps_resets: bool = False
    """Whether these files were moved to `old_log`, and not removed."""

    @property
    def old_log(self) -> str:
        """Return the directory of files of `resets`, if they are kept; their paths go on in it."""
        return f"{OLD_LOGS}/{self.number}"

    def to_json(self) -> dict[str, Any]:
        return {
            "commit": self.number,
            "plan_id": self.plan_id,
            "committed_ms": self.committed_ms,
            "overwrites": self.overwrites,
            "topics": self.topics,
            "ranges": nested(self.ranges),
            "next": nested(self.next_offsets),
            "marks": nested(self.marks),
            "splits": self.splits,
            "totals": {
                "files": len(self.files),
                "rows": self.counters.rows,
                "bytes": sum(file.size_bytes for file in self.files),
            },
            "counters": asdict(self.counters),
            "gaps": [asdict(gap) for gap in self.gaps],
            "resets": self.resets,
            "keeps_resets": self.keeps_resets,
            "files": [file.to_json() for file in self.files],
            "dead_letters": [file.to_json() for file in self.dead_letters],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Commit:
        return cls(
            number=stored["commit"],
            plan_id=stored["plan_id"],
            committed_ms=stored["committed_ms"],
            overwrites=stored["overwrites"],
            topics=dict(stored["topics"]),
            ranges={one: OffsetInterval(*ends) for one, ends in flat(stored["ranges"]).items()},
            next_offsets=flat(stored["next"]),
            splits=stored["splits"],
            marks=marks_of(stored),
            files=tuple(map(WrittenFile.from_json, stored["files"])),
            dead_letters=tuple(map(WrittenFile.from_json, stored["dead_letters"])),
            counters=Counters(**stored["counters"]),
            gaps=tuple(Gap(**gap) for gap in stored["gaps"]),
            resets=resets_of(stored),
            keeps_resets=stored.get("keeps_resets", False),
        )
