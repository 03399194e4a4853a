"""CleaningStats: what a round has read, kept and dropped."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class CleaningStats:
    """Counts of one round; the reasons why records went are counted in records."""

    segments_before: int = 0
    segments_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    records_before: int = 0
    records_after: int = 0
    superseded: int = 0
    """Records with a newer one of the same key."""
    tombstones: int = 0
    aborted: int = 0
    markers: int = 0
    keyless: int = 0
    horizons: int = 0
    """Batches that got a delete horizon."""
    map_bytes_read: int = 0
    map_utilization: float = 0.0
