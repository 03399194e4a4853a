"""Cutting a range of offsets into splits of about equal size, between batches.

The offset index says where to look; from the entry it names, or else from the last known one, heads are
walked to the first batch that ends at the wanted size. So cuts need no index, only more time without one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kcli.forensics.entries.segment_file import SegmentFile
from kcli.spark.logs.head_walk import HeadWalk, resynced
from kcli.spark.logs.seek import is_sound, load_index, locate
from kcli.spark.logs.segments import floor_index
from kcli.spark.split import Split

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kcli.spark.logs.segments import Segment
    from kcli.spark.split import TopicPartition
    from kcli.storage.index.offset_index import OffsetIndex


class Place(NamedTuple):
    """Where an entry begins, and an offset that it is not above."""

    offset: int
    segment: int
    position: int


class Stretch(NamedTuple):
    """The part of a segment, from `begin` to `end`, in which offsets of a range are."""

    segment: Segment
    begin: int
    end: int

    @property
    def size(self) -> int:
        """How many bytes it is."""
        return self.end - self.begin


def stretches(segments: Sequence[Segment], start: int, end: int) -> list[Stretch]:
    """Return where the entries of `start..end - 1` are, none for no offsets. Raises `OSError`."""
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
    """Return where the entry ends that the offset before `end` is in."""
    position = locate(segment, file, end, index)
    head = next(iter(HeadWalk(file, position)), None)
    return position if head is None or head.first_offset >= end else head.end


@dataclass(slots=True)
class Cutter:
    """Cuts the range from `start` to `end`, which takes up the stretches, into splits of `piece_bytes`."""

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
        """Return where in a stretch the split that was begun has its first byte."""
        return begun.position if begun.segment == part.segment.base_offset else part.begin

    def _cuts(self, part: Stretch, first_bytes: int) -> Iterator[Place]:
        """Yield places every `piece_bytes`, the first one after `first_bytes`."""
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
