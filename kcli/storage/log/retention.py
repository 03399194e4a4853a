"""Retention: deleting a log's oldest segments.

Three rules, one after the other, each taking segments from the old end until the first it must keep:
those below the log start, those over `retention.bytes`, those older than `retention.ms`. None passes the
high watermark. The active segment qualifies too unless it is empty; a log that is only compacted keeps
all but the first rule (Kafka class `UnifiedLog`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kcli.storage.log.log_segment import LogSegment
    from kcli.storage.log.unified_log import UnifiedLog


def delete_old_segments(log: UnifiedLog, now_ms: int) -> int:
    """Delete the segments that log start, `retention.ms` or `retention.bytes` let go; return how many.

    Their files are renamed now, and the log's `take_due_deletions` hands them out later. Raises `KafkaError`
    KAFKA_STORAGE_ERROR.
    """
    try:
        count = 0
        for deletable in _rules(log, now_ms):
            count += _delete(log, deletable, now_ms)
        return count
    except OSError as error:
        raise log.failed("delete segments of", error) from error


def _delete(log: UnifiedLog, deletable: list[LogSegment], now_ms: int) -> int:
    if not deletable:
        return 0
    if len(deletable) == len(log.segments):
        log.roll_at(log.log_end_offset, now_ms)
    following = log.segments.higher(deletable[-1].base_offset)
    assert following is not None
    # The log start moves first: a crash in between must not leave offsets without records.
    log.raise_log_start(following.base_offset)
    for segment in deletable:
        log.local.remove(segment, now_ms)
        log.delete_snapshot(segment, now_ms)
    return len(deletable)


def _rules(log: UnifiedLog, now_ms: int) -> Iterator[list[LogSegment]]:
    """Yield the segments to delete, rule by rule; the caller deletes before it goes on. Raises `OSError`."""
    yield _below_log_start(log)
    if log.config.is_deleted:
        yield _over_size(log)
        yield _over_age(log, now_ms)


def _below_log_start(log: UnifiedLog) -> list[LogSegment]:
    def may_go(_: LogSegment, following: LogSegment | None) -> bool:
        return following is not None and following.base_offset <= log.log_start_offset

    return _oldest(log, may_go)


def _over_size(log: UnifiedLog) -> list[LogSegment]:
    surplus = log.size_bytes - log.config.retention_bytes
    if log.config.retention_bytes < 0 or surplus < 0:
        return []

    def may_go(segment: LogSegment, _: LogSegment | None) -> bool:
        nonlocal surplus
        if surplus < segment.size:
            return False
        surplus -= segment.size
        return True

    return _oldest(log, may_go)


def _over_age(log: UnifiedLog, now_ms: int) -> list[LogSegment]:
    if log.config.retention_ms < 0:
        return []

    def may_go(segment: LogSegment, _: LogSegment | None) -> bool:
        return now_ms - segment.largest_timestamp > log.config.retention_ms

    return _oldest(log, may_go)


def _oldest(log: UnifiedLog, may_go: Callable[[LogSegment, LogSegment | None], bool]) -> list[LogSegment]:
    deletable = []
    for segment in log.segments:
        following = log.segments.higher(segment.base_offset)
        if following is None and not segment.size:
            break
        end_offset = log.log_end_offset if following is None else following.base_offset
        if log.high_watermark < end_offset or not may_go(segment, following):
            break
        deletable.append(segment)
    return deletable
