"""Summary: what a run did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcli.spark.job.receipt import Counters

if TYPE_CHECKING:
    from kcli.spark.job.commit import Commit
    from kcli.spark.split import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Offsets `start` (included) to `end` (excluded) that nobody could read any more, or that damage took."""

    topic: str
    partition: int
    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSummary:
    """What was exported of one partition by the plans of a run."""

    topic: str
    partition: int
    start: int
    end: int
    rows: int
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a run did; all zeros when there was nothing new."""

    target: str
    committed_plans: tuple[int, ...] = ()
    resumed: bool = False
    """Whether the first of them had been begun by an earlier run."""
    partitions: tuple[PartitionSummary, ...] = ()
    files: int = 0
    bytes_written: int = 0
    counters: Counters = field(default_factory=Counters)
    gaps: tuple[Gap, ...] = ()
    seconds: float = 0.0
    notes: tuple[str, ...] = ()


class RunTotals:
    """Sums up the commits of a run."""

    def __init__(self, target: str) -> None:
        self.resumed = False
        self._target = target
        self._plans: list[int] = []
        self._partitions: dict[TopicPartition, PartitionSummary] = {}
        self._counters = Counters()
        self._gaps: list[Gap] = []
        self._files = 0
        self._bytes = 0

    def add(self, commit: Commit) -> None:
        """Take a commit in."""
        self._plans.append(commit.number)
        self._counters += commit.counters
        self._gaps += commit.gaps
        self._files += len(commit.files)
        self._bytes += sum(file.size_bytes for file in commit.files)
        for partition, (start, end) in commit.ranges.items():
            before = self._partitions.get(partition)
            files = [file for file in commit.files if (file.topic, file.partition) == partition]
            self._partitions[partition] = PartitionSummary(
                topic=partition.topic,
                partition=partition.partition,
                start=before.start if before else start,
                end=end,
                rows=sum(file.rows for file in files) + (before.rows if before else 0),
                files=len(files) + (before.files if before else 0),
            )

    def summary(self, seconds: float) -> Summary:
        """Return the sums."""
        return Summary(
            target=self._target,
            committed_plans=tuple(self._plans),
            resumed=self.resumed,
            partitions=tuple(self._partitions[one] for one in sorted(self._partitions)),
            files=self._files,
            bytes_written=self._bytes,
            counters=self._counters,
            gaps=tuple(self._gaps),
            seconds=seconds,
        )
