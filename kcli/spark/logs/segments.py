"""Segments of a replica: which files there are at a moment, and which of them holds an offset.

A broker rolls, deletes and compacts segments while they are read, so a list is good for as long as its files
can be opened. A compacted segment that is about to be swapped in (`.log.swap`) counts if what it replaces is
gone; others that went into it and are still there do not.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.forensics.entries.segment_file import SegmentFile
from kcli.spark.logs.head_walk import HeadWalk
from kcli.spark.logs.read_errors import reading
from kcli.storage.log_paths import LOG_SUFFIX, SWAP_SUFFIX, base_offset_of, segment_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class Segment:
    """The log file at `path`; its offsets are from `base_offset` on, and below `next_base` if one follows."""

    directory: str
    base_offset: int
    path: str
    next_base: int | None = None

    def index_path(self, suffix: str) -> str:
        """Return the path of one of its index files, which need not exist."""
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
    """Return the number of the segment that an offset belongs in: the first one for what lies below all."""
    return max(bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1, 0)


def _names_in(directory: str) -> list[str]:
    """Return the names of files, as two listings agree: a rename may hide a file from one of them."""
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
    """Return the offset behind the last one of a log file, its base offset if it cannot be read."""
    end = base_offset
    with reading(path), SegmentFile(path) as file:
        for head in HeadWalk(file):
            end = head.last_offset + 1
    return end
