"""What a follower does to its log: it appends what it fetched, and truncates what its leader does not have.

Functions, not a class: the log of a replica changes when it moves to another directory. The leader says where
the follower's last epoch ended; the follower truncates to there, epoch by epoch, until both logs are equal
byte for byte (KIP-101, KIP-595; classes `ReplicaFetcherThread` and `AbstractFetcherThread`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kcli.storage.log.unified_log import UnifiedLog

_BATCH_OFFSET_BYTES = 8


def append(log: UnifiedLog, records: memoryview, *, now_ms: int) -> None:
    """Append whole batches from a leader. Raises `KafkaError`."""
    if log.append_run(records):
        return
    try:
        log.append_as_follower(records, now_ms=now_ms)
    except KafkaError as error:
        first_offset = int.from_bytes(records[:_BATCH_OFFSET_BYTES], "big")
        begins_within_batch = first_offset < log.log_end_offset == log.log_start_offset
        if error.code != ErrorCode.OFFSET_OUT_OF_RANGE or not begins_within_batch:
            raise
        # The leader's log starts in the middle of a batch, and this log was empty.
        log.truncate_fully_and_start_at(first_offset, now_ms=now_ms, log_start_offset=log.log_start_offset)
        log.append_as_follower(records, now_ms=now_ms)


def begin(log: UnifiedLog, *, now_ms: int) -> None:
    """Prepare a log for the comparison with a leader's: without epochs only committed records are certain."""
    if not len(log.leader_epochs) and log.log_end_offset > log.high_watermark:
        log.truncate_to(log.high_watermark, now_ms=now_ms)


def truncate_to_epoch(log: UnifiedLog, epoch: int, end_offset: int, *, now_ms: int) -> None:
    """Truncate the diverging end, given that the leader's log has `epoch` up to `end_offset`.

    If this log does not know the epoch, its next fetch asks again, from further back. Raises `KafkaError`.
    """
    own_epoch, own_end = log.end_offset_for_epoch(epoch)
    target = min(end_offset, log.log_end_offset)
    if own_epoch >= 0:
        # An epoch below all known ones would be answered as if it were known.
        knows = own_epoch == epoch
        target = min(own_end, target) if knows else min(own_end, log.log_end_offset)
    log.truncate_to(target, now_ms=now_ms)


def fit(log: UnifiedLog, leader_start: int, leader_end: int, *, now_ms: int) -> None:
    """Bring a log that is out of range into the range of its leader's. Raises `KafkaError`."""
    if leader_end < log.log_end_offset:
        log.truncate_to(leader_end, now_ms=now_ms)
    elif leader_start > log.log_end_offset:
        log.truncate_fully_and_start_at(leader_start, now_ms=now_ms)


def follow_offsets(log: UnifiedLog, *, high_watermark: int, log_start_offset: int) -> None:
    """Take over a leader's high watermark and log start, within this log. Raises `KafkaError`."""
    log.advance_high_watermark(high_watermark)
    if log_start_offset > log.log_start_offset:
        log.raise_log_start(min(log_start_offset, log.log_end_offset))
