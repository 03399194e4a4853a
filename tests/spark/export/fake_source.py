"""A source whose records follow from their offsets, so that what was exported can be told from that alone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from kcli.errors import KcliError
from kcli.protocol.topics import TopicPartition
from kcli.spark.decode.arrow_columns import arrow_schema
from kcli.spark.decode.entry import CorruptBatch
from kcli.spark.source.source import SplitLimits, TopicIdentity
from kcli.spark.split import BatchMark, OffsetInterval, OnCorrupt, ReadCounters, Reading, Split

CHUNK = 40
EPOCH_US = 1_777_593_600_000_000  # 2026-05-01


def key_of(offset: int) -> bytes | None:
    return None if offset % 7 == 0 else f"key {offset}".encode()


def value_of(offset: int) -> bytes:
    return f"value {offset}".encode()


def time_of(offset: int, step_us: int) -> int:
    return EPOCH_US + offset * step_us


@dataclass(frozen=True)
class FakeReader:
    """Reads what `FakeSource` has; the fields are ways to go wrong."""

    step_us: int = 1_000_000
    record_bytes: int = 0
    poison: tuple[int, ...] = ()
    """Offsets whose chunk is damaged."""
    trouble: Path | None = None
    """A directory: while it has a file `split-<start>`, the task of that split meets what the file says, and
    while it has one `chunk-<start>`, whoever comes to that chunk waits."""
    seconds_per_chunk: float = 0.0
    chunk: int = CHUNK
    epochs: tuple[tuple[int, int], ...] = ((0, 0),)
    """Leader epochs, and from which offset on each of them wrote every partition."""

    def read(self, split: Split, reading: Reading, counters: ReadCounters) -> Iterator[pa.RecordBatch]:
        if split.directory is not None and not os.path.isdir(split.directory):
            raise KcliError(f"cannot read `{split.directory}`")
        for start in range(split.start, split.end, self.chunk):
            end = min(start + self.chunk, split.end)
            self._meet_trouble(split)
            self._wait_before(start)
            time.sleep(self.seconds_per_chunk)
            counters.bytes_read += (end - start) * 100
            if any(start <= offset < end for offset in self.poison):
                if reading.on_corrupt is OnCorrupt.FAIL:
                    raise CorruptBatch("a file", start, "wrong checksum", first=start, last=end - 1)
                counters.corrupt_batches += 1
                counters.corrupt_bytes += (end - start) * 100
                counters.missing.append(OffsetInterval(start, end))
                if reading.on_corrupt is OnCorrupt.DEAD_LETTER and counters.on_damaged_batch:
                    raw = f"raw {split.topic} {split.partition} {start}".encode()
                    counters.on_damaged_batch(split.topic, split.partition, start, raw, "wrong checksum")
                continue
            counters.rows += end - start
            counters.epoch_ends[max(epoch for epoch, begin in self.epochs if begin < end)] = end - 1
            yield self.batch(split.topic, split.partition, range(start, end), reading.columns)

    def batch(self, topic: str, partition: int, offsets: range, columns: tuple[str, ...]) -> pa.RecordBatch:
        count = len(offsets)
        padding = b"." * self.record_bytes
        arrays = {
            "key": lambda: [key_of(one) for one in offsets],
            "value": lambda: [value_of(one) + padding for one in offsets],
            "topic": lambda: [topic] * count,
            "partition": lambda: [partition] * count,
            "offset": lambda: list(offsets),
            "timestamp": lambda: [time_of(one, self.step_us) for one in offsets],
            "timestampType": lambda: [0] * count,
            "headers": lambda: [
                None if one % 3 else [{"key": "n", "value": str(one).encode()}] for one in offsets
            ],
        }
        schema = arrow_schema(columns)
        return pa.RecordBatch.from_arrays(
            [pa.array(arrays[field.name](), field.type) for field in schema], schema=schema
        )

    def _meet_trouble(self, split: Split) -> None:
        path = self.trouble / f"split-{split.start}" if self.trouble else None
        if path is None or not path.exists():
            return
        kind = path.read_text()
        if kind == "die once":
            path.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        raise KcliError(kind)

    def _wait_before(self, chunk: int) -> None:
        path = self.trouble / f"chunk-{chunk}" if self.trouble else None
        if path is not None and path.exists():
            from tests.support.waiting import eventually

            eventually(lambda: not path.exists(), "somebody lets it go on")


@dataclass
class FakeSource:
    """Topics that are as long as `ends` says and begin where `begins` says."""

    ends: dict[TopicPartition, int]
    begins: dict[TopicPartition, int] = field(default_factory=dict)
    topic_ids: dict[str, str | None] = field(default_factory=dict)
    cluster: str | None = "cluster-A"
    split_offsets: int = 100
    fake_reader: FakeReader = FakeReader()
    directory: Path | None = None
    """Where it says that partitions are, and its reader looks for them."""
    diverges: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Partitions that are other logs than those read, from these offsets on."""
    is_closed: bool = False

    @classmethod
    def of(cls, *lengths: int, topic: str = "orders", **fields: object) -> FakeSource:
        """Return a source of one topic whose partitions are so long."""
        ends = {TopicPartition(topic, index): length for index, length in enumerate(lengths)}
        return cls(ends, topic_ids={topic: "id-1"}, **fields)  # type: ignore[arg-type]

    def cluster_id(self) -> str | None:
        return self.cluster

    def topics(self) -> list[TopicIdentity]:
        names = sorted({one.topic for one in self.ends})
        return [
            TopicIdentity(
                name,
                self.topic_ids.get(name),
                tuple(sorted(one.partition for one in self.ends if one.topic == name)),
            )
            for name in names
        ]

    def earliest(self, partitions: object) -> Mapping[TopicPartition, int]:
        return {one: self.begins.get(one, 0) for one in partitions}  # type: ignore[attr-defined]

    def latest(self, partitions: object, *, read_committed: bool) -> Mapping[TopicPartition, int]:
        return {one: self.ends[one] for one in partitions}  # type: ignore[attr-defined]

    def at_timestamps(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        found = {}
        for one, moment in timestamps_ms.items():
            offset = max(-(-(moment * 1000 - EPOCH_US) // self.fake_reader.step_us), self.begins.get(one, 0))
            found[one] = offset if offset < self.ends[one] else None
        return found

    def divergences(self, marks: Mapping[TopicPartition, Sequence[BatchMark]]) -> dict[TopicPartition, int]:
        found = {one: offset for one, offset in self.diverges.items() if one in marks}
        for one, batches in marks.items():
            for offset, epoch in batches:
                ends = [begin for later, begin in self.fake_reader.epochs if later > epoch]
                end = min(ends, default=self.ends[one])
                if end <= offset:
                    found[one] = min(end, found.get(one, end))
        return found

    def splits(
        self, ranges: Mapping[TopicPartition, OffsetInterval], limits: SplitLimits, *, read_committed: bool
    ) -> list[Split]:
        size = limits.split_bytes or self.split_offsets
        directory = None if self.directory is None else str(self.directory)
        found = [
            Split(topic, partition, at, stop, size_bytes=(stop - at) * 100, directory=directory)
            for (topic, partition), (start, end) in ranges.items()
            for at in range(start, end, size)
            for stop in [min(at + size, end)]
        ]
        return sorted(found, key=lambda split: -split.size_bytes)

    def reader(self) -> FakeReader:
        return self.fake_reader

    def grow(self, partition: TopicPartition, end: int) -> None:
        """Append records."""
        self.ends[partition] = end

    def close(self) -> None:
        self.is_closed = True

    def with_reader(self, **fields: object) -> FakeSource:
        """Return the same source, whose reader is different."""
        return replace(self, fake_reader=replace(self.fake_reader, **fields))  # type: ignore[arg-type]
