"""Seeking: where in a segment an offset is, by its index if that can be believed.

An index may be missing, preallocated, older or newer than its log, or that of another one. So an entry of it
counts only if a batch begins there whose checksum is right and whose offsets are those that the entry tells;
else the heads are walked from the beginning of the segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.forensics.entries.entry_head import crc_of, plausible_head
from kcli.protocol.records.batch_header import HEADER_SIZE
from kcli.spark.logs.head_walk import HeadWalk, next_intact
from kcli.storage.index.index_file import CorruptIndex
from kcli.storage.index.offset_index import OffsetIndex
from kcli.storage.log_paths import INDEX_SUFFIX

if TYPE_CHECKING:
    from kcli.forensics.entries.entry_head import EntryHead
    from kcli.forensics.entries.segment_file import SegmentFile
    from kcli.spark.logs.segments import Segment


def load_index(segment: Segment, file: SegmentFile) -> OffsetIndex:
    """Return the offset index of a segment, without entries if it cannot be used. Raises `OSError`."""
    index = OffsetIndex(segment.index_path(INDEX_SUFFIX), segment.base_offset, 0)
    try:
        index.load(file.end)
    except (FileNotFoundError, CorruptIndex):
        return OffsetIndex(index.path, segment.base_offset, 0)
    return index


def entry_at(segment: Segment, file: SegmentFile, position: int) -> EntryHead | None:
    """Return the head of the intact entry at a position, None if there is none. Raises `OSError`."""
    head = plausible_head(file.read(position, HEADER_SIZE), 0, position, file.end)
    if head is None or head.base_offset < segment.base_offset:
        return None
    return head if crc_of(file, position, head.size, head.magic) == head.crc else None


def is_sound(segment: Segment, file: SegmentFile, offset: int, position: int) -> bool:
    """Whether an index entry points to a batch that ends with its offset, or to the first of such a run."""
    head = entry_at(segment, file, position)
    return head is not None and head.base_offset <= offset and head.last_offset <= offset


def locate(segment: Segment, file: SegmentFile, target: int, index: OffsetIndex | None = None) -> int:
    """Return where the first entry begins that ends at an offset or above it.

    It is where damage begins if the offset may have been in it, and the end of the file for what lies above
    all. Raises `OSError`.
    """
    index = load_index(segment, file) if index is None else index
    offset, position = index.lookup(target - 1)
    if position and not is_sound(segment, file, offset, position):
        position = 0
    while position < file.end:
        walk = HeadWalk(file, position)
        for head in walk:
            if head.last_offset >= target:
                return head.position
        found = next_intact(segment, file, walk.position)
        if found is None or found.first_offset >= target:
            return walk.position
        position = found.position
    return file.end
