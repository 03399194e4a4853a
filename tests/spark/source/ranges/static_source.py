"""StaticSource: partitions whose offsets are written down, for tests of what a planner asks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kcli.protocol.topics import TopicPartition
from kcli.spark.source.source import SplitLimits, SplitReader, TopicIdentity
from kcli.spark.split import BatchMark, OffsetInterval, Split


@dataclass
class StaticSource:
    """A source without records. `times` lists (timestamp, offset) pairs per partition, in offset order."""

    bounds: Mapping[TopicPartition, tuple[int, int]]
    stable: Mapping[TopicPartition, int] = field(default_factory=dict)
    times: Mapping[TopicPartition, list[tuple[int, int]]] = field(default_factory=dict)

    other_from: Mapping[TopicPartition, int] = field(default_factory=dict)
    """From where on a log is another one than that of any marks."""

    def cluster_id(self) -> str | None:
        return None

    def topics(self) -> list[TopicIdentity]:
        names = sorted({one.topic for one in self.bounds})
        return [
            TopicIdentity(name, None, tuple(sorted(p for topic, p in self.bounds if topic == name)))
            for name in names
        ]

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {one: self.bounds[one][0] for one in partitions}

    def latest(
        self, partitions: Collection[TopicPartition], *, read_committed: bool
    ) -> dict[TopicPartition, int]:
        ends = {one: self.bounds[one][1] for one in partitions}
        return {one: self.stable.get(one, end) for one, end in ends.items()} if read_committed else ends

    def at_timestamps(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {
            one: next((offset for time, offset in self.times.get(one, []) if time >= wanted), None)
            for one, wanted in timestamps_ms.items()
        }

    def divergences(self, marks: Mapping[TopicPartition, Sequence[BatchMark]]) -> dict[TopicPartition, int]:
        return {one: offset for one, offset in self.other_from.items() if one in marks}

    def splits(
        self, ranges: Mapping[TopicPartition, OffsetInterval], limits: SplitLimits, *, read_committed: bool
    ) -> list[Split]:
        return [Split(*one, *interval) for one, interval in ranges.items()]

    def reader(self) -> SplitReader:
        raise AssertionError("there is nothing to read")

    def close(self) -> None:
        return None
