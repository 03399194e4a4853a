"""StoredFile: one Parquet file of an export, and which of them must be read together."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A committed file: rows of one partition by offset, all within `start` to `end` (excluded)."""

    path: str
    topic: str
    partition: int
    start: int
    end: int
    rows: int
    size_bytes: int = 0


def by_partition(files: Iterable[StoredFile]) -> dict[int, list[StoredFile]]:
    """Return the files of each partition in the order of their offsets; those without rows are left out."""
    partitions: dict[int, list[StoredFile]] = {}
    for file in sorted(files, key=attrgetter("partition", "start", "end", "path")):
        if file.rows:
            partitions.setdefault(file.partition, []).append(file)
    return partitions


def runs(files: Iterable[StoredFile]) -> list[list[StoredFile]]:
    """Group a partition's ordered files by overlapping ranges.

    Files of a group hold rows of the same offsets, split by date: only merged do they give the order back.
    """
    grouped: list[list[StoredFile]] = []
    end = -1
    for file in files:
        if not grouped or file.start >= end:
            grouped.append([])
        grouped[-1].append(file)
        end = max(end, file.end)
    return grouped
