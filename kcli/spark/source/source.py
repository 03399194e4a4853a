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
    """A topic of a cluster; `topic_id` is base64url text, None if unknown."""

    name: str
    topic_id: str | None
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SplitLimits:
    """How ranges are cut; None lets the source choose.

    Without `split_bytes` a split has a third of what each slot has to read, but at least 16 MiB and at most
    what makes a file of `target_file_bytes`.
    """

    split_bytes: int | None = None
    min_partitions: int | None = None
    max_records: int | None = None
    task_slots: int = 1
    """How many tasks run at the same time."""
    target_file_bytes: int = 256 * 1024 * 1024
    shares_files: bool = True
    """Whether an export may write small partitions of a topic to the same files."""


class SplitReader(Protocol):
    """The tasks' side of a source: it can be pickled, and opens what it needs itself."""

    def read(self, split: Split, reading: Reading, counters: ReadCounters) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split in the order of their offsets, with exactly the columns asked for."""


class Source(Protocol):
    """What a planner asks; every method is synchronous and raises `KcliError`."""

    def cluster_id(self) -> str | None:
        """Return the id of the cluster that wrote the records."""

    def topics(self) -> Sequence[TopicIdentity]:
        """Return every topic, including internal ones."""

    def earliest(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the first offset of each partition."""

    def latest(
        self, partitions: Collection[TopicPartition], *, read_committed: bool
    ) -> Mapping[TopicPartition, int]:
        """Return where each partition ends: its high watermark, or its last stable offset."""

    def at_timestamps(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | None]:
        """Return the earliest offset whose record is at or after the timestamp, None without one."""

    def divergences(
        self, marks: Mapping[TopicPartition, Sequence[BatchMark]]
    ) -> Mapping[TopicPartition, int]:
        """Return, for each log without a batch of its marks, the offset where it differs from the one read.

        It is 0 if the place is unknown; a log about which nothing is known counts as unchanged.
        """

    def splits(
        self, ranges: Mapping[TopicPartition, OffsetInterval], limits: SplitLimits, *, read_committed: bool
    ) -> Sequence[Split]:
        """Cut ranges into splits, largest first."""

    def reader(self) -> SplitReader: ...

    def close(self) -> None: ...
