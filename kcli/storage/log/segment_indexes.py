"""SegmentIndexes: the three indexes of a segment, kept in step with its log file.

They are loaded on first use. A missing or damaged index, or one that contradicts the log, is rebuilt from the
log, never repaired. A flush, a roll or a close writes them to disk, which is enough: after an unclean stop
every segment that was not flushed is recovered.

The largest timestamp of the segment is kept here too; closing the segment writes it to the time index.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.protocol.records.batch_header import HEADER_SIZE, MAGIC_POSITION
from kcli.storage.index.index_file import CorruptIndex
from kcli.storage.index.offset_index import OffsetIndex
from kcli.storage.index.time_index import NO_TIMESTAMP, TimeIndex
from kcli.storage.index.transaction_index import TransactionIndex
from kcli.storage.log_paths import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, segment_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.storage.log.file_records import FileRecords
    from kcli.storage.log.log_config import LogConfig


LOST_ENTRIES = 16
"""An offset index without entries that lacks so many has lost them.

Kafka counts the bytes since the last entry from 0 again after a start, so that fewer may never have been
written. They are added without a word.
"""


class SegmentIndexes:
    """The indexes of the segment at `base_offset`; `records` is its log file."""

    __slots__ = (
        "_bytes_since_entry",
        "_first_timestamp",
        "_interval_bytes",
        "_max_timestamp",
        "_offset_index",
        "_offset_of_max_timestamp",
        "_records",
        "_report",
        "_time_index",
        "_transaction_index",
        "base_offset",
        "is_full",
    )

    def __init__(
        self,
        directory: str,
        base_offset: int,
        *,
        records: FileRecords,
        config: LogConfig,
        report: Callable[[str], None],
        suffix: str = "",
    ) -> None:
        self.base_offset = base_offset
        self._records = records
        self._report = report
        self._interval_bytes = config.index_interval_bytes
        path, size = segment_path(directory, base_offset, INDEX_SUFFIX + suffix), config.segment_index_bytes
        self._offset_index = OffsetIndex(path, base_offset, size)
        path = segment_path(directory, base_offset, TIME_INDEX_SUFFIX + suffix)
        self._time_index = TimeIndex(path, base_offset, size)
        path = segment_path(directory, base_offset, TRANSACTION_INDEX_SUFFIX + suffix)
        self._transaction_index = TransactionIndex(path, base_offset)
        self._bytes_since_entry = 0
        # None until the offset and the time index are loaded.
        self._max_timestamp: int | None = None
        self._offset_of_max_timestamp = base_offset
        self._first_timestamp: int | None = None
        # Whether an index has no room for another entry; known once they are loaded.
        self.is_full = False

    def create(self) -> None:
        """Start with empty indexes and empty files. Raises `OSError`."""
        self._offset_index.create()
        self._time_index.create()
        self._max_timestamp, self._offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset
        self._bytes_since_entry = 0
        self._first_timestamp = None
        self.is_full = False

    @property
    def offsets(self) -> OffsetIndex:
        """The offset index. Raises `OSError`."""
        if self._max_timestamp is None:
            self._load()
        return self._offset_index

    @property
    def times(self) -> TimeIndex:
        """The time index. Raises `OSError`."""
        if self._max_timestamp is None:
            self._load()
        return self._time_index

    @property
    def transactions(self) -> TransactionIndex:
        """The aborted transactions. Raises `CorruptIndex` and `OSError`."""
        self._transaction_index.load_once()
        return self._transaction_index

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of the segment, -1 without one. Raises `OSError`."""
        if self._max_timestamp is None:
            return self._load()
        return self._max_timestamp

    @property
    def offset_of_max_timestamp(self) -> int:
        """The last offset of the first batch that has the largest timestamp. Raises `OSError`."""
        if self._max_timestamp is None:
            self._load()
        return self._offset_of_max_timestamp

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, -1 without one. Raises `OSError`."""
        first = self._first_timestamp
        if first is None:
            head = self._records.read(0, HEADER_SIZE)
            if not head:
                return NO_TIMESTAMP
            try:
                self._first_timestamp = first = _max_timestamp_in(head)
            except CorruptRecord:
                return NO_TIMESTAMP
        return first

    def load_once(self) -> None:
        """Load the offset and the time index, the first time. Raises `OSError`."""
        if self._max_timestamp is None:
            self._load()

    def add(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Index the next batch of the log file. The indexes must be loaded."""
        assert self._max_timestamp is not None
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._offset_of_max_timestamp = last_offset
        if self._bytes_since_entry > self._interval_bytes:
            self._offset_index.append(last_offset, position)
            self._time_index.maybe_append(self._max_timestamp, self._offset_of_max_timestamp)
            self._bytes_since_entry = 0
            self._update_is_full()
        self._bytes_since_entry += size

    def truncate_to(self, offset: int, find_position: Callable[[int], int]) -> None:
        """Drop the entries at and above an offset, after the log file was cut. Raises `OSError`.

        `find_position` returns the position of a batch at or before the one that holds an offset.
        """
        self.offsets.truncate_to(offset)
        self._time_index.truncate_to(offset)
        self.transactions.truncate_to(offset)
        self._bytes_since_entry = self._records.size - self._offset_index.last_position
        self._update_is_full()
        if not self._records.size:
            self._first_timestamp = None
        self._max_timestamp, self._offset_of_max_timestamp = self._time_index.last_entry
        # Batches behind the last entry of the time index may have larger timestamps.
        for _, run in self._records.scan(find_position(self._offset_of_max_timestamp)):
            for batch in iter_batches(run):
                if batch.max_timestamp > self._max_timestamp:
                    self._max_timestamp = batch.max_timestamp
                    self._offset_of_max_timestamp = batch.last_offset

    def reset(self) -> None:
        """Empty all three indexes, as recovery does. Raises `OSError`."""
        self.create()
        self._transaction_index.reset()

    def rebuild(self) -> None:
        """Rebuild the offset and time index from the batches, up to damage.

        After an `OSError` they count as not loaded.
        """
        self.create()
        try:
            for position, run in self._records.scan():
                for batch in iter_batches(run):
                    self.add(
                        position + batch.position, batch.size_in_bytes, batch.last_offset, batch.max_timestamp
                    )
            self.finish()
        except CorruptRecord as error:
            self._report(f"the index ends before bad records: {error}: `{self._records.path}`")
            self.finish()
        except OSError:
            self._max_timestamp = None
            raise

    def write(self) -> None:
        """Write the entries that the files lack. Raises `OSError`."""
        if self._max_timestamp is not None:
            self._offset_index.write()
            self._time_index.write()

    def finish(self) -> None:
        """Complete the files of loaded indexes, as for a closed segment. Raises `OSError`."""
        if self._max_timestamp is not None:
            self._time_index.maybe_append(self._max_timestamp, self._offset_of_max_timestamp)
            self._offset_index.finish()
            self._time_index.finish()

    def moved_to(self, directory: str) -> None:
        for index in (self._offset_index, self._time_index, self._transaction_index):
            index.renamed(f"{directory}/{os.path.basename(index.path)}")

    def _update_is_full(self) -> None:
        self.is_full = self._offset_index.is_full or self._time_index.is_full

    def _load(self) -> int:
        """Load the offset and the time index, or rebuild them; return the largest timestamp."""
        records = self._records
        try:
            self._offset_index.load(records.size)
            self._time_index.load()
            lacking = 0 if len(self._offset_index) else self._lacking_offsets()
            if lacking == LOST_ENTRIES:
                raise CorruptIndex(f"no entries for {records.size} bytes of log: `{self._offset_index.path}`")
            if not len(self._time_index) and records.size and self.first_timestamp >= 0:
                raise CorruptIndex(f"no entries for {records.size} bytes of log: `{self._time_index.path}`")
            self._max_timestamp, self._offset_of_max_timestamp = self._time_index.last_entry
            self._bytes_since_entry = records.size - self._offset_index.last_position
            if lacking:
                self.rebuild()
            self._update_is_full()
        except (CorruptIndex, FileNotFoundError) as error:
            reason = error.message if isinstance(error, CorruptIndex) else f"`{error.filename}` is missing"
            self._report(f"rebuilding the indexes of `{records.path}`: {reason}")
            self.rebuild()
            assert self._max_timestamp is not None
        return self._max_timestamp

    def _lacking_offsets(self) -> int:
        """Return how many entries an index without any lacks, at most `LOST_ENTRIES`."""
        lacking = start = 0
        if self._records.size > self._interval_bytes:
            try:
                for entry in self._records.entries():
                    if entry.position - start > self._interval_bytes:
                        lacking += 1
                        start = entry.position
                        if lacking == LOST_ENTRIES:
                            break
            except CorruptRecord:
                # The index ends here; a read of the records behind it reports the damage.
                return 0
        return lacking


def _max_timestamp_in(head: bytes) -> int:
    """Return the largest timestamp of the entry with this head. Raises `CorruptRecord`."""
    if len(head) > MAGIC_POSITION and head[MAGIC_POSITION] < 2:
        # Imported here: few logs hold the older formats.
        from kcli.protocol.records.message_set import LegacyEntry

        return LegacyEntry(head).max_timestamp
    return RecordBatch(head).max_timestamp
