"""Cutting a log: at its end, as a follower does that parted from its leader, or all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.record import CorruptRecord
from kcli.storage.producer_recovery import rebuild_producer_state

if TYPE_CHECKING:
    from kcli.storage.unified_log import UnifiedLog


def truncate_to(log: UnifiedLog, offset: int, *, now_ms: int) -> bool:
    """Drop the records at and above `offset`; return whether there were any. Raises `KafkaError`."""
    if offset < 0:
        raise ValueError(f"cannot truncate {log!r} to offset {offset}")
    try:
        if offset >= log.log_end_offset:
            log.leader_epochs.truncate_from_end(log.log_end_offset)
            return False
        if offset < log.segments.first.base_offset:
            _start_over_at(log, offset, offset, now_ms)
            return True
        for segment in log.local.truncate_to(offset, now_ms):
            log.delete_snapshot(segment, now_ms)
        log.leader_epochs.truncate_from_end(offset)
        log.log_start_offset = min(offset, log.log_start_offset)
        _rebuild_producers(log, now_ms)
        log.set_high_watermark(min(log.high_watermark, offset))
    except (OSError, CorruptRecord) as error:
        raise log.failed("truncate", error) from error
    return True


def truncate_fully_and_start_at(
    log: UnifiedLog, offset: int, *, now_ms: int, log_start_offset: int | None = None
) -> None:
    """Drop all records; the next one gets `offset`. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
    try:
        _start_over_at(log, offset, offset if log_start_offset is None else log_start_offset, now_ms)
    except OSError as error:
        raise log.failed("truncate", error) from error


def _start_over_at(log: UnifiedLog, offset: int, log_start_offset: int, now_ms: int) -> None:
    log.local.start_over_at(offset, now_ms)
    log.leader_epochs.clear()
    log.snapshots.remove_if(above=-1)
    log.producer_state.clear(offset)
    log.log_start_offset = log_start_offset
    log.set_high_watermark(offset)


def _rebuild_producers(log: UnifiedLog, now_ms: int) -> None:
    rebuild_producer_state(
        log.producer_state,
        log.snapshots,
        log.segments,
        log_start_offset=log.log_start_offset,
        end_offset=log.log_end_offset,
        now_ms=now_ms,
        report=log.report,
    )
