"""HeadWalk: the heads of the entries of a log file one after the other, without their records.

Large entries are stepped over, small ones read in passing. A place where no entry begins ends the walk;
`next_intact` finds where the file goes on.
"""

from __future__ import annotations

import os
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from kcli.forensics.entries.entry_head import MIN_ENTRY_LENGTHS
from kcli.forensics.entries.scanned_entry import ScannedEntry
from kcli.forensics.entries.segment_scan import scan
from kcli.protocol.records.batch_header import CONTROL_BIT, LOG_OVERHEAD, TRANSACTIONAL_BIT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.forensics.entries.segment_file import SegmentFile
    from kcli.spark.logs.segments import Segment

_BATCH = Struct(">qi4xb4xhi8xqq")
"""Offset, size, magic, attributes, last offset delta, largest timestamp, producer id."""
_LEGACY_TAIL = Struct(">bq")
_LEAST = 17
_LARGE_BYTES = 4096
_STEP_BYTES = 128
_RUN_BYTES = 64 * 1024
_PADDING = bytes(_BATCH.size)


class Head(NamedTuple):
    """What the head of an entry says. Of an older entry `first_offset` is that of its last record."""

    position: int
    size: int
    magic: int
    attributes: int
    first_offset: int
    last_offset: int
    max_timestamp: int
    producer_id: int

    @property
    def end(self) -> int:
        """Where the next entry begins."""
        return self.position + self.size

    @property
    def is_control(self) -> bool:
        """Whether it speaks to the log."""
        return bool(self.attributes & CONTROL_BIT) and self.magic == 2

    @property
    def is_transactional(self) -> bool:
        """Whether it belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT) and self.magic == 2


class HeadWalk:
    """The heads from an entry at `position` on; afterwards `position` is where no whole entry begins."""

    __slots__ = ("_file", "_limit", "position")

    def __init__(self, file: SegmentFile, position: int = 0, limit: int | None = None) -> None:
        self._file = file
        self._limit = file.end if limit is None else min(limit, file.end)
        self.position = position

    def __iter__(self) -> Iterator[Head]:
        file, limit, position = self._file, self._limit, self.position
        unpack, size = _BATCH.unpack_from, 0
        while position + _LEAST < limit:
            run = file.read(position, _STEP_BYTES if size >= _LARGE_BYTES else _RUN_BYTES, limit)
            # The last entry of a file may be shorter than the head of a batch.
            needed = _LEAST + 1 if position + len(run) >= limit else _BATCH.size
            at, last = 0, len(run) - needed
            if last < 0:
                return
            run += _PADDING
            while at <= last:
                offset, length, magic, attributes, delta, timestamp, producer_id = unpack(run, at)
                if not 0 <= magic <= 2 or length < MIN_ENTRY_LENGTHS[magic]:
                    return
                size = LOG_OVERHEAD + length
                if position + size > limit:
                    return
                if magic < 2:
                    attributes, timestamp = _LEGACY_TAIL.unpack_from(run, at + LOG_OVERHEAD + 5)
                    delta, producer_id = 0, -1
                    timestamp = timestamp if magic else -1
                yield Head(position, size, magic, attributes, offset, offset + delta, timestamp, producer_id)
                position += size
                self.position = position
                at += size


def next_intact(segment: Segment, file: SegmentFile, position: int) -> ScannedEntry | None:
    """Return the first entry at a position or behind it that nothing is wrong with, None if there is none.

    Only its header may be asked for: the bytes go with the scan. Raises `OSError`.
    """
    items = scan(path_of(file), start=position, end=file.end, resync=True, segment_base=segment.base_offset)
    return next((item for item in items if isinstance(item, ScannedEntry) and _is_intact(item)), None)


def path_of(file: SegmentFile) -> str:
    """Return a path that leads to an open file, also if a broker has renamed or deleted it meanwhile."""
    try:
        is_there = os.path.samestat(os.stat(file.path), os.fstat(file.descriptor))
    except FileNotFoundError:
        is_there = False
    return file.path if is_there else f"/dev/fd/{file.descriptor}"


def resynced(segment: Segment, file: SegmentFile, position: int = 0) -> Iterator[Head]:
    """Yield the heads from an entry at `position` on, also those behind damage. Raises `OSError`."""
    while position < file.end:
        walk = HeadWalk(file, position)
        yield from walk
        found = next_intact(segment, file, walk.position) if walk.position < file.end else None
        if found is None:
            return
        position = found.position


def _is_intact(entry: ScannedEntry) -> bool:
    return entry.is_valid and not entry.damages
