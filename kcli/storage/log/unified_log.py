"""UnifiedLog: one replica of one partition: its segments, offsets, producers and leader epochs.

    log start offset <= last stable offset <= high watermark <= log end offset
    recovery point <= log end offset

The log start is the first offset that may be read, the log end the one that the next record gets. Below the
high watermark records are on all in-sync replicas; below the last stable offset no transaction is open. Below
the recovery point everything is on disk for good, and a start after a crash trusts it.

Every method is synchronous and is called from one thread; `FlushPlan.run` and `validate` alone may run in
another. Times are parameters. An `OSError` is reported to `on_failure`, which takes the log directory out of
service, and reaches the caller as KAFKA_STORAGE_ERROR: nothing that was acknowledged is touched by it, and a
record set that could not be written whole is cut off again.

How a log is appended to and read is in `log_append` and `log_read`; what else is done to one are functions
of `timestamp_search`, `flush_plan`, `log_truncation` and `retention`. Files and positions are the business of
its `LocalLog` (Kafka classes `UnifiedLog` and `LocalLog`).

Cutting a log: at its end, as a follower does that parted from its leader, or all of it.

Finding offsets in a log by time, as ListOffsets asks for them.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kcli.errors import reason_of
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.storage.log import log_appender as log_append
from kcli.storage.log import log_read
from kcli.storage.log.local_log import flush
from kcli.storage.log.log_appender import NOT_PLAIN, append_plain, plain_info
from kcli.storage.log.log_validator import MAX_DECOMPRESSED_BYTES, LogValidator, ValidatedRecords
from kcli.storage.producers.producer_snapshot import rebuild_producer_state, take_snapshot
from kcli.storage.producers.producer_state import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kcli.protocol.corruption import Buffer
    from kcli.protocol.topics import TopicPartition
    from kcli.storage.log.file_records import WriteAhead
    from kcli.storage.log.leader_epochs import LeaderEpochs
    from kcli.storage.log.local_log import LocalLog
    from kcli.storage.log.log_appender import LogAppendInfo
    from kcli.storage.log.log_config import LogConfig
    from kcli.storage.log.log_read import Isolation, LogOffsetMetadata, LogRead
    from kcli.storage.log.log_segment import LogSegment
    from kcli.storage.producers.producer_snapshot import ProducerSnapshots
    from kcli.storage.producers.producer_state import ProducerStateEntry, ProducerStateManager


class UnifiedLog:
    """A loaded log. `log_loader.load_log` makes one from a replica directory."""

    __slots__ = (
        "_on_failure",
        "failure",
        "high_watermark",
        "high_watermark_metadata",
        "is_future",
        "leader_epochs",
        "local",
        "log_start_offset",
        "producer_state",
        "report",
        "segments",
        "snapshots",
        "topic_id",
        "topic_partition",
        "unsynced_snapshots",
        "validator",
    )

    def __init__(
        self,
        local: LocalLog,
        *,
        topic_partition: TopicPartition,
        topic_id: bytes | None,
        leader_epochs: LeaderEpochs,
        producer_state: ProducerStateManager,
        snapshots: ProducerSnapshots,
        log_start_offset: int,
        report: Callable[[str], None],
        on_failure: Callable[[UnifiedLog, str], None],
        is_future: bool = False,
    ) -> None:
        self.local = local
        self.segments = local.segments
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.validator = LogValidator(local.config)
        self.leader_epochs = leader_epochs
        self.producer_state = producer_state
        self.snapshots = snapshots
        self.log_start_offset = log_start_offset
        self.high_watermark = log_start_offset
        self.is_future = is_future
        self.high_watermark_metadata: LogOffsetMetadata | None = None
        self.unsynced_snapshots: list[int] = []
        self.report = report
        self._on_failure = on_failure
        # Why the log is out of service.
        self.failure: str | None = None

    def __repr__(self) -> str:
        return (
            f"UnifiedLog({self.topic_partition}, log_start_offset={self.log_start_offset}, "
            f"high_watermark={self.high_watermark}, log_end_offset={self.log_end_offset})"
        )

    # --- offsets

    @property
    def config(self) -> LogConfig:
        """The topic's configuration as far as it concerns the log."""
        return self.local.config

    @property
    def directory(self) -> str:
        """The path of the replica's directory."""
        return self.local.directory

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.local.end_offset

    @property
    def recovery_point(self) -> int:
        """The offset below which everything is on disk for good."""
        return self.local.recovery_point

    @property
    def parent_directory(self) -> str:
        """The log directory that this replica is in."""
        return os.path.dirname(self.directory)

    @property
    def size_bytes(self) -> int:
        """Bytes of records."""
        return self.segments.size_bytes

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction has ended."""
        unstable = self.producer_state.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    def advance_high_watermark_to_end(self) -> None:
        """Move the high watermark up to the log end: there is no other replica to wait for."""
        self.high_watermark = end_offset = self.local.end_offset
        self.producer_state.high_watermark_moved(end_offset)

    def advance_high_watermark(self, offset: int) -> bool:
        """Move the high watermark up to `offset`, at most to the log end; return whether it moved."""
        end_offset = self.local.end_offset
        if offset > end_offset:
            offset = end_offset
        if offset <= self.high_watermark:
            return False
        self._set_high_watermark(offset)
        return True

    def set_high_watermark(self, offset: int) -> int:
        """Set the high watermark, within the log, as a restart or a follower does; return it."""
        self._set_high_watermark(max(min(offset, self.log_end_offset), self.log_start_offset))
        return self.high_watermark

    def _set_high_watermark(self, offset: int) -> None:
        self.high_watermark = offset
        # Another position may belong to the same offset after a truncation.
        self.high_watermark_metadata = None
        self.producer_state.high_watermark_moved(offset)

    # --- append

    def append_as_leader(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        max_decompressed: int = MAX_DECOMPRESSED_BYTES,
    ) -> LogAppendInfo:
        """Check records, give them offsets and the leader's epoch, and write them.

        A writable buffer is patched in place and written as it is; the log keeps no reference to it. Raises
        `KafkaError` CORRUPT_MESSAGE (2), MESSAGE_TOO_LARGE (10), RECORD_LIST_TOO_LARGE (18),
        OUT_OF_ORDER_SEQUENCE_NUMBER (45), INVALID_PRODUCER_EPOCH (47), INVALID_TXN_STATE (48),
        KAFKA_STORAGE_ERROR (56) and `InvalidRecords` (32, 87); nothing was written then.
        """
        if type(records) is memoryview and origin is Origin.CLIENT and not records.readonly:
            first_offset = append_plain(self, records, leader_epoch, now_ms)
            if first_offset != NOT_PLAIN:
                return plain_info(self, records, first_offset)
        validated = self.validator.validate(
            records, now_ms=now_ms, origin=origin, max_decompressed=max_decompressed
        )
        return self.append(validated, leader_epoch=leader_epoch, now_ms=now_ms)

    def append(
        self,
        validated: ValidatedRecords,
        *,
        leader_epoch: int,
        now_ms: int,
        written: WriteAhead | None = None,
    ) -> LogAppendInfo:
        """Give validated records offsets and the leader's epoch, and write them. Raises `KafkaError`.

        What `write_ahead` returned and has been run is not written again.
        """
        return log_append.append_validated(
            self, validated, leader_epoch=leader_epoch, now_ms=now_ms, written=written
        )

    def write_ahead(
        self, validated: ValidatedRecords, *, leader_epoch: int, now_ms: int
    ) -> WriteAhead | None:
        """Return what writes validated records where `append` will want them, None if that is not known yet.

        It may run in another thread. Until `append` has been called, or it was undone, nothing else may be
        appended. Raises `KafkaError` KAFKA_STORAGE_ERROR.
        """
        return log_append.write_ahead(self, validated, leader_epoch=leader_epoch, now_ms=now_ms)

    def append_as_follower(self, records: Buffer, *, now_ms: int) -> LogAppendInfo:
        """Write records as the leader has them; offsets may have holes but never go back.

        Raises `KafkaError` CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE when they begin below the log end,
        RECORD_LIST_TOO_LARGE and KAFKA_STORAGE_ERROR.
        """
        return log_append.append_replicated(self, records, now_ms)

    # --- roll

    def roll(self, *, now_ms: int) -> None:
        """Begin a new segment at the log end. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
        try:
            self.roll_at(self.log_end_offset, now_ms)
        except OSError as error:
            raise self.failed("roll", error) from error

    def roll_at(self, base_offset: int, now_ms: int) -> LogSegment:
        """Begin a new segment at `base_offset`, not below the log end, and return it. Raises `OSError`."""
        segment = self.local.roll(base_offset, now_ms)
        self.producer_state.map_end_offset = max(self.producer_state.map_end_offset, base_offset)
        self._take_snapshot()
        return segment

    def _take_snapshot(self) -> None:
        snapshot = take_snapshot(self.producer_state, self.snapshots)
        if snapshot is not None:
            self.unsynced_snapshots.append(snapshot)

    # --- read

    def read(self, offset: int, max_bytes: int, *, isolation: Isolation, min_one: bool = True) -> LogRead:
        """Find the records from `offset` on, up to what `isolation` allows and about `max_bytes`.

        With `min_one` the first batch is in the slice however large it is. Raises `KafkaError`
        OFFSET_OUT_OF_RANGE (also below the log start), CORRUPT_MESSAGE and KAFKA_STORAGE_ERROR.
        """
        return log_read.read(self, offset, max_bytes, isolation, min_one)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return (epoch, end offset) of the largest known epoch up to the one given, (-1, -1) if none."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    def active_producers(self) -> list[ProducerStateEntry]:
        """Return the producers that the log knows."""
        return list(self.producer_state.producers.values())

    # --- delete

    def delete_records_before(self, offset: int) -> int:
        """Move the log start up to `offset`, and return it; segments below go with the next retention run.

        Raises `KafkaError` OFFSET_OUT_OF_RANGE above the high watermark or below 0, and KAFKA_STORAGE_ERROR.
        """
        if not 0 <= offset <= self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not within 0 to {self.high_watermark}: {self.topic_partition}",
            )
        self.raise_log_start(offset)
        return self.log_start_offset

    def raise_log_start(self, offset: int) -> None:
        """Move the log start up to `offset`, if it is below. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        try:
            self.leader_epochs.truncate_from_start(offset)
        except OSError as error:
            raise self.failed("move the start of", error) from error
        self.producer_state.log_start_moved(offset)

    def delete_snapshot(self, segment: LogSegment, now_ms: int) -> None:
        """Mark the producer snapshot of a removed segment deleted. Raises `OSError`."""
        snapshot = self.snapshots.mark_deleted(segment.base_offset)
        if snapshot is not None:
            self.local.delete_later(snapshot, now_ms)

    def take_due_deletions(self, now_ms: int) -> list[str]:
        """Return the files that were marked deleted long enough ago, for the caller to unlink."""
        return self.local.take_due_deletions(now_ms)

    # --- life

    def update_config(self, config: LogConfig) -> None:
        """Act on another configuration from now on. Segments keep the index settings they were made with."""
        self.local.config = config
        self.segments.active.forget_timestamp_limit()
        self.validator = LogValidator(config)

    def rename_directory(self, name: str) -> None:
        """Rename the replica's directory within its log directory. Raises `KafkaError`."""
        path = f"{self.parent_directory}/{name}"
        try:
            self.local.rename_directory(path)
        except OSError as error:
            raise self.failed("rename", error) from error
        self.snapshots.directory = self.leader_epochs.directory = path

    def close(self, *, now_ms: int) -> None:
        """Make everything durable, with finished indexes and a producer snapshot, and let go of the files.

        Raises `KafkaError` KAFKA_STORAGE_ERROR.
        """
        try:
            self._take_snapshot()
            for segment in self.segments:
                segment.finish()
        except OSError as error:
            raise self.failed("close", error) from error
        flush(self, now_ms=now_ms)
        self.close_handlers()

    def close_handlers(self) -> None:
        """Let go of the files, writing nothing."""
        self.local.close_handlers()

    def go_offline(self, reason: str) -> None:
        """Let go of the files and refuse every read and append from now on: the directory has failed."""
        self.failure = reason
        self.local.close_handlers()

    def failed(self, doing: str, error: OSError | CorruptRecord) -> KafkaError:
        """Take the log directory out of service for an I/O error; return what to raise."""
        message = f"cannot {doing} {self.topic_partition} in `{self.parent_directory}`: {reason_of(error)}"
        self.failure = message
        self._on_failure(self, message)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)


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


LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2


@contextmanager
def _reading(log: UnifiedLog) -> Iterator[None]:
    """Turn what reading the files raises into `KafkaError` CORRUPT_MESSAGE and KAFKA_STORAGE_ERROR."""
    try:
        yield
    except CorruptRecord as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, error.message) from error
    except OSError as error:
        raise log.failed("search", error) from error


def offset_for_timestamp(log: UnifiedLog, timestamp: int) -> tuple[int, int, int] | None:
    """Return (timestamp, offset, leader epoch) of the first record at or after `timestamp`, None without one.

    Raises `KafkaError` CORRUPT_MESSAGE and KAFKA_STORAGE_ERROR, as the next two do.
    """
    with _reading(log):
        for segment in log.segments:
            if segment.largest_timestamp >= timestamp:
                found = segment.find_offset_by_timestamp(timestamp, log.log_start_offset)
                # The record that made the segment qualify may lie below the log start.
                if found is not None:
                    return found
    return None


def offset_of_max_timestamp(log: UnifiedLog) -> tuple[int, int, int] | None:
    """Return (timestamp, offset, leader epoch) of the first record with the largest timestamp.

    None for a log without timestamps (KIP-734).
    """
    with _reading(log):
        newest = max(log.segments, key=lambda segment: segment.indexes.max_timestamp)
        largest = newest.indexes.max_timestamp
        if largest < 0:
            return None
        return newest.first_with_timestamp(largest, newest.indexes.offset_of_max_timestamp)


def offsets_before(log: UnifiedLog, timestamp: int, *, max_offsets: int, now_ms: int) -> list[int]:
    """Return up to `max_offsets` offsets, newest first, that segments began at before `timestamp`.

    The time of a segment is when its file was written last. -1 stands for the log end, -2 for the log start.
    ListOffsets version 0 knows nothing finer (Kafka's `legacyFetchOffsetsBefore`).
    """
    with _reading(log):
        starts = [
            (max(segment.base_offset, log.log_start_offset), segment.modified_ms) for segment in log.segments
        ]
    if log.segments.active.size:
        starts.append((log.log_end_offset, now_ms))
    if timestamp == EARLIEST_TIMESTAMP:
        count = 1
    elif timestamp == LATEST_TIMESTAMP:
        count = len(starts)
    else:
        count = max(
            (i + 1 for i, (_, modified_ms) in enumerate(starts) if modified_ms <= timestamp), default=0
        )
    return sorted((offset for offset, _ in starts[max(count - max_offsets, 0) : count]), reverse=True)
