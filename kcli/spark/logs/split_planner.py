"""Planning of splits: how large they are to be, and what each has to know of aborted transactions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kcli.forensics.entries.segment_file import SegmentFile
from kcli.protocol.compression.codecs import Codec
from kcli.protocol.records.batch_header import CODEC_MASK
from kcli.spark.logs.cuts import Cutter, stretches
from kcli.spark.logs.head_walk import resynced
from kcli.spark.logs.transactions import listed_aborted
from kcli.spark.ranges.division import OffsetRange, divide
from kcli.spark.ranges.split_size import split_bytes
from kcli.spark.split import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kcli.spark.logs.cuts import Stretch
    from kcli.spark.logs.replica_log import ReplicaLog
    from kcli.spark.logs.segments import Segment
    from kcli.spark.reading import OffsetInterval
    from kcli.spark.source import SplitLimits
    from kcli.spark.split import AbortedTransaction, Split


def plan_splits(
    logs: Mapping[TopicPartition, ReplicaLog],
    ranges: Mapping[TopicPartition, OffsetInterval],
    limits: SplitLimits,
    *,
    read_committed: bool,
) -> list[Split]:
    """Return the splits of the ranges, largest first. Raises `CannotRead`."""
    pieces = divide(ranges, max_records=limits.max_records)
    found = {piece: _stretches(logs[piece.partition], piece) for piece in pieces}
    total = sum(part.size for parts in found.values() for part in parts)
    splits: list[Split] = []
    for piece, parts in found.items():
        wanted = _split_bytes(parts, limits, total)
        splits += _cut(logs[piece.partition], piece, parts, wanted)
    if limits.min_partitions is not None and len(splits) < limits.min_partitions:
        # Not enough batches, or too unequal ones: offsets are cut, as Spark's own source does it.
        pieces = divide(ranges, min_partitions=limits.min_partitions, max_records=limits.max_records)
        splits = [split for piece in pieces for split in _whole(logs[piece.partition], piece)]
    if read_committed:
        splits = _with_aborted(logs, splits)
    return sorted(splits, key=lambda split: -split.size_bytes)


def _split_bytes(parts: Sequence[Stretch], limits: SplitLimits, total_bytes: int) -> int:
    wanted = limits.split_bytes
    if wanted is None:
        wanted = split_bytes(total_bytes, limits, _first_codec(parts))
    if limits.min_partitions:
        wanted = min(wanted, -(-total_bytes // limits.min_partitions))
    return max(wanted, 1)


def _first_codec(parts: Sequence[Stretch]) -> Codec:
    for segment, begin, _ in parts:
        with SegmentFile(segment.path) as file:
            head = next(resynced(segment, file, begin), None)
        if head is not None:
            number = head.attributes & CODEC_MASK
            return Codec(number) if number in tuple(Codec) else Codec.NONE
    return Codec.NONE


def _stretches(log: ReplicaLog, piece: OffsetRange) -> list[Stretch]:
    return log.ask(lambda segments: stretches(segments, piece.start, piece.end))


def _cut(log: ReplicaLog, piece: OffsetRange, parts: Sequence[Stretch], wanted: int) -> list[Split]:
    """Return the splits of one piece, none of which is much smaller than the others."""
    size = sum(part.size for part in parts)
    count = max(-(-size // wanted), 1)
    cutter = Cutter(piece.partition, log.replica.path, piece.end, -(-size // count) or 1)

    def answer(segments: Sequence[Segment]) -> list[Split]:
        return list(cutter.splits(piece.start, stretches(segments, piece.start, piece.end)))

    return log.ask(answer)


def _whole(log: ReplicaLog, piece: OffsetRange) -> list[Split]:
    parts = _stretches(log, piece)
    return _cut(log, piece, parts, sum(part.size for part in parts) or 1)


def _with_aborted(logs: Mapping[TopicPartition, ReplicaLog], splits: Sequence[Split]) -> list[Split]:
    """Give each split the aborted transactions that overlap it, as far as indexes list them."""
    starts: dict[TopicPartition, int] = {}
    for split in splits:
        partition = TopicPartition(split.topic, split.partition)
        starts[partition] = min(starts.get(partition, split.start), split.start)
    listed = {
        partition: logs[partition].ask(partial(listed_aborted, start=start))
        for partition, start in starts.items()
    }
    return [_knowing(split, listed[TopicPartition(split.topic, split.partition)]) for split in splits]


def _knowing(split: Split, listed: Sequence[AbortedTransaction]) -> Split:
    overlapping = [one for one in listed if one.last_offset >= split.start and one.first_offset < split.end]
    return replace(split, aborted=tuple(overlapping)) if overlapping else split
