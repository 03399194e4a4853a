"""LogSegment: one `.log` file with its indexes: append, find, read, truncate, recover.

Only the last segment of a log, the active one, is written. Indexes are loaded on first use; one that is
missing, damaged or at odds with the log is rebuilt from the log, never repaired. They reach the disk when
the segment is flushed, rolled or closed, which is enough: after an unclean stop every segment that was
not flushed is recovered (Kafka class `LogSegment`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.protocol.record import CorruptRecord
from kcli.protocol.record_batch import RecordBatch, iter_batches
from kcli.protocol.record_batch_header import HEADER_SIZE, MAGIC_POSITION
from kcli.storage.file_records import EntryPosition, FileRecords
from kcli.storage.index_file import CorruptIndex
from kcli.storage.log_paths import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_path,
)
from kcli.storage.offset_index import OffsetIndex
from kcli.storage.time_index import NO_TIMESTAMP, TimeIndex
from kcli.storage.transaction_index import AbortedTransaction, TransactionIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kcli.protocol.message_set import LegacyEntry
    from kcli.protocol.record import Buffer
    from kcli.storage.log_config import LogConfig
    from kcli.storage.producer_append import CompletedTransaction
    from kcli.storage.producer_state import ProducerStateManager

MAX_RELATIVE_OFFSET = 2**31 - 1


class LogSegment:
    """The segment of a log that begins at `base_offset`."""

    __slots__ = (
        "_bytes_since_index_entry",
        "_first_batch_timestamp",
        "_max_timestamp",
        "_offset_index",
        "_offset_of_max_timestamp",
        "_tail",
        "_time_index",
        "_transaction_index",
        "base_offset",
        "created_ms",
        "directory",
        "index_interval_bytes",
        "records",
        "report",
        "roll_jitter_ms",
        "segment_index_bytes",
    )

    def __init__(
        self,
        directory: str,
        base_offset: int,
        records: FileRecords,
        config: LogConfig,
        *,
        created_ms: int,
        roll_jitter_ms: int = 0,
        report: Callable[[str], None],
    ) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.records = records
        self.index_interval_bytes = config.index_interval_bytes
        self.segment_index_bytes = config.segment_index_bytes
        self.created_ms = created_ms
        self.roll_jitter_ms = roll_jitter_ms
        self.report = report
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._transaction_index: TransactionIndex | None = None
        self._bytes_since_index_entry = 0
        self._max_timestamp: int | None = None
        self._offset_of_max_timestamp = base_offset
        self._first_batch_timestamp: int | None = None
        # The entry written last: what a consumer at the end of the log asks for next.
        self._tail: tuple[int, int, int, int] | None = None

    @classmethod
    def create(
        cls,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        now_ms: int,
        roll_jitter_ms: int = 0,
        report: Callable[[str], None],
    ) -> LogSegment:
        """Make the files of a new, empty segment. Raises `OSError`."""
        records = FileRecords.create(
            segment_path(directory, base_offset, LOG_SUFFIX),
            preallocate_bytes=config.segment_bytes if config.preallocate else 0,
        )
        segment = cls(
            directory,
            base_offset,
            records,
            config,
            created_ms=now_ms,
            roll_jitter_ms=roll_jitter_ms,
            report=report,
        )
        segment._offset_index = segment._new_offset_index()
        segment._offset_index.create()
        segment._time_index = segment._new_time_index()
        segment._time_index.create()
        segment._transaction_index = segment._new_transaction_index()
        segment._max_timestamp = NO_TIMESTAMP
        return segment

    @classmethod
    def open(
        cls,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        now_ms: int,
        roll_jitter_ms: int = 0,
        report: Callable[[str], None],
    ) -> LogSegment:
        """Return a segment that is on disk; nothing of it is read yet. Raises `OSError`."""
        records = FileRecords.open(segment_path(directory, base_offset, LOG_SUFFIX))
        return cls(
            directory,
            base_offset,
            records,
            config,
            created_ms=now_ms,
            roll_jitter_ms=roll_jitter_ms,
            report=report,
        )

    def __repr__(self) -> str:
        return f"LogSegment(base_offset={self.base_offset}, size={self.size})"

    # --- what it is

    @property
    def size(self) -> int:
        """Bytes of records."""
        return self.records.size

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index, loaded or rebuilt if need be. Raises `OSError`."""
        if self._offset_index is None:
            self._load_indexes()
            assert self._offset_index is not None
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """The time index, loaded or rebuilt if need be. Raises `OSError`."""
        if self._time_index is None:
            self._load_indexes()
            assert self._time_index is not None
        return self._time_index

    @property
    def transaction_index(self) -> TransactionIndex:
        """The aborted transactions, loaded if need be. Raises `CorruptIndex` and `OSError`."""
        if self._transaction_index is None:
            index = self._new_transaction_index()
            index.load()
            self._transaction_index = index
        return self._transaction_index

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of the records, -1 without one. Raises `OSError`."""
        if self._max_timestamp is None:
            self._max_timestamp, self._offset_of_max_timestamp = self.time_index.last_entry
        return self._max_timestamp

    @property
    def offset_of_max_timestamp(self) -> int:
        """The last offset of the batch with the largest timestamp. Raises `OSError`."""
        if self._max_timestamp is None:
            self._max_timestamp, self._offset_of_max_timestamp = self.time_index.last_entry
        return self._offset_of_max_timestamp

    @property
    def modified_ms(self) -> int:
        """When the log file was written last, by the file system's clock. Raises `OSError`."""
        return os.stat(self.records.path).st_mtime_ns // 1_000_000

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp, or when the file was written if no record has one. Raises `OSError`."""
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self.modified_ms

    @staticmethod
    def paths(directory: str, base_offset: int) -> list[str]:
        """Return the paths that the files of a segment have."""
        return [segment_path(directory, base_offset, suffix) for suffix in SEGMENT_SUFFIXES]

    # --- append

    def append(self, data: Buffer, batches: Sequence[RecordBatch | LegacyEntry]) -> None:
        """Write whole entries, given as bytes and taken apart, at the end.

        After an `OSError` nothing of them is left.
        """
        records = self.records
        position = records.size
        max_timestamp = self._max_timestamp
        if max_timestamp is None:
            max_timestamp = self.max_timestamp
        records.append(data)
        for batch in batches:
            if batch.max_timestamp > max_timestamp:
                self._max_timestamp = max_timestamp = batch.max_timestamp
                self._offset_of_max_timestamp = batch.last_offset
            if self._bytes_since_index_entry > self.index_interval_bytes:
                self.offset_index.append(batch.last_offset, position)
                self.time_index.maybe_append(max_timestamp, self._offset_of_max_timestamp)
                self._bytes_since_index_entry = 0
            size = batch.size_in_bytes
            self._bytes_since_index_entry += size
            position += size
        last_offset = batch.last_offset
        base_offset = batch.base_offset if batch.magic == 2 else last_offset
        # Not the batch itself: it holds on to the caller's buffer.
        self._tail = position - size, size, base_offset, last_offset

    def should_roll(
        self, size: int, last_offset: int, max_timestamp: int, config: LogConfig, now_ms: int
    ) -> bool:
        """Whether `size` more bytes up to `last_offset` belong into a new segment. Raises `OSError`."""
        own_size = self.records.size
        if own_size > config.segment_bytes - size or last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        offset_index, time_index = self._offset_index, self._time_index
        if offset_index is None or time_index is None:
            offset_index, time_index = self.offset_index, self.time_index
        if offset_index.is_full or time_index.is_full:
            return True
        return (
            own_size > 0
            and self.waited_for_roll_ms(max_timestamp, now_ms) > config.segment_ms - self.roll_jitter_ms
        )

    def waited_for_roll_ms(self, max_timestamp: int, now_ms: int) -> int:
        """The age that `segment.ms` limits: by record timestamps, by the clock if there are none."""
        first = self._first_batch_timestamp
        if first is None:
            first = self._load_first_batch_timestamp()
        return max_timestamp - first if first >= 0 else now_ms - self.created_ms

    def finish_transaction(self, transaction: CompletedTransaction, state: ProducerStateManager) -> None:
        """Take note of a transaction whose marker is in this segment. Raises `OSError`."""
        if transaction.is_aborted:
            self.transaction_index.append(
                AbortedTransaction(
                    transaction.producer_id,
                    transaction.first_offset,
                    transaction.last_offset,
                    state.last_stable_offset(transaction),
                )
            )
        state.complete(transaction)

    # --- find and read

    def find(self, offset: int) -> EntryPosition | None:
        """Return the first entry that ends at or above `offset`, None past the end.

        Raises `CorruptRecord` and `OSError`.
        """
        tail = self._tail
        if tail is not None and offset >= tail[2]:
            return EntryPosition(*tail) if offset <= tail[3] else None
        key, position = self.offset_index.lookup(offset)
        try:
            return self.records.search(offset, position, (self.base_offset, key) if position else None)
        except CorruptIndex as error:
            self.report(f"rebuilding the indexes of `{self.records.path}`: {error}")
        self.rebuild_indexes()
        _, position = self.offset_index.lookup(offset)
        return self.records.search(offset, position)

    def find_end(self) -> tuple[int, int]:
        """Return the offset and the position behind the last whole entry, looked for from the index's end on.

        A position below the size means that the file does not end with an entry. Raises `CorruptRecord` and
        `OSError`.
        """
        last = None
        entry = self.find(self.offset_index.last_offset)
        if entry is not None:
            for last in self.records.entries(entry.position):  # noqa: B007  # the last one is wanted
                pass
        if last is None:
            return self.base_offset, 0
        return last.last_offset + 1, last.position + last.size

    def batches(
        self, position: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, RecordBatch | LegacyEntry]]:
        """Yield (position, batch) from the entry at `position` on. Raises `CorruptRecord` and `OSError`."""
        for run_position, run in self.records.scan(position, end):
            for batch in iter_batches(run):
                yield run_position + batch.position, batch

    def find_offset_by_timestamp(self, timestamp: int, start_offset: int) -> tuple[int, int, int] | None:
        """Return (timestamp, offset, leader epoch) of the first record at or after both, None without one.

        Raises `CorruptRecord` and `OSError`.
        """
        _, from_offset = self.time_index.lookup(timestamp)
        entry = self.find(max(from_offset, start_offset))
        if entry is None:
            return None
        for _, batch in self.batches(entry.position):
            if batch.max_timestamp >= timestamp and batch.last_offset >= start_offset:
                for record in batch.records():
                    if record.timestamp >= timestamp and record.offset >= start_offset:
                        return record.timestamp, record.offset, _leader_epoch(batch)
        return None

    def first_with_timestamp(self, timestamp: int, from_offset: int) -> tuple[int, int, int] | None:
        """Return (timestamp, offset, leader epoch) of the first record that has exactly this timestamp.

        `from_offset` is that of a batch known to hold one. Raises `CorruptRecord` and `OSError`.
        """
        entry = self.find(from_offset)
        if entry is None:
            return None
        for _, batch in self.batches(entry.position):
            if batch.max_timestamp == timestamp:
                for record in batch.records():
                    if record.timestamp == timestamp:
                        return timestamp, record.offset, _leader_epoch(batch)
        return None

    # --- truncate, recover

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Drop the entries that end at or above `offset`; return how many bytes went. Raises `OSError`."""
        entry = self.find(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        cut = self.records.truncate_to(entry.position) if entry is not None else 0
        self._tail = None
        self._bytes_since_index_entry = 0
        if not self.size:
            self.created_ms = now_ms
            self._first_batch_timestamp = None
        self._max_timestamp = None
        self._settle_max_timestamp()
        return cut

    def recover(self, on_batch: Callable[[RecordBatch | LegacyEntry], None]) -> int:
        """Check every batch, rebuild the indexes, cut at the first bad one; return how many bytes were cut.

        `on_batch` sees each good batch in order. Raises `OSError`.
        """
        self._reset_indexes()
        position = 0
        try:
            for at, batch in self.batches():
                if not batch.is_valid_crc():
                    raise CorruptRecord(f"wrong checksum at position {at}")
                if not 0 <= batch.last_offset - self.base_offset <= MAX_RELATIVE_OFFSET:
                    raise CorruptRecord(f"offset {batch.last_offset} outside the segment at position {at}")
                self._index(batch, at)
                on_batch(batch)
                position = at + batch.size_in_bytes
        except CorruptRecord as error:
            self.report(f"bad records in `{self.records.path}`: {error}")
        cut = self.records.truncate_to(position)
        self._finish_indexes()
        return cut

    def rebuild_indexes(self) -> None:
        """Make the offset and time index anew from the heads of the batches.

        Stops at the first that is damaged. Raises `OSError`.
        """
        self._offset_index = self._new_offset_index()
        self._time_index = self._new_time_index()
        self._offset_index.create()
        self._time_index.create()
        self._max_timestamp, self._offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset
        self._bytes_since_index_entry = 0
        try:
            for at, batch in self.batches():
                self._index(batch, at)
        except CorruptRecord as error:
            self.report(f"the index ends where records are bad: {error}: `{self.records.path}`")
        self._finish_indexes()

    # --- files

    def write_indexes(self) -> None:
        """Bring the index files up to date. Raises `OSError`."""
        if self._offset_index is not None:
            self._offset_index.write()
        if self._time_index is not None:
            self._time_index.write()

    def index_paths(self) -> list[str]:
        """Return the paths of the index files, whether they exist or not."""
        return self.paths(self.directory, self.base_offset)[1:]

    def become_inactive(self) -> None:
        """Finish the indexes and trim the file: another segment is written from now on. Raises `OSError`."""
        self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        self.offset_index.finish()
        self.time_index.finish()
        self.records.trim()
        self._tail = None

    def finish(self) -> None:
        """Bring the files of what was touched to the state of a closed segment. Raises `OSError`."""
        if self._max_timestamp is not None and self.size:
            self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        if self._offset_index is not None:
            self._offset_index.finish()
        if self._time_index is not None:
            self._time_index.finish()
        self.records.trim()

    def close_handlers(self) -> None:
        """Let go of the file without writing anything: the directory has failed."""
        self.records.close()

    def moved_to(self, directory: str) -> None:
        """Follow a rename of the replica's directory."""
        self.directory = directory
        self.records.renamed(segment_path(directory, self.base_offset, LOG_SUFFIX))
        for index in (self._offset_index, self._time_index, self._transaction_index):
            if index is not None:
                index.renamed(f"{directory}/{os.path.basename(index.path)}")

    def mark_deleted(self) -> list[str]:
        """Rename all files to `.deleted` and return their new paths. Raises `OSError`."""
        paths = []
        for path in self.paths(self.directory, self.base_offset):
            if os.path.exists(path):
                os.replace(path, path + DELETED_SUFFIX)
                paths.append(path + DELETED_SUFFIX)
        self.records.renamed(self.records.path + DELETED_SUFFIX)
        self.records.close()
        return paths

    # --- indexes

    def _new_offset_index(self) -> OffsetIndex:
        path = segment_path(self.directory, self.base_offset, INDEX_SUFFIX)
        return OffsetIndex(path, self.base_offset, self.segment_index_bytes)

    def _new_time_index(self) -> TimeIndex:
        path = segment_path(self.directory, self.base_offset, TIME_INDEX_SUFFIX)
        return TimeIndex(path, self.base_offset, self.segment_index_bytes)

    def _new_transaction_index(self) -> TransactionIndex:
        path = segment_path(self.directory, self.base_offset, TRANSACTION_INDEX_SUFFIX)
        return TransactionIndex(path, self.base_offset)

    def _load_indexes(self) -> None:
        offset_index, time_index = self._new_offset_index(), self._new_time_index()
        try:
            offset_index.load(self.size)
            time_index.load()
            if not len(offset_index) and self._needs_index_entries():
                raise CorruptIndex(f"no entries for {self.size} bytes of log: `{offset_index.path}`")
            if not len(time_index) and self._has_timestamps():
                raise CorruptIndex(f"no entries for {self.size} bytes of log: `{time_index.path}`")
        except (CorruptIndex, FileNotFoundError) as error:
            self.report(f"rebuilding the indexes of `{self.records.path}`: {error}")
            self.rebuild_indexes()
            return
        self._offset_index, self._time_index = offset_index, time_index

    def _needs_index_entries(self) -> bool:
        """Whether the log is so long that an index without entries must have lost them."""
        if self.size <= self.index_interval_bytes:
            return False
        return sum(1 for _ in zip(self._heads(), range(3), strict=False)) == 3

    def _has_timestamps(self) -> bool:
        return bool(self.size) and self._load_first_batch_timestamp() >= 0

    def _heads(self) -> Iterator[EntryPosition]:
        try:
            yield from self.records.entries()
        except CorruptRecord:
            return

    def _reset_indexes(self) -> None:
        self._tail = None
        self._offset_index = self._new_offset_index()
        self._time_index = self._new_time_index()
        self._transaction_index = self._new_transaction_index()
        self._offset_index.create()
        self._time_index.create()
        self._transaction_index.reset()
        self._max_timestamp, self._offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset
        self._bytes_since_index_entry = 0

    def _index(self, batch: RecordBatch | LegacyEntry, position: int) -> None:
        if batch.max_timestamp > self.max_timestamp:
            self._max_timestamp, self._offset_of_max_timestamp = batch.max_timestamp, batch.last_offset
        if self._bytes_since_index_entry > self.index_interval_bytes:
            self.offset_index.append(batch.last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self._offset_of_max_timestamp)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += batch.size_in_bytes

    def _finish_indexes(self) -> None:
        self.time_index.maybe_append(self.max_timestamp, self._offset_of_max_timestamp)
        self.offset_index.finish()
        self.time_index.finish()

    def _settle_max_timestamp(self) -> None:
        """Find the largest timestamp again: in the index up to its end, in the batches behind it."""
        timestamp, offset = self.time_index.last_entry
        self._max_timestamp, self._offset_of_max_timestamp = timestamp, offset
        _, position = self.offset_index.lookup(offset)
        for _, batch in self.batches(position):
            if batch.max_timestamp > self._max_timestamp:
                self._max_timestamp, self._offset_of_max_timestamp = batch.max_timestamp, batch.last_offset

    def _load_first_batch_timestamp(self) -> int:
        if self._first_batch_timestamp is None:
            head = self.records.read(0, HEADER_SIZE)
            if not head:
                return NO_TIMESTAMP
            try:
                self._first_batch_timestamp = max_timestamp_in(head)
            except CorruptRecord:
                return NO_TIMESTAMP
        return self._first_batch_timestamp


def max_timestamp_in(head: bytes) -> int:
    """Return the largest timestamp of the entry that begins like this. Raises `CorruptRecord`."""
    if len(head) > MAGIC_POSITION and head[MAGIC_POSITION] < 2:
        from kcli.protocol.message_set import LegacyEntry

        return LegacyEntry(head).max_timestamp
    return RecordBatch(head).max_timestamp


def _leader_epoch(batch: RecordBatch | LegacyEntry) -> int:
    return batch.partition_leader_epoch if isinstance(batch, RecordBatch) else -1
