"""LogSegment: one `.log` file with its indexes: append, find, read, truncate, recover.

Only the last segment of a log, the active one, is written (Kafka class `LogSegment`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.protocol.corruption import BYTES_PER_RECORD, CorruptRecord, TooMuchData
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.storage.index.index_file import CorruptIndex
from kcli.storage.index.offset_index import MAX_RELATIVE_OFFSET
from kcli.storage.log.file_records import SEARCH_BYTES, EntryPosition, FileRecords
from kcli.storage.log.segment_indexes import SegmentIndexes
from kcli.storage.log_paths import DELETED_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, segment_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kcli.protocol.corruption import Buffer
    from kcli.protocol.records.message_set import LegacyEntry
    from kcli.protocol.records.record import Record
    from kcli.storage.index.transaction_index import AbortedTransaction
    from kcli.storage.log.file_records import WriteAhead
    from kcli.storage.log.log_config import LogConfig

UNKNOWN_LIMIT = -(2**63)
MAX_SEARCHED_BYTES = 16 * 1024 * 1024
"""The limit of what a search by time reads of a segment, because it blocks all other work."""


class LogSegment:
    """The segment of a log that begins at `base_offset`."""

    __slots__ = (
        "_report",
        "base_offset",
        "created_ms",
        "directory",
        "indexes",
        "offset_limit",
        "records",
        "roll_jitter_ms",
        "tail",
        "timestamp_limit",
    )

    def __init__(
        self,
        directory: str,
        base_offset: int,
        *,
        records: FileRecords,
        config: LogConfig,
        now_ms: int,
        report: Callable[[str], None],
    ) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.records = records
        self.indexes = SegmentIndexes(directory, base_offset, records=records, config=config, report=report)
        self.created_ms = now_ms
        self.roll_jitter_ms = 0
        self._report = report
        self.tail: tuple[int, int, int, int] | None = None
        """The entry written last, as an `EntryPosition`: a consumer at the end asks for it next."""
        self.offset_limit = base_offset + MAX_RELATIVE_OFFSET
        """The highest offset that fits."""
        self.timestamp_limit = UNKNOWN_LIMIT
        """The latest timestamp that fits; `should_roll` sets it once a record exists."""

    @classmethod
    def create(
        cls,
        directory: str,
        base_offset: int,
        *,
        config: LogConfig,
        now_ms: int,
        report: Callable[[str], None],
    ) -> LogSegment:
        """Create the files of a new, empty segment. Raises `OSError`."""
        records = FileRecords.create(
            segment_path(directory, base_offset, LOG_SUFFIX),
            preallocate_bytes=config.segment_bytes if config.preallocate else 0,
        )
        segment = cls(directory, base_offset, records=records, config=config, now_ms=now_ms, report=report)
        segment.indexes.create()
        return segment

    @classmethod
    def open(
        cls,
        directory: str,
        base_offset: int,
        *,
        config: LogConfig,
        now_ms: int,
        report: Callable[[str], None],
    ) -> LogSegment:
        """Return a segment on disk, without reading it. Raises `OSError`."""
        records = FileRecords.open(segment_path(directory, base_offset, LOG_SUFFIX))
        return cls(directory, base_offset, records=records, config=config, now_ms=now_ms, report=report)

    def __repr__(self) -> str:
        return f"LogSegment(base_offset={self.base_offset}, size={self.size})"

    @property
    def size(self) -> int:
        return self.records.size

    @property
    def modified_ms(self) -> int:
        """When the log file was last written, ms by the file system's clock. Raises `OSError`."""
        return os.stat(self.records.path).st_mtime_ns // 1_000_000

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp, or the time of the last write if no record has one. Raises `OSError`."""
        timestamp = self.indexes.max_timestamp
        return timestamp if timestamp >= 0 else self.modified_ms

    @staticmethod
    def paths(directory: str, base_offset: int) -> list[str]:
        return [segment_path(directory, base_offset, suffix) for suffix in SEGMENT_SUFFIXES]

    def append(
        self, data: Buffer, batches: Sequence[RecordBatch | LegacyEntry], written: WriteAhead | None = None
    ) -> None:
        """Write whole entries, given as bytes and parsed, at the end.

        After an `OSError` none of them is left in the log file or the indexes.
        """
        self.indexes.load_once()
        position = self.records.size
        self.records.append(data, written)
        for batch in batches:
            size, last_offset = batch.size_in_bytes, batch.last_offset
            self.indexes.add(position, size, last_offset, batch.max_timestamp)
            position += size
        base_offset = batch.base_offset if batch.magic == 2 else last_offset
        # Not the batch itself, which keeps the caller's buffer alive.
        self.tail = position - size, size, base_offset, last_offset

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Add aborted transactions, whose markers are in this segment, to its index. Raises `OSError`."""
        for transaction in transactions:
            self.indexes.transactions.append(transaction)

    def should_roll(
        self, size: int, last_offset: int, max_timestamp: int, config: LogConfig, now_ms: int
    ) -> bool:
        """Whether `size` more bytes up to `last_offset` need a new segment. Raises `OSError`."""
        own_size = self.records.size
        self.indexes.load_once()
        if own_size > config.segment_bytes - size or last_offset > self.offset_limit or self.indexes.is_full:
            return True
        if not own_size:
            return False
        # The age of the records counts; without timestamps, that of the segment.
        first = self.indexes.first_timestamp
        roll_ms = config.roll_ms - self.roll_jitter_ms
        if first < 0:
            return now_ms - self.created_ms > roll_ms
        self.timestamp_limit = first + roll_ms
        return max_timestamp > self.timestamp_limit

    def forget_timestamp_limit(self) -> None:
        """Drop `timestamp_limit`, because the records or the configuration changed."""
        self.timestamp_limit = UNKNOWN_LIMIT

    def find(self, offset: int) -> EntryPosition | None:
        """Return the first entry that ends at or above `offset`, None past the end.

        Raises `CorruptRecord` and `OSError`.
        """
        tail = self.tail
        if tail is not None and offset >= tail[2]:
            return EntryPosition(*tail) if offset <= tail[3] else None
        offsets = self.indexes.offsets
        # Walking over a gap from the entry before it would take another read.
        behind_gap = offsets.lookup_behind_gap(offset, SEARCH_BYTES)
        if behind_gap is not None:
            last_offset, position = behind_gap
            entry = self.records.batch_at(position, offset, last_offset=last_offset)
            if entry is not None:
                return entry
        key, position = offsets.lookup(offset)
        # At least the batch of the previous index entry lies before this one.
        bounds = (offsets.lookup(key - 1)[0] + 1, key) if position else None
        try:
            return self.records.search(offset, position, bounds)
        except CorruptIndex as error:
            self._report(f"rebuilding the indexes of `{self.records.path}`: {error}")
        self.indexes.rebuild()
        _, position = self.indexes.offsets.lookup(offset)
        return self.records.search(offset, position)

    def find_end(self) -> tuple[int, int]:
        """Return the offset and the position behind the last whole entry, searching from the index's end on.

        At a position below the size the file does not end with a whole entry. Raises `CorruptRecord` and
        `OSError`.
        """
        last = None
        entry = self.find(self.indexes.offsets.last_offset)
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

    def find_timestamp(self, timestamp: int, start_offset: int) -> tuple[int, int, int] | None:
        """Return (timestamp, offset, leader epoch) of the first record at or after both, None without one.

        If the search takes more than `MAX_SEARCHED_BYTES`, returns the start of the batch instead. Raises
        `CorruptRecord` and `OSError`.
        """
        _, from_offset = self.indexes.times.lookup(timestamp)
        return self.first_at(timestamp, max(from_offset, start_offset), start_offset)

    def first_at(
        self, timestamp: int, from_offset: int, start_offset: int = 0
    ) -> tuple[int, int, int] | None:
        """Return what `find_timestamp` does, searching from the batch that holds `from_offset` on."""
        entry = self.find(from_offset)
        if entry is None:
            return None
        room = MAX_SEARCHED_BYTES
        for _, batch in self.batches(entry.position):
            if batch.max_timestamp >= timestamp and batch.last_offset >= start_offset:
                epoch = batch.partition_leader_epoch if isinstance(batch, RecordBatch) else -1
                try:
                    records, size = _read(batch, room)
                except TooMuchData:
                    return batch.max_timestamp, max(batch.base_offset, start_offset), epoch
                room -= size
                for record in records:
                    if record.timestamp >= timestamp and record.offset >= start_offset:
                        return record.timestamp, record.offset, epoch
        return None

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Drop the entries that end at or above `offset`; return the bytes cut. Raises `OSError`."""
        entry = self.find(offset)
        cut = self.records.truncate_to(entry.position) if entry is not None else 0
        self.tail = None
        self.forget_timestamp_limit()
        self.indexes.truncate_to(offset, lambda target: self.indexes.offsets.lookup(target)[1])
        if not self.size:
            self.created_ms = now_ms
        return cut

    def recover(self, on_batch: Callable[[RecordBatch | LegacyEntry], None]) -> int:
        """Check every batch, rebuild the indexes, cut at the first bad batch; return the bytes cut.

        Calls `on_batch` for each good batch in order. Raises `OSError`.
        """
        self.tail = None
        self.forget_timestamp_limit()
        self.indexes.reset()
        position = 0
        try:
            for at, batch in self.batches():
                if not batch.is_valid_crc():
                    raise CorruptRecord(f"wrong checksum at position {at}")
                if not 0 <= batch.last_offset - self.base_offset <= MAX_RELATIVE_OFFSET:
                    raise CorruptRecord(f"offset {batch.last_offset} outside the segment at position {at}")
                self.indexes.add(at, batch.size_in_bytes, batch.last_offset, batch.max_timestamp)
                on_batch(batch)
                position = at + batch.size_in_bytes
        except CorruptRecord as error:
            self._report(f"bad records in `{self.records.path}`: {error}")
        cut = self.records.truncate_to(position)
        self.indexes.finish()
        return cut

    def index_paths(self) -> list[str]:
        """Return the paths of the index files, which need not exist."""
        return self.paths(self.directory, self.base_offset)[1:]

    def finish(self) -> None:
        """Complete the files, as for a closed segment. Raises `OSError`."""
        self.indexes.finish()
        self.records.trim()

    def close_handlers(self) -> None:
        self.records.close()

    def moved_to(self, directory: str) -> None:
        """Follow a rename of the replica's directory."""
        self.directory = directory
        self.records.renamed(segment_path(directory, self.base_offset, LOG_SUFFIX))
        self.indexes.moved_to(directory)

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


def _read(batch: RecordBatch | LegacyEntry, room: int) -> tuple[Iterable[Record], int]:
    """Return the records of a batch, and their size for the limit. Raises `TooMuchData` beyond `room`."""
    if not isinstance(batch, RecordBatch):
        return batch.records(max(room, 0)), batch.size_in_bytes
    if batch.count * BYTES_PER_RECORD > room:
        raise TooMuchData(f"a record batch of {batch.count} records")
    data = batch.record_data(room)
    return batch.parse_records(data), max(len(data), batch.count * BYTES_PER_RECORD)
