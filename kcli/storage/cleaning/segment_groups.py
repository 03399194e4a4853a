"""Groups of segments that become one: compaction must not leave ever smaller segments.

A group takes the next segment as long as log and indexes together fit one segment, and its last offset the
indexes' four bytes (Kafka's `Cleaner.groupSegmentsBySize`). Here it takes `MOST_SEGMENTS` at most: the swap
renames the files of all in one step, while nothing else is served. The next round makes one of what is
left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.storage.index.offset_index import MAX_RELATIVE_OFFSET

if TYPE_CHECKING:
    from collections.abc import Sequence


MOST_SEGMENTS = 64


class Measured(NamedTuple):
    """A segment's base offset and the sizes of its files in bytes."""

    base_offset: int
    size: int
    index_size: int
    time_index_size: int


def group_segments(
    segments: Sequence[Measured], *, segment_bytes: int, index_bytes: int, end_offset: int
) -> list[list[Measured]]:
    """Return the segments in groups, in order; `end_offset` bounds the offsets of the last one."""
    groups: list[list[Measured]] = []
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
        if groups and _fits(groups[-1], segment, following - 1, segment_bytes, index_bytes):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _fits(
    group: list[Measured], segment: Measured, last_offset: int, segment_bytes: int, index_bytes: int
) -> bool:
    members = [*group, segment]
    return (
        len(members) <= MOST_SEGMENTS
        and sum(each.size for each in members) <= segment_bytes
        and sum(each.index_size for each in members) <= index_bytes
        and sum(each.time_index_size for each in members) <= index_bytes
        # An empty segment has no last offset: 2**31 offsets must not leave an empty segment behind.
        and (not segment.size or last_offset - group[0].base_offset <= MAX_RELATIVE_OFFSET)
    )
