"""Segments of a replica: the files, the heads of their entries, and where an offset is.

A broker rolls, deletes and compacts segments meanwhile, so a list is valid while its files can be opened. A
compacted segment that is about to be swapped in (`.log.swap`) counts if the segment it replaces is gone;
others that went into it and still exist do not count.

An index may be missing, preallocated, older or newer than its log, or that of another log. Its entry counts
only if a batch begins there whose checksum is right and whose offsets agree; otherwise the heads are walked
from the beginning of the segment.

Errors of the file system become `CannotRead`, so that they are not taken for damage.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.errors import KcliError, reason_of
from kcli.forensics.entries.entry_head import plausible_head
from kcli.forensics.entries.scanned_entry import ScannedEntry
from kcli.forensics.entries.segment_file import SegmentFile
from kcli.forensics.entries.segment_scan import scan
from kcli.protocol.records.batch_header import HEADER, HEADER_SIZE, LOG_OVERHEAD, MIN_LENGTHS, BatchHead
from kcli.storage.index.index_file import CorruptIndex
from kcli.storage.index.offset_index import OffsetIndex
from kcli.storage.log_paths import INDEX_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, base_offset_of, segment_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LEAST = 17
_LARGE_BYTES = 4096
_STEP_BYTES = 128
_RUN_BYTES = 64 * 1024
_PADDING = bytes(HEADER_SIZE)


class HeadWalk:
    """The heads from an entry at `position` on; afterwards `position` is where no complete entry begins.

    Large entries are stepped over, small ones read in one go. `next_intact` finds where the file goes on.
    """

    __slots__ = ("_file", "_limit", "position")

    def __init__(self, file: SegmentFile, position: int = 0, limit: int | None = None) -> None:
        self._file = file
        self._limit = file.end if limit is None else min(limit, file.end)
        self.position = position

    def __iter__(self) -> Iterator[BatchHead]:
        file, limit, position = self._file, self._limit, self.position
        unpack, make, size = HEADER.unpack_from, tuple.__new__, 0
        while position + _LEAST < limit:
            run = file.read(position, _STEP_BYTES if size >= _LARGE_BYTES else _RUN_BYTES, limit)
            # The last entry of a file may be shorter than the head of a batch.
            needed = _LEAST + 1 if position + len(run) >= limit else HEADER_SIZE
            at, last = 0, len(run) - needed
            if last < 0:
                return
            run += _PADDING
            while at <= last:
                fields = unpack(run, at)
                length, magic = fields[1], fields[3]
                if not 0 <= magic <= 2 or length < MIN_LENGTHS[magic]:
                    return
                size = LOG_OVERHEAD + length
                if position + size > limit:
                    return
                if magic < 2:
                    yield BatchHead.at(run, at, position)
                else:
                    yield make(BatchHead, (position, *fields))
                position += size
                self.position = position
                at += size


def next_intact(segment: Segment, file: SegmentFile, position: int) -> ScannedEntry | None:
    """Return the first intact entry at a position or behind it, None without one.

    Use only its header: its bytes go with the scan. Raises `OSError`.
    """
    items = scan(path_of(file), start=position, end=file.end, resync=True, segment_base=segment.base_offset)
    entries = (item for item in items if isinstance(item, ScannedEntry))
    return next((entry for entry in entries if entry.is_valid and not entry.damages), None)


def path_of(file: SegmentFile) -> str:
    """Return a path to an open file, even if a broker has renamed or deleted it."""
    try:
        is_there = os.path.samestat(os.stat(file.path), os.fstat(file.descriptor))
    except FileNotFoundError:
        is_there = False
    return file.path if is_there else f"/dev/fd/{file.descriptor}"


def resynced(segment: Segment, file: SegmentFile, position: int = 0) -> Iterator[BatchHead]:
    """Yield the heads from an entry at `position` on, including those behind damage. Raises `OSError`."""
    while position < file.end:
        walk = HeadWalk(file, position)
        yield from walk
        found = next_intact(segment, file, walk.position) if walk.position < file.end else None
        if found is None:
            return
        position = found.position


def load_index(segment: Segment, file: SegmentFile) -> OffsetIndex:
    """Return the offset index of a segment, empty if it cannot be used. Raises `OSError`."""
    index = OffsetIndex(segment.index_path(INDEX_SUFFIX), segment.base_offset, 0)
    try:
        index.load(file.end)
    except (FileNotFoundError, CorruptIndex):
        return OffsetIndex(index.path, segment.base_offset, 0)
    return index


def entry_at(segment: Segment, file: SegmentFile, position: int) -> BatchHead | None:
    """Return the head of the intact entry at a position, None without one. Raises `OSError`."""
    head = plausible_head(file.read(position, HEADER_SIZE), 0, position, file.end)
    if head is None or head.base_offset < segment.base_offset:
        return None
    return head if file.entry_crc(position, head.size_in_bytes, head.magic) == head.crc else None


def is_sound(segment: Segment, file: SegmentFile, offset: int, position: int) -> bool:
    """Whether an index entry points to a batch that ends with its offset, or to the first of such a run."""
    head = entry_at(segment, file, position)
    return head is not None and head.base_offset <= offset and head.last_offset <= offset


def locate(segment: Segment, file: SegmentFile, target: int, index: OffsetIndex | None = None) -> int:
    """Return where the first entry begins that ends at an offset or above it.

    If damage may have held the offset it is the beginning of the damage; above all entries it is the end of
    the file. Raises `OSError`.
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


class CannotRead(KcliError):
    """The system does not let a file or directory be read."""


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Raise an `OSError` as `CannotRead`, with `path` if the error names no file."""
    try:
        yield
    except OSError as error:
        raise CannotRead(f"cannot read `{error.filename or path}`: {reason_of(error)}") from error


_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class Segment:
    """The log file at `path`, with offsets from `base_offset` on, below `next_base` if one follows."""

    directory: str
    base_offset: int
    path: str
    next_base: int | None = None

    def index_path(self, suffix: str) -> str:
        """Return the path of one of its index files, which may not exist."""
        return segment_path(self.directory, self.base_offset, suffix)


def list_segments(directory: str) -> list[Segment]:
    """Return the segments by base offset. Raises `CannotRead`."""
    names = _names_in(directory)
    paths = dict(_with_suffix(directory, names, LOG_SUFFIX))
    for base, path in _with_suffix(directory, names, LOG_SUFFIX + SWAP_SUFFIX):
        if base not in paths:
            end = _end_of(path, base)
            paths = {other: kept for other, kept in paths.items() if not base < other < end}
            paths[base] = path
    bases = sorted(paths)
    following: list[int | None] = [*bases[1:], None]
    return [Segment(directory, base, paths[base], following[number]) for number, base in enumerate(bases)]


def floor_index(segments: Sequence[Segment], offset: int) -> int:
    """Return the index of the segment for an offset; for an offset below all it is the first."""
    return max(bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1, 0)


def _names_in(directory: str) -> list[str]:
    """Return file names once two listings agree: a rename may hide a file from one of them."""
    with reading(directory):
        names = sorted(os.listdir(directory))
        for _ in range(_ATTEMPTS):
            again = sorted(os.listdir(directory))
            if again == names:
                break
            names = again
    return names


def _with_suffix(directory: str, names: Sequence[str], suffix: str) -> Iterator[tuple[int, str]]:
    for name in names:
        base_offset = base_offset_of(name, suffix)
        if base_offset is not None:
            yield base_offset, f"{directory}/{name}"


def _end_of(path: str, base_offset: int) -> int:
    """Return the offset behind the last entry of a log file, its base offset without one."""
    end = base_offset
    with reading(path), SegmentFile(path) as file:
        for head in HeadWalk(file):
            end = head.last_offset + 1
    return end
