"""UnifiedLog: one replica of one partition: its segments, offsets, producers and leader epochs.

    log start offset <= last stable offset <= high watermark <= log end offset
    recovery point <= log end offset

The log start is the first offset that may be read, the log end the one that the next record gets. Below the
high watermark records are on all in-sync replicas; below the last stable offset no transaction is open. Below
the recovery point everything is on disk for good, and a start after a crash trusts it.

Every method is synchronous and is called from one thread; `FlushPlan.run` and `validate` alone may run in
another. Times are parameters. An `OSError` is reported to `on_failure`, which takes the log directory out of
service, and reaches the caller as KAFKA_STORAGE_ERROR: nothing that was acknowledged is touched by it, and a
record set that could not be written whole is cut off again (Kafka classes `UnifiedLog` and `LocalLog`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.record import NO_TIMESTAMP, CorruptRecord
from kcli.protocol.record_batch_header import set_base_offset_and_epoch
from kcli.storage import retention, timestamp_search
from kcli.storage.append_info import AppendInfo
from kcli.storage.follower_records import whole_batches
from kcli.storage.index_file import CorruptIndex
from kcli.storage.log_paths import PARTITION_METADATA
from kcli.storage.log_read import Isolation, LogOffsetMetadata, LogRead
from kcli.storage.log_validator import (
    MAX_DECOMPRESSED_BYTES,
    InvalidRecords,
    LogValidator,
    ValidatedRecords,
)
from kcli.storage.producer_append import Origin, ProducerAppends
from kcli.storage.producer_recovery import rebuild_producer_state, take_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcli.protocol.message_set import LegacyEntry
    from kcli.protocol.record import Buffer
    from kcli.protocol.record_batch import RecordBatch
    from kcli.storage.file_records import WriteAhead
    from kcli.storage.flush_plan import FlushPlan
    from kcli.storage.leader_epochs import LeaderEpochs
    from kcli.storage.local_log import LocalLog
    from kcli.storage.log_config import LogConfig
    from kcli.storage.log_paths import TopicPartition
    from kcli.storage.log_segment import LogSegment
    from kcli.storage.producer_snapshot import ProducerSnapshots
    from kcli.storage.producer_state import BatchMetadata, ProducerStateEntry, ProducerStateManager

__all__ = [
    "AppendInfo",
    "InvalidRecords",
    "Isolation",
    "LogOffsetMetadata",
    "LogRead",
    "Origin",
    "UnifiedLog",
    "ValidatedRecords",
]

UNKNOWN_OFFSET = -1

_Found = TypeVar("_Found")


class UnifiedLog:
    """A loaded log. `log_loader.load_log` makes one from a replica directory."""

    __slots__ = (
        "_failure",
        "_high_watermark_metadata",
        "_local",
        "_on_failure",
        "_report",
        "_unsynced_snapshots",
        "high_watermark",
        "is_future",
        "leader_epochs",
        "log_start_offset",
        "producer_state",
        "segments",
        "snapshots",
        "topic_id",
        "topic_partition",
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
        self._local = local
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
        self._high_watermark_metadata: LogOffsetMetadata | None = None
        self._unsynced_snapshots: list[int] = []
        self._report = report
        self._on_failure = on_failure
        # Why the log is out of service.
        self._failure: str | None = None

    def __repr__(self) -> str:
        return (
            f"UnifiedLog({self.topic_partition}, log_start_offset={self.log_start_offset}, "
            f"high_watermark={self.high_watermark}, log_end_offset={self.log_end_offset})"
        )

    # --- offsets

    @property
    def config(self) -> LogConfig:
        """The topic's configuration as far as it concerns the log."""
        return self._local.config

    @property
    def directory(self) -> str:
        """The path of the replica's directory."""
        return self._local.directory

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._local.end_offset

    @property
    def recovery_point(self) -> int:
        """The offset below which everything is on disk for good."""
        return self._local.recovery_point

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

    def advance_high_watermark(self, offset: int) -> bool:
        """Move the high watermark up to `offset`, at most to the log end; return whether it moved."""
        end_offset = self._local.end_offset
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
        # Where that is, is looked up when a read needs it.
        self._high_watermark_metadata = None
        self.producer_state.high_watermark_moved(offset)

    # --- append

    def validate(
        self,
        records: Buffer,
        *,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        max_decompressed: int = MAX_DECOMPRESSED_BYTES,
    ) -> ValidatedRecords:
        """Check records for `append`; see `LogValidator.validate`. May run in another thread."""
        return self.validator.validate(
            records, now_ms=now_ms, origin=origin, max_decompressed=max_decompressed
        )

    def append_as_leader(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        max_decompressed: int = MAX_DECOMPRESSED_BYTES,
    ) -> AppendInfo:
        """Check records, give them offsets and the leader's epoch, and write them.

        A writable buffer is patched in place and written as it is; the log keeps no reference to it. Raises
        `KafkaError` CORRUPT_MESSAGE (2), MESSAGE_TOO_LARGE (10), RECORD_LIST_TOO_LARGE (18),
        OUT_OF_ORDER_SEQUENCE_NUMBER (45), INVALID_PRODUCER_EPOCH (47), INVALID_TXN_STATE (48),
        KAFKA_STORAGE_ERROR (56) and `InvalidRecords` (32, 87); nothing was written then.
        """
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
    ) -> AppendInfo:
        """Give validated records offsets and the leader's epoch, and write them. Raises `KafkaError`.

        What `write_ahead` returned and has been run is not written again.
        """
        self._stamp(validated, leader_epoch)
        info = self._append(validated.data, validated.batches, validated.origin, now_ms, written)
        if not info.duplicate:
            for batch in validated.batches:
                info.records_count += batch.count
            info.log_append_time = validated.log_append_time
        return info

    def write_ahead(
        self, validated: ValidatedRecords, *, leader_epoch: int, now_ms: int
    ) -> WriteAhead | None:
        """Return what writes validated records where `append` will want them, None if that is not known yet.

        It may run in another thread. Until `append` has been called, or it was undone, nothing else may be
        appended. Raises `KafkaError` KAFKA_STORAGE_ERROR.
        """
        self._stamp(validated, leader_epoch)
        size, segment = len(validated.data), self.segments.active
        if not validated.batches or self._failure is not None:
            return None
        last = validated.batches[-1]
        try:
            if segment.should_roll(size, last.last_offset, last.max_timestamp, self.config, now_ms):
                return None
            return segment.records.write_ahead(validated.data)
        except OSError as error:
            raise self.failed("append to", error) from error

    def _stamp(self, validated: ValidatedRecords, leader_epoch: int) -> None:
        offset = self.log_end_offset
        for batch in validated.batches:
            set_base_offset_and_epoch(validated.data, batch.position, offset, leader_epoch)
            batch.base_offset = offset
            batch.partition_leader_epoch = leader_epoch
            offset += batch.last_offset_delta + 1

    def append_as_follower(self, records: Buffer, *, now_ms: int) -> AppendInfo:
        """Write records as the leader has them; offsets may have holes but never go back.

        Raises `KafkaError` CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE when they begin below the log end,
        RECORD_LIST_TOO_LARGE and KAFKA_STORAGE_ERROR.
        """
        data, batches = whole_batches(records, self.log_end_offset)
        return self._append(data, batches, Origin.REPLICATION, now_ms)

    def _append(
        self,
        data: Buffer,
        batches: Sequence[RecordBatch | LegacyEntry],
        origin: Origin,
        now_ms: int,
        written: WriteAhead | None = None,
    ) -> AppendInfo:
        size = len(data)
        local = self._local
        config = local.config
        if self._failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self._failure)
        if size > config.segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{size} bytes are more than a segment holds, segment.bytes: {config.segment_bytes}",
            )
        if not batches:
            start = self.log_start_offset
            return AppendInfo(UNKNOWN_OFFSET, UNKNOWN_OFFSET, NO_TIMESTAMP, NO_TIMESTAMP, start)
        first = batches[0]
        # An older entry's first offset is inside; its last one does for everything it is needed for.
        first_offset = first.base_offset if first.magic == 2 else first.last_offset
        last_offset = batches[-1].last_offset
        if len(batches) == 1:
            max_timestamp = first.max_timestamp
            has_producer = first.producer_id >= 0
        else:
            max_timestamp = max([batch.max_timestamp for batch in batches])
            has_producer = any(batch.producer_id >= 0 for batch in batches)
        producer = self.producer_state.continued_by(first) if has_producer and len(batches) == 1 else None
        appends = None
        if has_producer and producer is None:
            appends = ProducerAppends(self.producer_state)
            try:
                duplicate = appends.check(batches, origin)
            except CorruptRecord as error:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, error.message) from error
            if duplicate is not None:
                return self._duplicate_info(duplicate)
        try:
            segment = self.segments.active
            if segment.should_roll(size, last_offset, max_timestamp, config, now_ms):
                segment = self._roll(max(first_offset, local.end_offset), now_ms)
            for batch in batches:
                if batch.partition_leader_epoch != self.leader_epochs.latest_epoch:
                    self._assign_epoch(batch)
            segment.append(data, batches, written)
            local.set_end(last_offset + 1)
            if producer is not None:
                producer.add(first.last_sequence, first_offset, last_offset, max_timestamp)
            elif appends is not None:
                appends.publish(segment)
        except OSError as error:
            raise self.failed("append to", error) from error
        self.producer_state.map_end_offset = last_offset + 1
        return AppendInfo(
            first_offset, last_offset, max_timestamp, NO_TIMESTAMP, self.log_start_offset, size=size
        )

    def _duplicate_info(self, duplicate: BatchMetadata) -> AppendInfo:
        return AppendInfo(
            duplicate.first_offset,
            duplicate.last_offset,
            duplicate.timestamp,
            duplicate.timestamp,
            self.log_start_offset,
            duplicate=True,
        )

    def _assign_epoch(self, batch: RecordBatch | LegacyEntry) -> None:
        if batch.partition_leader_epoch >= 0:
            self.leader_epochs.assign(batch.partition_leader_epoch, batch.base_offset)
        elif batch.magic < 2 and len(self.leader_epochs):
            self._report(f"leader epochs of {self.topic_partition} are dropped: records of an older format")
            self.leader_epochs.clear()

    # --- roll

    def roll(self, *, now_ms: int) -> None:
        """Begin a new segment at the log end. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
        try:
            self._roll(self.log_end_offset, now_ms)
        except OSError as error:
            raise self.failed("roll", error) from error

    def _roll(self, base_offset: int, now_ms: int) -> LogSegment:
        segment = self._local.roll(base_offset, now_ms)
        self.producer_state.map_end_offset = max(self.producer_state.map_end_offset, base_offset)
        self._take_snapshot()
        return segment

    def _take_snapshot(self) -> None:
        snapshot = take_snapshot(self.producer_state, self.snapshots)
        if snapshot is not None:
            self._unsynced_snapshots.append(snapshot)

    # --- read

    def read(self, offset: int, max_bytes: int, *, isolation: Isolation, min_one: bool = True) -> LogRead:
        """Find the records from `offset` on, up to what `isolation` allows and about `max_bytes`.

        With `min_one` the first batch is in the slice however large it is. Raises `KafkaError`
        OFFSET_OUT_OF_RANGE (also below the log start), CORRUPT_MESSAGE and KAFKA_STORAGE_ERROR.
        """
        high_watermark, stable = self.high_watermark, self.last_stable_offset
        start_offset, end_offset = self.log_start_offset, self.log_end_offset
        if not start_offset <= offset <= end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not within {start_offset} to {end_offset}: {self.topic_partition}",
            )
        if self._failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self._failure)
        try:
            limit = self._limit(isolation, stable)
            segment, entry, size = self._local.find_slice(offset, max_bytes, limit, min_one)
            file_slice = segment.records.slice(entry.position, size) if size > 0 else None
            aborted = None
            if isolation is Isolation.TXN_COMMITTED:
                end = entry.position + size
                aborted = self._local.aborted_in(offset, segment, end) if size > 0 else []
        except (CorruptRecord, CorruptIndex) as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, error.message) from error
        except OSError as error:
            raise self.failed("read from", error) from error
        return LogRead(file_slice, high_watermark, stable, start_offset, end_offset, aborted, entry.size)

    def _limit(self, isolation: Isolation, stable: int) -> LogOffsetMetadata:
        high_watermark = self.high_watermark
        if isolation is Isolation.LOG_END or high_watermark == self._local.end_offset == stable:
            return self._local.end()
        if isolation is Isolation.TXN_COMMITTED and stable < high_watermark:
            return self._local.locate(stable)
        if self._high_watermark_metadata is None:
            self._high_watermark_metadata = self._local.locate(high_watermark)
        return self._high_watermark_metadata

    # --- offsets by time and epoch

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        """Return (timestamp, offset, leader epoch) of the first record at or after a time, None without one.

        Raises `KafkaError` CORRUPT_MESSAGE and KAFKA_STORAGE_ERROR, as the next two do.
        """
        return self._search(lambda: timestamp_search.offset_for_timestamp(self, timestamp))

    def offset_of_max_timestamp(self) -> tuple[int, int, int] | None:
        """Return (timestamp, offset, leader epoch) of a record with the largest timestamp (KIP-734)."""
        return self._search(lambda: timestamp_search.offset_of_max_timestamp(self))

    def offsets_before(self, timestamp: int, max_offsets: int, now_ms: int) -> list[int]:
        """Return up to `max_offsets` segment starts before a time, newest first, for ListOffsets 0."""
        return self._search(lambda: timestamp_search.offsets_before(self, timestamp, max_offsets, now_ms))

    def _search(self, search: Callable[[], _Found]) -> _Found:
        try:
            return search()
        except CorruptRecord as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, error.message) from error
        except OSError as error:
            raise self.failed("search", error) from error

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return (epoch, end offset) of the largest known epoch up to the one given, (-1, -1) if none."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    def active_producers(self) -> list[ProducerStateEntry]:
        """Return the producers that the log knows."""
        return list(self.producer_state.producers.values())

    # --- flush

    def is_flush_due(self, now_ms: int) -> bool:
        """Whether `flush.messages` or `flush.ms` asks for a flush up to the log end."""
        return self._local.is_flush_due(now_ms)

    def plan_due_flush(self, now_ms: int) -> FlushPlan | None:
        """Return what to sync now: everything if a flush is due, what is rolled after a roll, or nothing."""
        if self._local.is_flush_due(now_ms):
            return self.plan_flush()
        if self._local.has_rolled:
            return self.plan_flush(up_to=self.segments.active.base_offset)
        return None

    def plan_flush(self, up_to: int | None = None) -> FlushPlan | None:
        """Bring the index files up to date and return what to sync, None if all is durable.

        Run the plan anywhere, then call `commit_flush`, or `failed` with the `OSError` that it raised. The
        offset defaults to the log end. Raises `KafkaError` KAFKA_STORAGE_ERROR.
        """
        if self._failure is not None:
            # After an fsync that failed the next one may succeed without having written anything.
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self._failure)
        offset = self.log_end_offset if up_to is None else up_to
        if offset <= self.recovery_point:
            return None
        epochs, snapshots = self.leader_epochs, tuple(self._unsynced_snapshots)
        paths = [self.snapshots.path(snapshot) for snapshot in snapshots]
        if epochs.changes != epochs.synced_changes:
            paths.append(epochs.path)
        if self._local.has_unflushed_files():
            paths.append(f"{self.directory}/{PARTITION_METADATA}")
        try:
            plan = self._local.plan_flush(offset, paths)
        except OSError as error:
            raise self.failed("flush", error) from error
        # What is synced counts as such when the plan is committed: it may fail, or never be run.
        plan.snapshots, plan.epoch_changes = snapshots, epochs.changes
        return plan

    def commit_flush(self, plan: FlushPlan, *, now_ms: int) -> None:
        """Raise the recovery point after a plan was run, unless the log was truncated or failed meanwhile."""
        if self._failure is not None:
            return
        self.leader_epochs.synced_changes = max(self.leader_epochs.synced_changes, plan.epoch_changes)
        self._unsynced_snapshots = [each for each in self._unsynced_snapshots if each not in plan.snapshots]
        self._local.commit_flush(plan, now_ms)

    def flush(self, *, now_ms: int) -> None:
        """Make everything durable, at once. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
        plan = self.plan_flush()
        if plan is None:
            return
        try:
            plan.run()
        except OSError as error:
            raise self.failed("flush", error) from error
        self.commit_flush(plan, now_ms=now_ms)

    # --- truncate, delete

    def truncate_to(self, offset: int, *, now_ms: int) -> bool:
        """Drop the records at and above `offset`; return whether there were any. Raises `KafkaError`."""
        if offset < 0:
            raise ValueError(f"cannot truncate {self!r} to offset {offset}")
        try:
            if offset >= self.log_end_offset:
                self.leader_epochs.truncate_from_end(self.log_end_offset)
                return False
            if offset < self.segments.first.base_offset:
                self._start_over_at(offset, offset, now_ms)
                return True
            for segment in self._local.truncate_to(offset, now_ms):
                self._delete_snapshot(segment, now_ms)
            self.leader_epochs.truncate_from_end(offset)
            self.log_start_offset = min(offset, self.log_start_offset)
            self._rebuild_producers(now_ms)
            self._set_high_watermark(min(self.high_watermark, offset))
        except (OSError, CorruptRecord) as error:
            raise self.failed("truncate", error) from error
        return True

    def truncate_fully_and_start_at(
        self, offset: int, *, now_ms: int, log_start_offset: int | None = None
    ) -> None:
        """Drop all records; the next one gets `offset`. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
        try:
            self._start_over_at(offset, offset if log_start_offset is None else log_start_offset, now_ms)
        except OSError as error:
            raise self.failed("truncate", error) from error

    def _start_over_at(self, offset: int, log_start_offset: int, now_ms: int) -> None:
        self._local.start_over_at(offset, now_ms)
        self.leader_epochs.clear()
        self.snapshots.remove_if(above=-1)
        self.producer_state.clear(offset)
        self.log_start_offset = log_start_offset
        self._set_high_watermark(offset)

    def _rebuild_producers(self, now_ms: int) -> None:
        rebuild_producer_state(
            self.producer_state,
            self.snapshots,
            self.segments,
            log_start_offset=self.log_start_offset,
            end_offset=self.log_end_offset,
            now_ms=now_ms,
            report=self._report,
        )

    def delete_records_before(self, offset: int) -> int:
        """Move the log start up to `offset`, and return it; segments below go with the next retention run.

        Raises `KafkaError` OFFSET_OUT_OF_RANGE above the high watermark or below 0, and KAFKA_STORAGE_ERROR.
        """
        if not 0 <= offset <= self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not within 0 to {self.high_watermark}: {self.topic_partition}",
            )
        self._raise_log_start(offset)
        return self.log_start_offset

    def _raise_log_start(self, offset: int) -> None:
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        try:
            self.leader_epochs.truncate_from_start(offset)
        except OSError as error:
            raise self.failed("move the start of", error) from error
        self.producer_state.log_start_moved(offset)

    def delete_old_segments(self, now_ms: int) -> int:
        """Delete the segments that log start, `retention.ms` or `retention.bytes` let go; return how many.

        Their files are renamed now, and `take_due_deletions` hands them out later. Raises `KafkaError`
        KAFKA_STORAGE_ERROR.
        """
        try:
            count = 0
            for deletable in retention.rules(self, now_ms):
                count += self._delete_segments(deletable, now_ms)
            return count
        except OSError as error:
            raise self.failed("delete segments of", error) from error

    def _delete_segments(self, deletable: list[LogSegment], now_ms: int) -> int:
        if not deletable:
            return 0
        if len(deletable) == len(self.segments):
            self._roll(self.log_end_offset, now_ms)
        following = self.segments.higher(deletable[-1].base_offset)
        assert following is not None
        # The log start moves first: a crash in between must not leave offsets without records.
        self._raise_log_start(following.base_offset)
        for segment in deletable:
            self._local.remove(segment, now_ms)
            self._delete_snapshot(segment, now_ms)
        return len(deletable)

    def _delete_snapshot(self, segment: LogSegment, now_ms: int) -> None:
        snapshot = self.snapshots.mark_deleted(segment.base_offset)
        if snapshot is not None:
            self._local.delete_later(snapshot, now_ms)

    def take_due_deletions(self, now_ms: int) -> list[str]:
        """Return the files that were marked deleted long enough ago, for the caller to unlink."""
        return self._local.take_due_deletions(now_ms)

    # --- life

    def update_config(self, config: LogConfig) -> None:
        """Act on another configuration from now on. Segments keep the index settings they were made with."""
        self._local.config = config
        self.validator = LogValidator(config)

    def rename_directory(self, name: str) -> None:
        """Rename the replica's directory within its log directory. Raises `KafkaError`."""
        path = f"{self.parent_directory}/{name}"
        try:
            self._local.rename_directory(path)
        except OSError as error:
            raise self.failed("rename", error) from error
        self.snapshots.directory = self.leader_epochs.directory = path

    def write_indexes(self) -> int:
        """Bring the index files of the active segment up to date; return 1. Raises `KafkaError`."""
        try:
            self.segments.active.indexes.write()
        except OSError as error:
            raise self.failed("write the indexes of", error) from error
        return 1

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
        self.flush(now_ms=now_ms)
        self.close_handlers()

    def close_handlers(self) -> None:
        """Let go of the files, writing nothing."""
        self._local.close_handlers()

    def go_offline(self, reason: str) -> None:
        """Let go of the files and refuse every read and append from now on: the directory has failed."""
        self._failure = reason
        self._local.close_handlers()

    def failed(self, doing: str, error: OSError | CorruptRecord) -> KafkaError:
        """Take the log directory out of service for an I/O error; return what to raise."""
        message = f"cannot {doing} {self.topic_partition} in `{self.parent_directory}`: {error}"
        self._failure = message
        self._on_failure(self, message)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)
