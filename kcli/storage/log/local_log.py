"""LocalLog: the segments of one replica on disk: rolling, finding, flushing, truncating, deleting.

It knows files and positions. The `UnifiedLog` around it knows records, producers and leader epochs, and turns
the `OSError` and `CorruptRecord` raised here into errors of the protocol (Kafka class `LocalLog`).

Everything below the recovery point is durable; a start after a crash trusts it. Files to delete are renamed
to `.deleted` at once and unlinked when `file.delete.delay.ms` has passed. A log whose directory failed keeps
the reason in `failure`.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from contextlib import suppress
from typing import TYPE_CHECKING

from kcli.errors import reason_of
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.storage import disk
from kcli.storage.log.file_records import EntryPosition
from kcli.storage.log.log_read import LogOffsetMetadata
from kcli.storage.log.log_segment import LogSegment
from kcli.storage.log_paths import PARTITION_METADATA

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kcli.protocol.corruption import CorruptRecord
    from kcli.protocol.records.batch import RecordBatch
    from kcli.protocol.records.message_set import LegacyEntry
    from kcli.protocol.topics import TopicPartition
    from kcli.storage.index.transaction_index import AbortedTransaction
    from kcli.storage.log.file_records import OpenFile
    from kcli.storage.log.log_config import LogConfig, LogSettings


LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2


class LogSegments:
    """The segments of one log in the order of their base offsets; the last one is active.

    A sorted list, since segments are few and found by offset all the time.
    """

    __slots__ = ("_base_offsets", "_segments", "active")

    active: LogSegment
    """The last segment, the only one written. Not set without a segment."""

    def __init__(self) -> None:
        self._base_offsets: list[int] = []
        self._segments: list[LogSegment] = []

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(tuple(self._segments))

    def __contains__(self, base_offset: int) -> bool:
        slot = bisect_left(self._base_offsets, base_offset)
        return slot < len(self._base_offsets) and self._base_offsets[slot] == base_offset

    @property
    def first(self) -> LogSegment:
        return self._segments[0]

    @property
    def base_offsets(self) -> list[int]:
        return list(self._base_offsets)

    @property
    def size_bytes(self) -> int:
        return sum([segment.records.size for segment in self._segments])

    def add(self, segment: LogSegment) -> None:
        """Add a segment; it replaces one with the same base offset."""
        slot = bisect_left(self._base_offsets, segment.base_offset)
        if segment.base_offset in self:
            self._segments[slot] = segment
        else:
            self._base_offsets.insert(slot, segment.base_offset)
            self._segments.insert(slot, segment)
        self.active = self._segments[-1]

    def remove(self, segment: LogSegment) -> None:
        slot = self._segments.index(segment)
        del self._segments[slot], self._base_offsets[slot]
        if self._segments:
            self.active = self._segments[-1]

    def floor(self, offset: int) -> LogSegment | None:
        """Return the last segment that begins at or below `offset`."""
        if self._base_offsets and offset >= self._base_offsets[-1]:
            return self.active
        slot = bisect_right(self._base_offsets, offset)
        return self._segments[slot - 1] if slot else None

    def higher(self, base_offset: int) -> LogSegment | None:
        """Return the first segment that begins above `base_offset`."""
        slot = bisect_right(self._base_offsets, base_offset)
        return self._segments[slot] if slot < len(self._segments) else None

    def between(self, start: int, end: int) -> list[LogSegment]:
        """Return the segments that may hold offsets of [start, end)."""
        low = max(bisect_right(self._base_offsets, start) - 1, 0)
        return self._segments[low : max(bisect_left(self._base_offsets, end), low)]

    def above(self, offset: int) -> list[LogSegment]:
        """Return the segments that begin above `offset`."""
        return self._segments[bisect_right(self._base_offsets, offset) :]

    def batches_between(self, start: int, end: int) -> Iterator[RecordBatch | LegacyEntry]:
        """Yield the batches that end within [start, end). Raises `CorruptRecord` and `OSError`."""
        for segment in self.between(start, end):
            first = max(segment.base_offset, start)
            entry = segment.find(first)
            if entry is None:
                continue
            for _, batch in segment.batches(entry.position):
                if batch.last_offset >= end:
                    break
                if batch.last_offset >= first:
                    yield batch

    def find_timestamp(self, timestamp: int, start_offset: int) -> tuple[int, int, int] | None:
        """Return (timestamp, offset, leader epoch) of the first record at or after both, None without one.

        Raises `CorruptRecord` and `OSError`.
        """
        for segment in self:
            if segment.largest_timestamp >= timestamp:
                found = segment.find_timestamp(timestamp, start_offset)
                # The record that made the segment qualify may lie below the start.
                if found is not None:
                    return found
        return None

    def starts_before(self, timestamp: int, log_start_offset: int, end_and_now: tuple[int, int]) -> list[int]:
        """Return where the segments begin that were last written before a time (-1 the end, -2 the start).

        `end_and_now` are the log end and its time. Raises `OSError`.
        """
        starts = [(max(segment.base_offset, log_start_offset), segment.modified_ms) for segment in self]
        if self.active.size:
            starts.append(end_and_now)
        if timestamp == EARLIEST_TIMESTAMP:
            count = 1
        elif timestamp == LATEST_TIMESTAMP:
            count = len(starts)
        else:
            count = max(
                (i + 1 for i, (_, modified_ms) in enumerate(starts) if modified_ms <= timestamp), default=0
            )
        return [offset for offset, _ in starts[:count]]

    def newest_timestamp(self) -> tuple[int, int, int] | None:
        """Return (timestamp, offset, leader epoch) of the first record with the largest timestamp.

        None for a log without timestamps. Raises `CorruptRecord` and `OSError`.
        """
        newest = max(self, key=lambda segment: segment.indexes.max_timestamp)
        largest = newest.indexes.max_timestamp
        return None if largest < 0 else newest.first_at(largest, newest.indexes.offset_of_max_timestamp)


class FlushPlan:
    """The fsyncs that make a log, or with `is_of_records` only its records, durable up to `offset`.

    The thread that owns the log makes and commits the plan; any thread runs it. The plan holds only open
    files and paths, so the log may be appended to, rolled and truncated meanwhile.
    """

    __slots__ = (
        "_directory",
        "_files",
        "epoch_changes",
        "is_of_records",
        "offset",
        "paths",
        "snapshots",
        "truncations",
    )

    def __init__(
        self,
        offset: int,
        *,
        truncations: int,
        files: list[OpenFile],
        paths: list[str],
        directory: str | None,
        is_of_records: bool = False,
    ) -> None:
        self.offset = offset
        self.is_of_records = is_of_records
        self.truncations = truncations
        self.paths = paths
        self.epoch_changes = 0
        """The value of `LeaderEpochs.changes` that the plan syncs."""
        self.snapshots: tuple[int, ...] = ()
        """The producer snapshots that the plan syncs."""
        self._files = files
        self._directory = directory

    def run(self) -> None:
        """Sync the log files, then the small files that exist, then the directory. Raises `OSError`."""
        for file in self._files:
            disk.sync_data(file.descriptor)
        for path in self.paths:
            # Never written, or deleted since by retention or a truncation.
            with suppress(FileNotFoundError):
                disk.sync_path(path)
        if self._directory is not None:
            try:
                disk.sync_path(self._directory)
                disk.sync_path(os.path.dirname(self._directory))
            except FileNotFoundError:
                # The replica was deleted meanwhile.
                return


class PendingDeletions:
    """Paths marked deleted, each with the time of marking and the time when it is due for unlinking."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items: list[tuple[int, int, str]] = []

    def add(self, path: str, *, now_ms: int, delay_ms: int) -> None:
        """Make a path due when the delay has passed."""
        self._items.append((now_ms, now_ms + delay_ms, path))

    def take_due(self, now_ms: int) -> list[str]:
        """Remove and return the due paths; a clock set back since the marking does not delay them."""
        if not self._items:
            return []
        due = [path for marked_ms, due_ms, path in self._items if due_ms <= now_ms or now_ms < marked_ms]
        if due:
            self._items = [item for item in self._items if item[0] <= now_ms < item[1]]
        return due

    def moved_to(self, directory: str) -> None:
        self._items = [
            (marked_ms, due_ms, f"{directory}/{os.path.basename(path)}")
            for marked_ms, due_ms, path in self._items
        ]


class DeletionPlan:
    """Paths to unlink; `run` collects those that it could not unlink in `failures`."""

    __slots__ = ("failures", "paths")

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths
        self.failures: list[tuple[str, OSError]] = []

    def run(self) -> None:
        """Unlink files and whole directories, in any thread; ignore what does not exist."""
        # Imported here: it imports many modules, and a start deletes nothing.
        import shutil

        for path in self.paths:
            try:
                if os.path.isdir(path):
                    shutil.rmtree(path)
                else:
                    os.unlink(path)
            except FileNotFoundError:
                # A file of the same offset, marked later, replaced this one.
                continue
            except OSError as error:
                self.failures.append((path, error))


NO_ENTRY = EntryPosition(0, 0, -1, -1)


class LocalLog:
    """The segments in `directory`; there is always at least one."""

    __slots__ = (
        "_deletions",
        "_on_failure",
        "_random_below",
        "_truncations",
        "config",
        "directory",
        "end_offset",
        "failure",
        "last_flushed_ms",
        "on_lowered_cleaner_offset",
        "parent_directory",
        "recovery_point",
        "report",
        "segments",
        "synced_offset",
        "topic_partition",
    )

    def __init__(
        self,
        directory: str,
        topic_partition: TopicPartition,
        *,
        settings: LogSettings,
        segments: LogSegments,
        end_offset: int,
        recovery_point: int,
        now_ms: int,
    ) -> None:
        self.directory = directory
        self.parent_directory = os.path.dirname(directory)
        """The log directory, in which the replica's directory may get another name."""
        self.topic_partition = topic_partition
        self.config = settings.config
        self.segments = segments
        self.recovery_point = recovery_point
        self.synced_offset = recovery_point
        """Records below it are on disk, but the indexes and the small files only below the recovery point."""
        self.last_flushed_ms = now_ms
        self.report = settings.report
        self.failure: str | None = None
        """Why the log is out of service."""
        self._on_failure = settings.on_failure
        self.on_lowered_cleaner_offset = settings.on_lowered_cleaner_offset
        self._random_below = settings.random_below
        self._deletions = PendingDeletions()
        self._truncations = 0
        self.set_end(end_offset)

    def set_end(self, offset: int) -> None:
        """Give the next record `offset`, behind the end of the active segment."""
        self.end_offset = offset
        if self.synced_offset > offset:
            self.synced_offset = offset
            self.recovery_point = min(self.recovery_point, offset)

    def end(self) -> LogOffsetMetadata:
        return LogOffsetMetadata(self.end_offset, self.segments.active.base_offset, self.segments.active.size)

    def locate(self, offset: int) -> LogOffsetMetadata:
        """Return the position of an offset within the log. Raises `CorruptRecord` and `OSError`."""
        segment = self.segments.floor(offset) if offset < self.end_offset else None
        while segment is not None:
            entry = segment.find(offset)
            if entry is not None:
                return LogOffsetMetadata(offset, segment.base_offset, entry.position)
            segment = self.segments.higher(segment.base_offset)
        return self.end()

    def find_slice(
        self, offset: int, max_bytes: int, limit: LogOffsetMetadata, min_one: bool
    ) -> tuple[LogSegment, EntryPosition, int]:
        """Return segment, first batch and size of the slice from `offset` to the limit; size 0 if empty.

        Raises `CorruptRecord` and `OSError`.
        """
        segment = self.segments.floor(offset) if offset < limit.offset else None
        while segment is not None and segment.base_offset <= limit.segment_base_offset:
            entry = segment.find(offset)
            if entry is not None:
                # Never past the limit in its own segment: records behind it may be uncommitted.
                is_last = segment.base_offset == limit.segment_base_offset
                size = (limit.position if is_last else segment.size) - entry.position
                return segment, entry, min(size, max(max_bytes, entry.size) if min_one else max_bytes)
            # Compaction removed the records up to the next segment.
            segment = self.segments.higher(segment.base_offset)
        return self.segments.active, NO_ENTRY, 0

    def aborted_in(self, offset: int, segment: LogSegment, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that touch the records from `offset` to file position `end`.

        Raises `CorruptIndex` and `OSError`.
        """
        upper = segment.indexes.offsets.upper_bound(end)
        if upper is None:
            higher = self.segments.higher(segment.base_offset)
            upper = self.end_offset if higher is None else higher.base_offset
        aborted: list[AbortedTransaction] = []
        current: LogSegment | None = segment
        while current is not None:
            found, complete = current.indexes.transactions.collect(offset, upper)
            aborted += found
            if complete:
                break
            current = self.segments.higher(current.base_offset)
        return aborted

    def roll(self, base_offset: int, now_ms: int) -> LogSegment:
        """Finish the active segment and begin another. Raises `OSError`."""
        active = self.segments.active
        if active.base_offset == base_offset and not active.size:
            # An empty segment with a full index, or rolled for its age: create it again in the same files, so
            # that a log never is without a segment.
            segment = self._new_segment(base_offset, now_ms)
        elif base_offset <= active.base_offset:
            raise ValueError(f"cannot roll `{self.directory}` at offset {base_offset}")
        else:
            active.finish()
            segment = self._create_segment(base_offset, now_ms)
        self.set_end(self.end_offset)
        return segment

    def _create_segment(self, base_offset: int, now_ms: int) -> LogSegment:
        for path in LogSegment.paths(self.directory, base_offset):
            if os.path.exists(path):
                self.report(f"deleting a file in the way of a new segment: `{path}`")
                os.unlink(path)
        return self._new_segment(base_offset, now_ms)

    def _new_segment(self, base_offset: int, now_ms: int) -> LogSegment:
        segment = LogSegment.create(
            self.directory, base_offset, config=self.config, now_ms=now_ms, report=self.report
        )
        jitter_ms = min(self.config.segment_jitter_ms, self.config.roll_ms)
        segment.roll_jitter_ms = self._random_below(jitter_ms) if jitter_ms > 0 else 0
        self.segments.add(segment)
        return segment

    def truncate_to(self, offset: int, now_ms: int) -> list[LogSegment]:
        """Drop the batches that end at or above `offset`, not below the first segment's base offset.

        Returns the removed segments. Raises `CorruptRecord` and `OSError`.
        """
        self._truncations += 1
        removed = self.segments.above(offset)
        for segment in removed:
            self.remove(segment, now_ms)
        self.segments.active.truncate_to(offset, now_ms)
        self.set_end(offset)
        return removed

    def start_over_at(self, offset: int, now_ms: int) -> None:
        """Drop everything; the next record gets `offset`. Raises `OSError`."""
        self._truncations += 1
        for segment in self.segments:
            self.remove(segment, now_ms)
        self._create_segment(offset, now_ms)
        self.set_end(offset)

    def remove(self, segment: LogSegment, now_ms: int) -> None:
        """Remove a segment; mark its files now and delete them later. Raises `OSError`."""
        self.segments.remove(segment)
        for path in segment.mark_deleted():
            self.delete_later(path, now_ms)

    def delete_later(self, path: str, now_ms: int) -> None:
        """Delete a marked file when the delay has passed."""
        self._deletions.add(path, now_ms=now_ms, delay_ms=self.config.file_delete_delay_ms)

    def take_due_deletions(self, now_ms: int) -> list[str]:
        return self._deletions.take_due(now_ms)

    def is_flush_due(self, now_ms: int) -> bool:
        """Whether `flush.messages` or `flush.ms` asks for a flush up to the end."""
        unflushed = self.end_offset - self.recovery_point
        waited_ms = now_ms - self.last_flushed_ms
        # Below 0 the clock was set back, and the waiting time is unknown.
        is_late = waited_ms >= self.config.flush_ms or waited_ms < 0
        return unflushed > 0 and (unflushed >= self.config.flush_messages or is_late)

    @property
    def has_rolled(self) -> bool:
        """Whether a segment that is not durable has another behind it."""
        return self.recovery_point < self.segments.active.base_offset

    def has_unflushed_files(self) -> bool:
        """Whether the directory entries of some segments are not durable."""
        return self.segments.active.base_offset >= self.recovery_point

    def plan_flush(self, offset: int, small_files: list[str]) -> FlushPlan:
        """Write the index files, and return what to sync up to `offset`. Raises `OSError`."""
        segments = self.segments.between(self.recovery_point, offset)
        for segment in segments:
            segment.indexes.write()
        files = [segment.records.handle for segment in segments]
        paths = [path for segment in segments for path in segment.index_paths()]
        directory = self.directory if self.has_unflushed_files() else None
        return FlushPlan(
            offset, truncations=self._truncations, files=files, paths=paths + small_files, directory=directory
        )

    def plan_sync(self, offset: int) -> FlushPlan:
        """Return what to sync so that the records up to `offset` are on disk.

        After an unclean stop their segments are recovered, which makes everything else of them again.
        """
        segments = self.segments.between(self.synced_offset, offset)
        is_new = self.segments.active.base_offset >= self.synced_offset
        return FlushPlan(
            offset,
            truncations=self._truncations,
            files=[segment.records.handle for segment in segments],
            paths=[f"{self.directory}/{PARTITION_METADATA}"] if is_new else [],
            directory=self.directory if is_new else None,
            is_of_records=True,
        )

    def commit_flush(self, plan: FlushPlan, now_ms: int) -> None:
        """Raise the recovery point after a plan was run, unless the log was truncated since."""
        if plan.truncations != self._truncations:
            return
        self.synced_offset = max(self.synced_offset, plan.offset)
        if plan.offset > self.recovery_point and not plan.is_of_records:
            self.recovery_point = plan.offset
            self.last_flushed_ms = now_ms

    def rename_directory(self, path: str) -> None:
        os.replace(self.directory, path)
        self._deletions.moved_to(path)
        self.directory = path
        for segment in self.segments:
            segment.moved_to(path)

    def update_config(self, config: LogConfig) -> None:
        self.config = config
        self.segments.active.forget_timestamp_limit()

    def close_handlers(self) -> None:
        for segment in self.segments:
            segment.close_handlers()

    def go_offline(self, reason: str) -> None:
        self.failure = reason
        self.close_handlers()

    def failed(self, doing: str, error: OSError | CorruptRecord, *, is_whole: bool = True) -> KafkaError:
        """Take the log directory out of service for an I/O error; return the error to raise.

        A shortage is no failure of the directory: the log goes on if the operation has left it whole, and is
        out of service until the node starts again if not.
        """
        directory = self.parent_directory
        message = f"cannot {doing} {self.topic_partition} in `{directory}`: {reason_of(error)}"
        if isinstance(error, OSError) and disk.is_shortage(error):
            if not is_whole:
                self.failure = message
                self.report(f"{message}; the partition is out of service until the node starts again")
            return disk.StorageShortage(message, error)
        self.failure = message
        self._on_failure(directory, message)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)
