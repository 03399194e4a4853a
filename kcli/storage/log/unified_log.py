"""UnifiedLog: one replica of one partition: its segments, offsets, producers and leader epochs.

    log start offset <= last stable offset <= high watermark <= log end offset
    recovery point <= log end offset

The log start is the first offset that may be read, the log end the offset of the next record. Records below
the high watermark are on all in-sync replicas; no transaction is open below the last stable offset.
Everything below the recovery point is durable, and a start after a crash trusts it.

Every method is synchronous and is called from one thread; only `FlushPlan.run`, `WriteAhead.run` and
`LogValidator.validate` may run in another. Times are parameters. An `OSError` takes the log directory out of
service and reaches the caller as KAFKA_STORAGE_ERROR: it harms nothing that was acknowledged, and a record
set that was not written whole is cut off again (Kafka class `UnifiedLog`).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.storage.index.index_file import CorruptIndex
from kcli.storage.log.log_appender import NOT_PLAIN, LogAppender
from kcli.storage.log.log_read import Isolation, LogOffsetMetadata, LogRead
from kcli.storage.log.log_validator import MAX_VALIDATED_BYTES
from kcli.storage.log.retention import Retention, rules_of
from kcli.storage.log_paths import FUTURE_DIRECTORY_SUFFIX, PARTITION_METADATA
from kcli.storage.producers.producer_state import AppendOrigin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.protocol.corruption import Buffer
    from kcli.protocol.records.control_records import TransactionMarker
    from kcli.storage.log.file_records import WriteAhead
    from kcli.storage.log.leader_epochs import LeaderEpochs
    from kcli.storage.log.local_log import FlushPlan, LocalLog
    from kcli.storage.log.log_appender import LogAppendInfo
    from kcli.storage.log.log_cleaning import Cleaning
    from kcli.storage.log.log_config import LogConfig
    from kcli.storage.log.log_segment import LogSegment
    from kcli.storage.log.log_validator import LogValidator, ValidatedRecords
    from kcli.storage.producers.producer_entry import ProducerStateEntry
    from kcli.storage.producers.producer_guards import ProducerGuard, ProducerGuards
    from kcli.storage.producers.producer_snapshot import ProducerSnapshots
    from kcli.storage.producers.producer_state import ProducerStateManager


class UnifiedLog:
    """A loaded log. `log_loader.load_log` makes one from a replica directory."""

    __slots__ = (
        "append_plain",
        "append_run",
        "appender",
        "cleaner_offset",
        "cleaning",
        "high_watermark",
        "high_watermark_metadata",
        "is_future",
        "leader_epochs",
        "local",
        "log_start_offset",
        "producer_state",
        "segments",
        "snapshots",
        "topic_id",
        "topic_partition",
        "write_ahead",
    )

    def __init__(
        self,
        local: LocalLog,
        *,
        topic_id: bytes | None,
        leader_epochs: LeaderEpochs,
        producer_state: ProducerStateManager,
        snapshots: ProducerSnapshots,
        log_start_offset: int,
    ) -> None:
        self.local = local
        self.segments = local.segments
        self.topic_partition = local.topic_partition
        self.topic_id = topic_id
        self.leader_epochs = leader_epochs
        self.producer_state = producer_state
        self.snapshots = snapshots
        self.log_start_offset = log_start_offset
        self.high_watermark = log_start_offset
        self.is_future = local.directory.endswith(FUTURE_DIRECTORY_SUFFIX)
        self.high_watermark_metadata: LogOffsetMetadata | None = None
        self.cleaner_offset: int | None = None
        """Up to where the log has been compacted, by its checkpoint; None if it never was."""
        self.cleaning: Cleaning | None = None
        """The compaction that runs."""
        self.appender = LogAppender(local, leader_epochs, producer_state, snapshots)
        # Bound once: these hot paths cost no call more.
        self.write_ahead = self.appender.write_ahead
        self.append_plain = self.appender.append_plain
        self.append_run = self.appender.append_run

    def __repr__(self) -> str:
        return (
            f"UnifiedLog({self.topic_partition}, log_start_offset={self.log_start_offset}, "
            f"high_watermark={self.high_watermark}, log_end_offset={self.log_end_offset})"
        )

    @property
    def config(self) -> LogConfig:
        return self.local.config

    @property
    def directory(self) -> str:
        return self.local.directory

    @property
    def log_end_offset(self) -> int:
        return self.local.end_offset

    @property
    def recovery_point(self) -> int:
        return self.local.recovery_point

    @property
    def synced_offset(self) -> int:
        """Records below it are on disk."""
        return self.local.synced_offset

    @property
    def must_flush(self) -> bool:
        """Whether `flush.messages` demands that the records are on disk before they are acknowledged."""
        local = self.local
        return local.end_offset - local.synced_offset >= local.config.flush_messages

    @property
    def parent_directory(self) -> str:
        return self.local.parent_directory

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def guards(self) -> ProducerGuards:
        """The guards of transactions that are being verified."""
        return self.producer_state.guards

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction has ended."""
        unstable = self.producer_state.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    def advance_high_watermark_to_end(self) -> None:
        """Move the high watermark up to the log end, as the only replica does."""
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
        """Set the high watermark, limited to the log, as a restart or a follower does; return it.

        Transactions whose markers are above it are unstable from now on. Raises `OSError`.
        """
        self._set_high_watermark(max(min(offset, self.log_end_offset), self.log_start_offset))
        if self.high_watermark < self.producer_state.loaded_offset:
            try:
                self.snapshots.find_ended(
                    self.producer_state,
                    self.segments.batches_between,
                    log_start_offset=self.log_start_offset,
                    high_watermark=self.high_watermark,
                )
            except CorruptRecord as error:
                raise OSError(f"damaged records: {error}: `{self.directory}`") from error
        return self.high_watermark

    def _set_high_watermark(self, offset: int) -> None:
        self.high_watermark = offset
        # After a truncation the same offset may have another position.
        self.high_watermark_metadata = None
        self.producer_state.high_watermark_moved(offset)

    def append_as_leader(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        max_decompressed: int = MAX_VALIDATED_BYTES,
        try_plain: bool = True,
    ) -> LogAppendInfo:
        """Check records, give them offsets and the leader's epoch, and write them.

        A writable buffer is patched in place and written; the log keeps no reference to it. Pass
        `try_plain=False` for records that `append_plain` has declined. Raises `KafkaError` CORRUPT_MESSAGE
        (2), MESSAGE_TOO_LARGE (10), RECORD_LIST_TOO_LARGE (18), OUT_OF_ORDER_SEQUENCE_NUMBER (45),
        INVALID_PRODUCER_EPOCH (47), INVALID_TXN_STATE (48), KAFKA_STORAGE_ERROR (56) and `InvalidRecords`
        (32, 87); nothing was written then.
        """
        is_client = origin is AppendOrigin.CLIENT
        if try_plain and type(records) is memoryview and is_client and not records.readonly:
            first_offset = self.append_plain(records, leader_epoch, now_ms)
            if first_offset != NOT_PLAIN:
                info = self.appender.plain_info(records, first_offset)
                info.log_start_offset = self.log_start_offset
                return info
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
        guard: ProducerGuard | None = None,
    ) -> LogAppendInfo:
        """Give validated records offsets and the leader's epoch, and write them. Raises `KafkaError`.

        A `write_ahead` that has been run is not written again. `guard` is that of a transactional batch.
        """
        info = self.appender.append(
            validated, leader_epoch=leader_epoch, now_ms=now_ms, written=written, guard=guard
        )
        info.log_start_offset = self.log_start_offset
        return info

    def append_marker(self, marker: TransactionMarker, *, leader_epoch: int, now_ms: int) -> LogAppendInfo:
        """Write the end of a producer's transaction; it ends nothing if none is open.

        Raises `KafkaError` INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED and KAFKA_STORAGE_ERROR;
        nothing was written then.
        """
        info = self.appender.append_marker(marker, leader_epoch=leader_epoch, now_ms=now_ms)
        info.log_start_offset = self.log_start_offset
        return info

    def append_as_follower(self, records: Buffer, *, now_ms: int) -> LogAppendInfo:
        """Write records as the leader has them; offsets may have holes but never decrease.

        Raises `KafkaError` CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE when they begin below the log end,
        RECORD_LIST_TOO_LARGE and KAFKA_STORAGE_ERROR.
        """
        info = self.appender.append_as_follower(records, now_ms)
        info.log_start_offset = self.log_start_offset
        return info

    @property
    def validator(self) -> LogValidator:
        return self.appender.validator

    def assign_epoch_at_end(self, epoch: int) -> None:
        """Begin a leader's epoch at the log end. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
        try:
            self.leader_epochs.assign(epoch, self.log_end_offset)
        except OSError as error:
            raise self.failed("write the leader epochs of", error) from error

    def take_epochs_of(self, other: UnifiedLog) -> None:
        """Assign the epochs of another log that are newer than the latest one here. Raises `KafkaError`."""
        try:
            for epoch, start_offset in other.leader_epochs.entries():
                if epoch > self.leader_epochs.latest_epoch:
                    self.leader_epochs.assign(epoch, start_offset)
        except OSError as error:
            raise self.failed("write the leader epochs of", error) from error

    def roll(self, *, now_ms: int) -> None:
        """Begin a new segment at the log end. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
        try:
            self.appender.roll_at(self.log_end_offset, now_ms)
        except OSError as error:
            raise self.failed("roll", error) from error

    def read(self, offset: int, max_bytes: int, *, isolation: Isolation, min_one: bool = True) -> LogRead:
        """Find the records from `offset` on, up to the bound of `isolation` and about `max_bytes`.

        With `min_one` the slice holds the first batch, however large it is. Raises `KafkaError`
        OFFSET_OUT_OF_RANGE (also below the log start), CORRUPT_MESSAGE and KAFKA_STORAGE_ERROR.
        """
        local = self.local
        high_watermark, stable = self.high_watermark, self.last_stable_offset
        start_offset, end_offset = self.log_start_offset, local.end_offset
        if not start_offset <= offset <= end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not within {start_offset} to {end_offset}: {self.topic_partition}",
            )
        if local.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, local.failure)
        try:
            limit = self._read_limit(isolation, stable)
            segment, entry, size = local.find_slice(offset, max_bytes, limit, min_one)
            file_slice = segment.records.slice(entry.position, size) if size > 0 else None
            aborted = None
            if isolation is Isolation.TXN_COMMITTED:
                end = entry.position + size
                aborted = local.aborted_in(offset, segment, end) if size > 0 else []
        except (CorruptRecord, CorruptIndex) as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, error.message) from error
        except OSError as error:
            raise local.failed("read from", error) from error
        return LogRead(file_slice, high_watermark, stable, start_offset, end_offset, aborted, entry.size)

    def _read_limit(self, isolation: Isolation, stable: int) -> LogOffsetMetadata:
        local, high_watermark = self.local, self.high_watermark
        if isolation is Isolation.LOG_END or high_watermark == local.end_offset == stable:
            return local.end()
        if isolation is Isolation.TXN_COMMITTED and stable < high_watermark:
            return local.locate(stable)
        # Looked up when a read needs it, and kept until the high watermark moves.
        known = self.high_watermark_metadata
        if known is None or known.offset != high_watermark:
            known = self.high_watermark_metadata = local.locate(high_watermark)
        return known

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return (epoch, end offset) of the largest known epoch up to `epoch`, (-1, -1) without one."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    def active_producers(self) -> list[ProducerStateEntry]:
        return list(self.producer_state.producers.values())

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        """Return (timestamp, offset, leader epoch) of the first record at or after `timestamp`.

        None without one. Raises `KafkaError` CORRUPT_MESSAGE and KAFKA_STORAGE_ERROR, as the next two do.
        """
        with self._searching():
            return self.segments.find_timestamp(timestamp, self.log_start_offset)

    def offset_of_max_timestamp(self) -> tuple[int, int, int] | None:
        """Return (timestamp, offset, leader epoch) of the first record with the largest timestamp.

        None for a log without timestamps (KIP-734).
        """
        with self._searching():
            return self.segments.newest_timestamp()

    def offsets_before(self, timestamp: int, *, max_offsets: int, now_ms: int) -> list[int]:
        """Return up to `max_offsets` base offsets, newest first, of segments last written before `timestamp`.

        Timestamp -1 means the log end, -2 the log start. For ListOffsets version 0 (Kafka's
        `legacyFetchOffsetsBefore`).
        """
        with self._searching():
            starts = self.segments.starts_before(
                timestamp, self.log_start_offset, (self.log_end_offset, now_ms)
            )
        return sorted(starts[max(len(starts) - max_offsets, 0) :], reverse=True)

    @contextmanager
    def _searching(self) -> Iterator[None]:
        """Turn the errors of reading files into `KafkaError` CORRUPT_MESSAGE and KAFKA_STORAGE_ERROR."""
        try:
            yield
        except CorruptRecord as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, error.message) from error
        except OSError as error:
            raise self.failed("search", error) from error

    def truncate_to(self, offset: int, *, now_ms: int) -> bool:
        """Drop the records at and above `offset`; return whether there were any. Raises `KafkaError`."""
        if offset < 0:
            raise ValueError(f"cannot truncate {self!r} to offset {offset}")
        try:
            if offset >= self.log_end_offset:
                self.leader_epochs.truncate_from_end(self.log_end_offset)
                return False
            self._discard_cleaning(offset)
            if offset < self.segments.first.base_offset:
                self._start_over_at(offset, offset, now_ms)
                return True
            for segment in self.local.truncate_to(offset, now_ms):
                self.delete_snapshot(segment, now_ms)
            self.leader_epochs.truncate_from_end(offset)
            self.log_start_offset = min(offset, self.log_start_offset)
            self.snapshots.rebuild(
                self.producer_state,
                self.segments.batches_between,
                log_start_offset=self.log_start_offset,
                end_offset=self.log_end_offset,
                now_ms=now_ms,
                report=self.local.report,
            )
            self.set_high_watermark(min(self.high_watermark, offset))
        except (OSError, CorruptRecord) as error:
            raise self.failed("truncate", error, is_whole=False) from error
        return True

    def truncate_fully_and_start_at(
        self, offset: int, *, now_ms: int, log_start_offset: int | None = None
    ) -> None:
        """Drop all records; the next one gets `offset`. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
        try:
            self._start_over_at(offset, offset if log_start_offset is None else log_start_offset, now_ms)
        except OSError as error:
            raise self.failed("truncate", error, is_whole=False) from error

    def _start_over_at(self, offset: int, log_start_offset: int, now_ms: int) -> None:
        self._discard_cleaning(offset)
        self.local.start_over_at(offset, now_ms)
        self.leader_epochs.clear()
        self.snapshots.remove_if(above=-1)
        self.producer_state.clear(offset)
        self.log_start_offset = log_start_offset
        self.set_high_watermark(offset)

    def _discard_cleaning(self, truncated_to: int | None = None) -> None:
        """Make a running compaction void; records above `truncated_to` count as dirty again."""
        if self.cleaning is not None:
            self.cleaning.discard()
        if truncated_to is not None and truncated_to < (self.cleaner_offset or 0):
            # A later start must not take new records at these offsets for clean ones.
            self.cleaner_offset = truncated_to
            self.local.on_lowered_cleaner_offset()

    def delete_old_segments(self, now_ms: int) -> int:
        """Delete the segments that log start, `retention.bytes` or `retention.ms` release; return how many.

        Their files are renamed now; `take_due_deletions` returns them later. Raises `KafkaError`
        KAFKA_STORAGE_ERROR.
        """
        try:
            return sum(self._delete(rule(self._retention(now_ms)), now_ms) for rule in rules_of(self.config))
        except OSError as error:
            raise self.failed("delete segments of", error) from error

    def _retention(self, now_ms: int) -> Retention:
        return Retention(
            self.segments,
            self.config,
            self.log_start_offset,
            self.high_watermark,
            self.log_end_offset,
            now_ms,
        )

    def _delete(self, deletable: list[LogSegment], now_ms: int) -> int:
        if not deletable:
            return 0
        if len(deletable) == len(self.segments):
            self.appender.roll_at(self.log_end_offset, now_ms)
        following = self.segments.higher(deletable[-1].base_offset)
        assert following is not None
        # The log start moves first: a crash in between must not leave offsets without records.
        self.raise_log_start(following.base_offset)
        for segment in deletable:
            self.local.remove(segment, now_ms)
            self.delete_snapshot(segment, now_ms)
        return len(deletable)

    def delete_records_before(self, offset: int) -> int:
        """Move the log start up to `offset` and return it; the next retention run deletes the segments below.

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
        """Move the log start up to `offset` if it is lower. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
        if offset <= self.log_start_offset:
            return
        try:
            self.leader_epochs.truncate_from_start(offset)
        except OSError as error:
            raise self.failed("move the start of", error) from error
        self.log_start_offset = offset
        self.producer_state.log_start_moved(offset)

    def delete_snapshot(self, segment: LogSegment, now_ms: int) -> None:
        """Mark the producer snapshot of a removed segment deleted. Raises `OSError`."""
        snapshot = self.snapshots.mark_deleted(segment.base_offset)
        if snapshot is not None:
            self.local.delete_later(snapshot, now_ms)

    def take_due_deletions(self, now_ms: int) -> list[str]:
        """Remove and return the files marked deleted whose delay has passed, for the caller to unlink."""
        return self.local.take_due_deletions(now_ms)

    def plan_due_flush(self, now_ms: int) -> FlushPlan | None:
        """Return what to sync now: everything if a flush is due, rolled segments after a roll, or None.

        Raises `KafkaError` KAFKA_STORAGE_ERROR.
        """
        if self.local.is_flush_due(now_ms):
            return self.plan_flush()
        if self.local.has_rolled:
            return self.plan_flush(up_to=self.segments.active.base_offset)
        return None

    def plan_flush(self, up_to: int | None = None) -> FlushPlan | None:
        """Write the index files and return what to sync up to an offset, None if all is durable.

        Run the plan in any thread, then call `commit_flush`, or `failed` with the `OSError` that it raised.
        The offset defaults to the log end. Raises `KafkaError` KAFKA_STORAGE_ERROR.
        """
        # After a failed fsync the next one may succeed without having written anything.
        if self.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.failure)
        offset = self.log_end_offset if up_to is None else up_to
        if offset <= self.recovery_point:
            return None
        epochs, snapshots = self.leader_epochs, tuple(self.snapshots.unsynced)
        paths = [self.snapshots.path(snapshot) for snapshot in snapshots]
        if epochs.changes != epochs.synced_changes:
            paths.append(epochs.path)
        if self.local.has_unflushed_files():
            paths.append(f"{self.directory}/{PARTITION_METADATA}")
        try:
            plan = self.local.plan_flush(offset, paths)
        except OSError as error:
            raise self.failed("flush", error) from error
        plan.snapshots, plan.epoch_changes = snapshots, epochs.changes
        return plan

    def plan_sync(self) -> FlushPlan | None:
        """Return what to sync so that all records are on disk, None if they are; as `plan_flush`."""
        if self.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.failure)
        if self.log_end_offset <= self.local.synced_offset:
            return None
        try:
            return self.local.plan_sync(self.log_end_offset)
        except OSError as error:
            raise self.failed("flush", error) from error

    def commit_flush(self, plan: FlushPlan, *, now_ms: int) -> None:
        """Raise the recovery point after a plan was run, unless the log was truncated or failed since."""
        if self.failure is not None:
            return
        self.leader_epochs.synced_changes = max(self.leader_epochs.synced_changes, plan.epoch_changes)
        self.snapshots.unsynced = [each for each in self.snapshots.unsynced if each not in plan.snapshots]
        self.local.commit_flush(plan, now_ms)

    def flush(self, *, now_ms: int) -> None:
        """Make everything durable now. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
        plan = self.plan_flush()
        if plan is None:
            return
        try:
            plan.run()
        except OSError as error:
            raise self.failed("flush", error) from error
        self.commit_flush(plan, now_ms=now_ms)

    def update_config(self, config: LogConfig) -> None:
        """Use another configuration from now on; segments keep the index settings they were made with."""
        if not config.is_compacted:
            self._discard_cleaning()
        self.local.update_config(config)
        self.appender.update_config(config)

    def rename_directory(self, name: str) -> None:
        """Rename the replica's directory within its log directory. Raises `KafkaError`."""
        self._discard_cleaning()
        path = f"{self.parent_directory}/{name}"
        try:
            self.local.rename_directory(path)
        except OSError as error:
            raise self.failed("rename", error) from error
        self.snapshots.directory = self.leader_epochs.directory = path

    def close(self, *, now_ms: int) -> None:
        """Finish the indexes, write a producer snapshot, make everything durable and close the files.

        Raises `KafkaError` KAFKA_STORAGE_ERROR.
        """
        try:
            self.snapshots.take(self.producer_state, sync_later=True)
            for segment in self.segments:
                segment.finish()
        except OSError as error:
            raise self.failed("close", error) from error
        self.flush(now_ms=now_ms)
        self.close_handlers()

    def close_handlers(self) -> None:
        """Close the files, writing nothing."""
        self._discard_cleaning()
        self.local.close_handlers()

    @property
    def failure(self) -> str | None:
        return self.local.failure

    def go_offline(self, reason: str) -> None:
        """Close the files and refuse every read and append from now on: the log directory has failed."""
        self._discard_cleaning()
        self.local.go_offline(reason)

    def failed(self, doing: str, error: OSError | CorruptRecord, *, is_whole: bool = True) -> KafkaError:
        """Take the log directory out of service for an I/O error, as `LocalLog.failed`."""
        if not is_whole:
            self._discard_cleaning()
        return self.local.failed(doing, error, is_whole=is_whole)
