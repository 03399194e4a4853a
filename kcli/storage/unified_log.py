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
from kcli.protocol.record_batch import RecordBatch, iter_batches
from kcli.protocol.record_batch_header import set_base_offset_and_epoch
from kcli.storage import retention, timestamp_search
from kcli.storage.append_info import AppendInfo
from kcli.storage.file_records import EntryPosition
from kcli.storage.flush_plan import FlushPlan
from kcli.storage.log_paths import PARTITION_METADATA
from kcli.storage.log_read import Isolation, LogOffsetMetadata, LogRead
from kcli.storage.log_segment import LogSegment
from kcli.storage.log_validator import (
    MAX_DECOMPRESSED_BYTES,
    InvalidRecords,
    LogValidator,
    ValidatedRecords,
)
from kcli.storage.producer_append import CompletedTransaction, Origin, ProducerAppend, check_batch
from kcli.storage.producer_recovery import rebuild_producer_state, take_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcli.protocol.message_set import LegacyEntry
    from kcli.protocol.record import Buffer
    from kcli.storage.leader_epochs import LeaderEpochs
    from kcli.storage.log_config import LogConfig
    from kcli.storage.log_paths import TopicPartition
    from kcli.storage.log_segments import LogSegments
    from kcli.storage.producer_snapshot import ProducerSnapshots
    from kcli.storage.producer_state import BatchMetadata, ProducerStateEntry, ProducerStateManager
    from kcli.storage.transaction_index import AbortedTransaction

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

_NO_ENTRY = EntryPosition(0, 0, UNKNOWN_OFFSET, UNKNOWN_OFFSET)
_Found = TypeVar("_Found")


class UnifiedLog:
    """A loaded log. `log_loader.load_log` makes one from a replica directory."""

    __slots__ = (
        "_end_position",
        "_flush_at_roll",
        "_high_watermark_metadata",
        "_on_failure",
        "_pending_deletes",
        "_random_below",
        "_report",
        "_truncations",
        "_unsynced_snapshots",
        "config",
        "directory",
        "high_watermark",
        "is_future",
        "last_flushed_ms",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "producer_state",
        "recovery_point",
        "segments",
        "snapshots",
        "topic_id",
        "topic_partition",
        "validator",
    )

    def __init__(
        self,
        *,
        directory: str,
        topic_partition: TopicPartition,
        topic_id: bytes | None,
        config: LogConfig,
        segments: LogSegments,
        leader_epochs: LeaderEpochs,
        producer_state: ProducerStateManager,
        snapshots: ProducerSnapshots,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        now_ms: int,
        report: Callable[[str], None],
        on_failure: Callable[[UnifiedLog, str], None],
        random_below: Callable[[int], int],
        is_future: bool = False,
    ) -> None:
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self.validator = LogValidator(config)
        self.segments = segments
        self.leader_epochs = leader_epochs
        self.producer_state = producer_state
        self.snapshots = snapshots
        self.log_start_offset = log_start_offset
        self.recovery_point = recovery_point
        self.last_flushed_ms = now_ms
        self.is_future = is_future
        self._report = report
        self._on_failure = on_failure
        self._random_below = random_below
        self._pending_deletes: list[tuple[int, str]] = []
        self._unsynced_snapshots: list[int] = []
        self._flush_at_roll = False
        self._truncations = 0
        self._set_end(log_end_offset)
        self.high_watermark = log_start_offset
        self._high_watermark_metadata: LogOffsetMetadata | None = None

    def __repr__(self) -> str:
        return (
            f"UnifiedLog({self.topic_partition}, log_start_offset={self.log_start_offset}, "
            f"high_watermark={self.high_watermark}, log_end_offset={self.log_end_offset})"
        )

    # --- offsets

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
        offset = min(offset, self.log_end_offset)
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

    def _set_end(self, offset: int) -> None:
        active = self.segments.active
        self.log_end_offset = offset
        self._end_position = active.records.size
        if self.recovery_point > offset:
            self.recovery_point = offset

    def _locate(self, offset: int) -> LogOffsetMetadata:
        """Return where an offset within the log is."""
        if offset >= self.log_end_offset:
            return self._end()
        segment = self.segments.floor(offset)
        while segment is not None:
            entry = segment.find(offset)
            if entry is not None:
                return LogOffsetMetadata(offset, segment.base_offset, entry.position)
            segment = self.segments.higher(segment.base_offset)
        return self._end()

    def _end(self) -> LogOffsetMetadata:
        return LogOffsetMetadata(self.log_end_offset, self.segments.active.base_offset, self._end_position)

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

    def append(self, validated: ValidatedRecords, *, leader_epoch: int, now_ms: int) -> AppendInfo:
        """Give validated records offsets and the leader's epoch, and write them. Raises `KafkaError`."""
        offset = self.log_end_offset
        count = 0
        for batch in validated.batches:
            set_base_offset_and_epoch(validated.data, batch.position, offset, leader_epoch)
            batch.base_offset = offset
            batch.partition_leader_epoch = leader_epoch
            offset += batch.last_offset_delta + 1
            count += batch.count
        info = self._append(validated.data, validated.batches, validated.origin, now_ms)
        if not info.duplicate:
            info.records_count = count
            info.log_append_time = validated.log_append_time
        return info

    def append_as_follower(self, records: Buffer, *, now_ms: int) -> AppendInfo:
        """Write records as the leader has them; offsets may have holes but never go back.

        Raises `KafkaError` CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE when they begin below the log end,
        RECORD_LIST_TOO_LARGE and KAFKA_STORAGE_ERROR.
        """
        batches: list[RecordBatch | LegacyEntry] = []
        size, next_offset = 0, self.log_end_offset
        try:
            for batch in iter_batches(records):
                if not batch.is_valid_crc():
                    raise CorruptRecord(f"wrong checksum at offset {batch.last_offset}")
                first = batch.base_offset if isinstance(batch, RecordBatch) else batch.last_offset
                if first < next_offset:
                    raise KafkaError(
                        ErrorCode.OFFSET_OUT_OF_RANGE,
                        f"offset {first} comes after {next_offset - 1}: {self.topic_partition}",
                    )
                next_offset = batch.last_offset + 1
                size += batch.size_in_bytes
                batches.append(batch)
        except CorruptRecord as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, error.message) from error
        data = records if size == len(records) else memoryview(records)[:size]
        return self._append(data, batches, Origin.REPLICATION, now_ms)

    def _append(
        self, data: Buffer, batches: Sequence[RecordBatch | LegacyEntry], origin: Origin, now_ms: int
    ) -> AppendInfo:
        size = len(data)
        if size > self.config.segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{size} bytes are more than a segment holds, segment.bytes: {self.config.segment_bytes}",
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
        appends: dict[int, ProducerAppend] = {}
        completed: list[CompletedTransaction] = []
        if has_producer:
            duplicate = self._check_producers(batches, origin, appends, completed)
            if duplicate is not None:
                return self._duplicate_info(duplicate)
        try:
            segment = self.segments.active
            if segment.should_roll(size, last_offset, max_timestamp, self.config, now_ms):
                segment = self._roll(max(first_offset, self.log_end_offset), now_ms)
            for batch in batches:
                if batch.partition_leader_epoch != self.leader_epochs.latest_epoch:
                    self._assign_epoch(batch)
            segment.append(data, batches)
        except OSError as error:
            raise self.failed("append to", error) from error
        self.log_end_offset = last_offset + 1
        self._end_position = segment.records.size
        if appends:
            self._publish_producers(segment, appends, completed)
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

    def _check_producers(
        self,
        batches: Sequence[RecordBatch | LegacyEntry],
        origin: Origin,
        appends: dict[int, ProducerAppend],
        completed: list[CompletedTransaction],
    ) -> BatchMetadata | None:
        """Check the batches of producers; return the one that was written before, if one was."""
        for batch in batches:
            if batch.producer_id < 0 or not isinstance(batch, RecordBatch):
                continue
            known = self.producer_state.producers.get(batch.producer_id)
            if origin is Origin.CLIENT and known is not None:
                duplicate = known.find_duplicate(
                    batch.producer_epoch, batch.base_sequence, batch.last_sequence
                )
                if duplicate is not None:
                    return duplicate
            check_batch(self.producer_state, batch, origin, appends, completed)
        return None

    def _publish_producers(
        self,
        segment: LogSegment,
        appends: dict[int, ProducerAppend],
        completed: list[CompletedTransaction],
    ) -> None:
        for append in appends.values():
            self.producer_state.update(append)
        try:
            for transaction in completed:
                segment.finish_transaction(transaction, self.producer_state)
        except OSError as error:
            raise self.failed("write the transaction index of", error) from error

    # --- roll

    def roll(self, *, now_ms: int) -> None:
        """Begin a new segment at the log end. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
        try:
            self._roll(self.log_end_offset, now_ms)
        except OSError as error:
            raise self.failed("roll", error) from error

    def _roll(self, base_offset: int, now_ms: int) -> LogSegment:
        active = self.segments.active
        if active.base_offset == base_offset and not active.size:
            # An empty segment with a full index, or rolled for its age: it is made anew.
            self._delete_files(active, now_ms)
            self.segments.remove(active)
        elif base_offset <= active.base_offset:
            raise ValueError(f"cannot roll {self!r} at offset {base_offset}")
        else:
            active.finish()
        segment = self._new_segment(base_offset, now_ms)
        self.segments.add(segment)
        self._set_end(self.log_end_offset)
        self.producer_state.map_end_offset = max(self.producer_state.map_end_offset, base_offset)
        snapshot = take_snapshot(self.producer_state, self.snapshots)
        if snapshot is not None:
            self._unsynced_snapshots.append(snapshot)
        self._flush_at_roll = True
        return segment

    def _new_segment(self, base_offset: int, now_ms: int) -> LogSegment:
        for path in LogSegment.paths(self.directory, base_offset):
            if os.path.exists(path):
                self._report(f"deleting a file in the way of a new segment: `{path}`")
                os.unlink(path)
        return LogSegment.create(
            self.directory,
            base_offset,
            self.config,
            now_ms=now_ms,
            roll_jitter_ms=self._jitter_ms(),
            report=self._report,
        )

    def _jitter_ms(self) -> int:
        limit = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return self._random_below(limit) if limit > 0 else 0

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
        try:
            limit = self._limit(isolation, stable)
            segment, entry, size = self._find_slice(offset, max_bytes, limit, min_one)
            file_slice = segment.records.slice(entry.position, size) if size > 0 else None
            aborted = None
            if isolation is Isolation.TXN_COMMITTED:
                aborted = self._aborted_in(offset, segment, entry.position + size) if size > 0 else []
        except CorruptRecord as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, error.message) from error
        except OSError as error:
            raise self.failed("read from", error) from error
        return LogRead(file_slice, high_watermark, stable, start_offset, end_offset, aborted, entry.size)

    def _limit(self, isolation: Isolation, stable: int) -> LogOffsetMetadata:
        high_watermark = self.high_watermark
        if isolation is Isolation.LOG_END or high_watermark == self.log_end_offset == stable:
            return self._end()
        if isolation is Isolation.TXN_COMMITTED and stable < high_watermark:
            return self._locate(stable)
        if self._high_watermark_metadata is None:
            self._high_watermark_metadata = self._locate(high_watermark)
        return self._high_watermark_metadata

    def _find_slice(
        self, offset: int, max_bytes: int, limit: LogOffsetMetadata, min_one: bool
    ) -> tuple[LogSegment, EntryPosition, int]:
        """Return segment, first batch and size of the slice from `offset` to the limit; size 0 if empty."""
        segment = self.segments.floor(offset) if offset < limit.offset else None
        while segment is not None and segment.base_offset <= limit.segment_base_offset:
            entry = segment.find(offset)
            if entry is not None:
                # Never past the limit in its own segment: what lies behind may still be uncommitted.
                is_last = segment.base_offset == limit.segment_base_offset
                size = (limit.position if is_last else segment.size) - entry.position
                return segment, entry, min(size, max(max_bytes, entry.size) if min_one else max_bytes)
            # The records up to the next segment were compacted away.
            segment = self.segments.higher(segment.base_offset)
        return self.segments.active, _NO_ENTRY, 0

    def _aborted_in(self, offset: int, segment: LogSegment, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that touch the records from `offset` to file position `end`."""
        upper = segment.indexes.offsets.upper_bound(end)
        if upper is None:
            higher = self.segments.higher(segment.base_offset)
            upper = self.log_end_offset if higher is None else higher.base_offset
        aborted: list[AbortedTransaction] = []
        current: LogSegment | None = segment
        while current is not None:
            found, complete = current.indexes.transactions.collect(offset, upper)
            aborted += found
            if complete:
                break
            current = self.segments.higher(current.base_offset)
        return aborted

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
        unflushed = self.log_end_offset - self.recovery_point
        return unflushed > 0 and (
            unflushed >= self.config.flush_messages or now_ms - self.last_flushed_ms >= self.config.flush_ms
        )

    def plan_due_flush(self, now_ms: int) -> FlushPlan | None:
        """Return what to sync now: everything if a flush is due, what is rolled after a roll, or nothing."""
        if self.is_flush_due(now_ms):
            return self.plan_flush()
        if self._flush_at_roll:
            return self.plan_flush(up_to=self.segments.active.base_offset)
        return None

    def plan_flush(self, up_to: int | None = None) -> FlushPlan | None:
        """Bring the index files up to date and return what to sync, None if all is durable.

        Run the plan anywhere, then call `commit_flush`, or `failed` with the `OSError` that it raised. The
        offset defaults to the log end. Raises `KafkaError` KAFKA_STORAGE_ERROR.
        """
        offset = self.log_end_offset if up_to is None else up_to
        self._flush_at_roll = False
        if offset <= self.recovery_point:
            return None
        segments = self.segments.between(self.recovery_point, offset)
        try:
            for segment in segments:
                segment.indexes.write()
            files = [segment.records.handle for segment in segments]
        except OSError as error:
            raise self.failed("flush", error) from error
        paths = [path for segment in segments for path in segment.index_paths()]
        paths += [self.snapshots.path(snapshot) for snapshot in self._unsynced_snapshots]
        self._unsynced_snapshots.clear()
        if not self.leader_epochs.is_synced:
            paths.append(self.leader_epochs.path)
            self.leader_epochs.is_synced = True
        has_new_files = any(segment.base_offset >= self.recovery_point for segment in segments)
        if has_new_files:
            paths.append(f"{self.directory}/{PARTITION_METADATA}")
        return FlushPlan(offset, self._truncations, files, paths, self.directory if has_new_files else None)

    def commit_flush(self, plan: FlushPlan, *, now_ms: int) -> None:
        """Raise the recovery point after a plan was run, unless the log was truncated meanwhile."""
        if plan.truncations == self._truncations and plan.offset > self.recovery_point:
            self.recovery_point = plan.offset
            self.last_flushed_ms = now_ms

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
            self._truncations += 1
            for segment in self.segments.above(offset):
                self._remove_segment(segment, now_ms)
            self.segments.active.truncate_to(offset, now_ms)
            self._set_end(offset)
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
        self._truncations += 1
        for segment in self.segments:
            self._remove_segment(segment, now_ms)
        self.segments.add(self._new_segment(offset, now_ms))
        self._set_end(offset)
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

        Their files are renamed now and deleted by `delete_files`. Raises `KafkaError` KAFKA_STORAGE_ERROR.
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
            self._remove_segment(segment, now_ms)
        return len(deletable)

    def _remove_segment(self, segment: LogSegment, now_ms: int) -> None:
        self.segments.remove(segment)
        self._delete_files(segment, now_ms)
        snapshot = self.snapshots.mark_deleted(segment.base_offset)
        if snapshot is not None:
            self._pending_deletes.append((now_ms + self.config.file_delete_delay_ms, snapshot))

    def _delete_files(self, segment: LogSegment, now_ms: int) -> None:
        due_ms = now_ms + self.config.file_delete_delay_ms
        self._pending_deletes += [(due_ms, path) for path in segment.mark_deleted()]

    def delete_files(self, now_ms: int) -> int:
        """Delete the files that were marked deleted long enough ago; return how many. Raises `KafkaError`."""
        due = [path for due_ms, path in self._pending_deletes if due_ms <= now_ms]
        if due:
            self._pending_deletes = [item for item in self._pending_deletes if item[0] > now_ms]
        try:
            for path in due:
                # A file made anew under the same name may have taken the place of one marked before it.
                if os.path.exists(path):
                    os.unlink(path)
        except OSError as error:
            raise self.failed("delete files of", error) from error
        return len(due)

    # --- life

    def update_config(self, config: LogConfig) -> None:
        """Act on another configuration from now on. Segments keep the index settings they were made with."""
        self.config = config
        self.validator = LogValidator(config)

    def rename_directory(self, name: str) -> None:
        """Rename the replica's directory within its log directory. Raises `KafkaError`."""
        path = f"{self.parent_directory}/{name}"
        try:
            os.replace(self.directory, path)
        except OSError as error:
            raise self.failed("rename", error) from error
        self._pending_deletes = [
            (due_ms, f"{path}/{os.path.basename(old)}") for due_ms, old in self._pending_deletes
        ]
        self.directory = self.snapshots.directory = self.leader_epochs.directory = path
        for segment in self.segments:
            segment.moved_to(path)

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
            snapshot = take_snapshot(self.producer_state, self.snapshots)
            if snapshot is not None:
                self._unsynced_snapshots.append(snapshot)
            for segment in self.segments:
                segment.finish()
        except OSError as error:
            raise self.failed("close", error) from error
        self.flush(now_ms=now_ms)
        self.close_handlers()

    def close_handlers(self) -> None:
        """Let go of the files without writing anything: the directory has failed, or the log goes."""
        for segment in self.segments:
            segment.close_handlers()

    def failed(self, doing: str, error: OSError | CorruptRecord) -> KafkaError:
        """Take the log directory out of service for an I/O error; return what to raise."""
        message = f"cannot {doing} {self.topic_partition} in `{self.parent_directory}`: {error}"
        self._on_failure(self, message)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)
