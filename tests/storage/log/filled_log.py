"""The content of a filled log, and the entries of its indexes."""

from __future__ import annotations

from tests.storage.log_harness import LogHarness

VALUES = [b"%d-" % number + b"x" * 50 for number in range(100)]


def index_entries(log: LogHarness) -> list[list[tuple[int, int]]]:
    """Return the entries of both indexes of every segment."""
    return [
        entries
        for segment in log.log.segments
        for entries in (segment.indexes.offsets.entries(), segment.indexes.times.entries())
    ]
