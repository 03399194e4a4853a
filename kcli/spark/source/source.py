"""Source: where the records of topics come from, as a planner sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import pyarrow as pa

    from kcli.protocol.topics import TopicPartition
    from kcli.spark.split import BatchMark, OffsetInterval, ReadCounters, Reading, Split


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """A topic as its cluster knows it; `topic_id` is base64url text, None where none was written."""

    name: str
    topic_id: str | None
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SplitLimits:
    """How ranges are cut; None leaves the choice to the source.

    Without `split_bytes` it is a third of what each slot has to read, but no less than 16 MiB and no more
    than makes a file of `target_file_bytes`.
    """

    split_bytes: int | None = None
    min_partitions: int | None = None
    max_records: int | None = None
    task_slots: int = 1
    """How many tasks run at the same time."""
    target_file_bytes: int = 256 * 1024 * 1024


class SplitReader(Protocol):
    """The tasks' side of a source: picklable, opens what it needs itself."""

    def read(self, split: Split, reading: Reading, counters: ReadCounters) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split in the order of their offsets, with exactly the columns asked for."""
        ...


class Source(Protocol):
    """What a planner asks; every method is synchronous, and raises `KcliError`."""

    def cluster_id(self) -> str | None:
        """Return the id of the cluster that wrote the records."""
        ...

    def topics(self) -> Sequence[TopicIdentity]:
        """Return every topic there is, internal ones included."""
        ...

    def earliest(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the first offset of each partition."""
        ...

    def latest(
        self, partitions: Collection[TopicPartition], *, read_committed: bool
    ) -> Mapping[TopicPartition, int]:
        """Return where each partition ends: its high watermark, or its last stable offset."""
        ...

    def at_timestamps(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | None]:
        """Return the earliest offset whose record is at or after the timestamp, None where there is none."""
        ...

    def divergences(
        self, marks: Mapping[TopicPartition, Sequence[BatchMark]]
    ) -> Mapping[TopicPartition, int]:
        """Return from where on a log is not the one that was read, of each that lacks a batch of its marks.

        It is 0 where nobody can say from where; where nothing can be said at all, the log counts as the same.
        """
        ...

    def splits(
        self, ranges: Mapping[TopicPartition, OffsetInterval], limits: SplitLimits, *, read_committed: bool
    ) -> Sequence[Split]:
        """Cut ranges into splits, largest first."""
        ...

    def reader(self) -> SplitReader:
        """Return what tasks read splits with."""
        ...

    def close(self) -> None:
        """Let go of connections and files."""
        ...
