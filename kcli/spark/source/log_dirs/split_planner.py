"""Cuts ranges of offsets into splits of about equal size, each with its aborted transactions.

The offset index tells where to look; from its entry, or from the last known one, heads are walked to the
first batch that ends at the wanted size. Without an index the walk is longer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kcli.forensics.entries.segment_file import SegmentFile
from kcli.protocol.compression.codecs import Codec
from kcli.protocol.records.batch_header import CODEC_MASK
from kcli.protocol.topics import TopicPartition
from kcli.spark.source.log_dirs.segment import HeadWalk, floor_index, is_sound, load_index, locate, resynced
from kcli.spark.source.log_dirs.transactions import listed_aborted
from kcli.spark.source.ranges.division import OffsetRange, divide, split_bytes
from kcli.spark.split import Split

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kcli.spark.source.log_dirs.replica_log import ReplicaLog
    from kcli.spark.source.log_dirs.segment import Segment
    from kcli.spark.source.source import SplitLimits
    from kcli.spark.split import AbortedTransaction, OffsetInterval
    from kcli.storage.index.offset_index import OffsetIndex


class Place(NamedTuple):
    """The beginning of an entry, and an offset that it is not above."""

    offset: int
    segment: int
    position: int


class Stretch(NamedTuple):
    """The part of a segment, from `begin` to `end`, that holds offsets of a range."""

    segment: Segment
    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin


def stretches(segments: Sequence[Segment], start: int, end: int) -> list[Stretch]:
    """Return where the entries of `start..end - 1` are, empty without offsets. Raises `OSError`."""
    found = []
    first = floor_index(segments, start)
    for number, segment in enumerate(segments[first:]):
        if segment.base_offset >= end:
            break
        with SegmentFile(segment.path) as file:
            begin, stop = 0, file.end
            is_last = segment.next_base is None or segment.next_base >= end
            index = None if number and not is_last else load_index(segment, file)
            if not number:
                begin = locate(segment, file, start, index)
            if is_last:
                stop = max(_position_behind(segment, file, end, index), begin)
        found.append(Stretch(segment, begin, stop))
    return found


def _position_behind(segment: Segment, file: SegmentFile, end: int, index: OffsetIndex | None) -> int:
    """Return where the entry with offset `end - 1` ends."""
    position = locate(segment, file, end, index)
    head = next(iter(HeadWalk(file, position)), None)
    return position if head is None or head.base_offset >= end else head.end


@dataclass(slots=True)
class Cutter:
    """Cuts a range, which the stretches hold, into splits of `piece_bytes`."""

    partition: TopicPartition
    directory: str
    end: int
    piece_bytes: int

    def splits(self, start: int, parts: Sequence[Stretch]) -> Iterator[Split]:
        """Yield the splits in the order of their offsets. Raises `OSError`."""
        begun: Place | None = None
        size = 0
        for part in parts:
            base = part.segment.base_offset
            if begun is None:
                begun = Place(start, base, part.begin)
            elif size >= self.piece_bytes and begun.offset < base < self.end:
                yield self._split(begun, base, size)
                begun, size = Place(base, base, 0), 0
            for cut in self._cuts(part, self.piece_bytes - size):
                if begun.offset < cut.offset < self.end:
                    yield self._split(begun, cut.offset, size + cut.position - self._begin(begun, part))
                    begun, size = cut, 0
            size += part.end - self._begin(begun, part)
        if begun is None:
            begun = Place(start, start, 0)
        yield self._split(begun, self.end, size)

    def _begin(self, begun: Place, part: Stretch) -> int:
        """Return where the begun split has its first byte in a stretch."""
        return begun.position if begun.segment == part.segment.base_offset else part.begin

    def _cuts(self, part: Stretch, first_bytes: int) -> Iterator[Place]:
        """Yield a place every `piece_bytes`, the first after `first_bytes`."""
        if part.size <= first_bytes:
            return
        with SegmentFile(part.segment.path) as file:
            index = load_index(part.segment, file)
            position, wanted = part.begin, part.begin + max(first_bytes, 1)
            while wanted < part.end:
                place = _place_behind(part.segment, file, index, position, wanted)
                if place is None or place.position >= part.end:
                    return
                yield place
                position, wanted = place.position, place.position + self.piece_bytes

    def _split(self, begun: Place, end: int, size: int) -> Split:
        topic, partition = self.partition
        offset, segment, position = begun
        return Split(topic, partition, offset, end, size, self.directory, segment, position)


def _place_behind(
    segment: Segment, file: SegmentFile, index: OffsetIndex, known: int, wanted: int
) -> Place | None:
    """Return the first place between entries at `wanted` or behind it; an entry begins at `known`."""
    offset, position = index.at_position(wanted)
    if position <= known or not is_sound(segment, file, offset, position):
        position = known
    for head in resynced(segment, file, position):
        if head.end >= wanted:
            return Place(head.last_offset + 1, segment.base_offset, head.end)
    return None


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
        splits += _cut(logs[piece.partition], piece, parts, _split_bytes(parts, limits, total))
    if limits.min_partitions is not None and len(splits) < limits.min_partitions:
        # Too few batches, or too unequal ones: cut by offsets, as Spark's own source does.
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
    """Return the splits of one piece, of similar size."""
    size = sum(part.size for part in parts)
    count = max(-(-size // wanted), 1)
    cutter = Cutter(piece.partition, log.replica.path, piece.end, -(-size // count) or 1)

    return log.ask(
        lambda segments: list(cutter.splits(piece.start, stretches(segments, piece.start, piece.end)))
    )


def _whole(log: ReplicaLog, piece: OffsetRange) -> list[Split]:
    parts = _stretches(log, piece)
    return _cut(log, piece, parts, sum(part.size for part in parts) or 1)


def _with_aborted(logs: Mapping[TopicPartition, ReplicaLog], splits: Sequence[Split]) -> list[Split]:
    """Add to each split the aborted transactions that overlap it and are listed in indexes."""
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
