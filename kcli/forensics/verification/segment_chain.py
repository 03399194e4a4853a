"""ReplicaListing: the files of a replica directory; SegmentChain: whether its segments follow each other."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from kcli.forensics.verification.findings import Finding, FindingKind
from kcli.storage.log_paths import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    base_offset_of,
    offset_text,
    segment_path,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class ReplicaListing(NamedTuple):
    """The files of a replica directory: base offsets of its segments, offsets of snapshots, all names."""

    directory: str
    segments: list[int]
    snapshots: list[int]
    names: frozenset[str]

    @classmethod
    def of(cls, directory: str) -> ReplicaListing:
        """List a directory. Raises `OSError`."""
        names = frozenset(os.listdir(directory))
        return cls(directory, _offsets(names, LOG_SUFFIX), _offsets(names, SNAPSHOT_SUFFIX), names)

    def path(self, base_offset: int, suffix: str) -> str:
        return segment_path(self.directory, base_offset, suffix)

    def has(self, base_offset: int, suffix: str) -> bool:
        return f"{offset_text(base_offset)}{suffix}" in self.names

    def report_names(self, report: Callable[[Finding], None]) -> None:
        """Report files that are missing, superfluous or misnamed."""
        bases, suffixes = set(self.segments), (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX)
        for name in sorted(self.names):
            path = f"{self.directory}/{name}"
            if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX)):
                report(Finding(path, FindingKind.TRANSIENT_FILE, "left by a compaction, or part of one"))
                continue
            suffix = next((each for each in suffixes if name.endswith(each)), None)
            if suffix is None:
                continue
            offset = base_offset_of(name, suffix)
            if offset is None or name != f"{offset_text(offset)}{suffix}":
                message = "an offset of 20 digits and a suffix is wanted"
                report(Finding(path, FindingKind.BAD_FILE_NAME, message))
            elif suffix not in (LOG_SUFFIX, SNAPSHOT_SUFFIX) and offset not in bases:
                message = f"there is no {offset_text(offset)}{LOG_SUFFIX}"
                report(Finding(path, FindingKind.ORPHAN_INDEX, message, None, offset))
        for base in self.segments:
            for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                if not self.has(base, suffix):
                    report(Finding(self.path(base, suffix), FindingKind.INDEX_MISSING, "no such file"))


class SegmentChain:
    """Follows the offsets of all batches: the offset expected next, and the gaps."""

    def __init__(self, report: Callable[[Finding], None]) -> None:
        self._report = report
        self.expected = -1
        """The offset behind the last batch, -1 before the first one."""
        self.has_holes = False
        """Whether offsets are missing inside segments: then records were compacted away."""
        self.is_damaged = False
        """Whether something could not be read, which may explain missing offsets."""
        self.is_end_known = True
        """Whether the last thing read was a sound batch; damage may hide later offsets."""
        self._gaps: list[tuple[str, int, int]] = []

    def begin(self, path: str, base_offset: int) -> None:
        """Go on to the segment at `base_offset`."""
        if self.expected >= 0:
            if base_offset < self.expected:
                message = f"the segment before it reaches to offset {self.expected - 1}"
                self._report(Finding(path, FindingKind.SEGMENT_OVERLAP, message, None, base_offset))
            elif base_offset > self.expected and not self.is_damaged:
                self._gaps.append((path, self.expected, base_offset))
        self.expected = base_offset

    def finish(self, *, is_compacted: bool) -> None:
        """Report the gaps between segments, now that it is known whether the log was compacted."""
        compacted = is_compacted or self.has_holes
        for path, start, stop in self._gaps if not compacted else ():
            message = f"offsets {start} to {stop - 1} are missing before it"
            self._report(Finding(path, FindingKind.SEGMENT_GAP, message, None, start))


def _offsets(names: frozenset[str], suffix: str) -> list[int]:
    offsets = (base_offset_of(name, suffix) for name in names)
    return sorted(
        offset for offset in offsets if offset is not None and f"{offset_text(offset)}{suffix}" in names
    )
