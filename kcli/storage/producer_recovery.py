"""Building the producer state of a log from its snapshots and segments.

The newest valid snapshot is loaded and the batches behind it are replayed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.storage.producer_append import Origin, ProducerAppends
from kcli.storage.producer_snapshot import CorruptSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.protocol.records.batch import RecordBatch
    from kcli.protocol.records.message_set import LegacyEntry
    from kcli.storage.log_segment import LogSegment
    from kcli.storage.log_segments import LogSegments
    from kcli.storage.producer_snapshot import ProducerSnapshots
    from kcli.storage.producer_state import ProducerStateManager


def rebuild_producer_state(
    state: ProducerStateManager,
    snapshots: ProducerSnapshots,
    segments: LogSegments,
    *,
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
    report: Callable[[str], None],
) -> None:
    """Make the state that of everything below `end_offset`, and write its snapshot.

    Snapshots at and below the log start or above the end are deleted: they are of no use any more. Raises
    `CorruptRecord` and `OSError`.
    """
    snapshots.remove_if(below=log_start_offset + 1, above=end_offset)
    load_newest_snapshot(state, snapshots, log_start_offset=log_start_offset, now_ms=now_ms, report=report)
    for segment in segments.between(state.map_end_offset, end_offset):
        start = max(segment.base_offset, state.map_end_offset, log_start_offset)
        entry = segment.find(start)
        if entry is None:
            continue
        for _, batch in segment.batches(entry.position):
            if batch.last_offset >= end_offset:
                break
            if batch.last_offset >= start:
                replay(state, batch)
    state.map_end_offset = end_offset
    take_snapshot(state, snapshots)


def load_newest_snapshot(
    state: ProducerStateManager,
    snapshots: ProducerSnapshots,
    *,
    log_start_offset: int,
    now_ms: int,
    report: Callable[[str], None],
) -> None:
    """Load the newest snapshot that is valid, deleting newer ones that are not. Raises `OSError`."""
    while (offset := snapshots.latest) is not None:
        try:
            state.load(snapshots.read(offset), end_offset=offset, now_ms=now_ms)
            return
        except CorruptSnapshot as error:
            report(f"deleting a damaged producer snapshot: {error}: `{snapshots.path(offset)}`")
            snapshots.remove(offset)
    state.clear(log_start_offset)


def take_snapshot(state: ProducerStateManager, snapshots: ProducerSnapshots) -> int | None:
    """Write the snapshot at the state's end, unless there is one as new; return its offset."""
    if state.map_end_offset <= (snapshots.latest or 0):
        return None
    snapshots.write(state.map_end_offset, state.producers.values())
    return state.map_end_offset


def replay(
    state: ProducerStateManager, batch: RecordBatch | LegacyEntry, segment: LogSegment | None = None
) -> None:
    """Take over one batch of the log; with its segment, aborted transactions enter that segment's index.

    Raises `CorruptRecord` and `OSError`.
    """
    if batch.producer_id >= 0:
        appends = ProducerAppends(state)
        appends.check((batch,), Origin.REPLICATION)
        appends.publish(segment)
    state.map_end_offset = batch.last_offset + 1
