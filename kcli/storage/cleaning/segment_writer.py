"""SegmentWriter: the four files of a cleaned segment, named `.cleaned` until they are whole."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from kcli.protocol.corruption import CorruptRecord
from kcli.storage import disk
from kcli.storage.index.offset_index import MAX_RELATIVE_OFFSET
from kcli.storage.log.file_records import FileRecords
from kcli.storage.log.segment_indexes import SegmentIndexes
from kcli.storage.log_paths import CLEANED_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, segment_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.storage.index.transaction_index import AbortedTransaction
    from kcli.storage.log.log_config import LogConfig

MIN_COPIED_BYTES = 64 * 1024
"""A shorter run of untouched batches is written from memory, with its neighbours."""


class SegmentWriter:
    """Writes one cleaned segment; without `is_real` it counts only."""

    __slots__ = (
        "_base_offset",
        "_directory",
        "_pending",
        "_throttle",
        "indexes",
        "is_real",
        "records",
        "size",
    )

    def __init__(
        self,
        directory: str,
        base_offset: int,
        *,
        config: LogConfig,
        throttle: Callable[[int], None],
        is_real: bool = True,
    ) -> None:
        self._directory = directory
        self._base_offset = base_offset
        self._throttle = throttle
        self._pending: list[bytes | bytearray | memoryview] = []
        self.size = 0
        """The bytes of the log so far."""
        self.is_real = is_real
        path = segment_path(directory, base_offset, LOG_SUFFIX + CLEANED_SUFFIX)
        self.records = FileRecords(path, 0)
        if is_real:
            self.remove()
            self.records = FileRecords.create(path)
        self.indexes = SegmentIndexes(
            directory,
            base_offset,
            records=self.records,
            config=config,
            report=lambda message: None,
            suffix=CLEANED_SUFFIX,
        )
        if is_real:
            self.indexes.create()

    @property
    def paths(self) -> list[str]:
        """The paths of the files, of which the last exists only with aborted transactions."""
        return [
            segment_path(self._directory, self._base_offset, suffix + CLEANED_SUFFIX)
            for suffix in SEGMENT_SUFFIXES
        ]

    def index(self, size: int, last_offset: int, max_timestamp: int) -> None:
        """Index the next batch. Raises `CorruptRecord` if its offset is too far from the segment's first."""
        if not 0 <= last_offset - self._base_offset <= MAX_RELATIVE_OFFSET:
            raise CorruptRecord(f"offset {last_offset} does not fit a segment from {self._base_offset} on")
        if self.is_real:
            self.indexes.add(self.size, size, last_offset, max_timestamp)
        self.size += size

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take the bytes of the batches indexed last; `flush` writes them."""
        self._pending.append(data)

    def flush(self) -> None:
        """Write what was taken. Raises `OSError`."""
        if self._pending and self.is_real:
            data = b"".join(self._pending)
            disk.write_fully(self.records.handle.descriptor, data, self.records.size)
            self.records.size += len(data)
            self._throttle(len(data))
        self._pending.clear()

    def keep(self, source: FileRecords, position: int, data: memoryview) -> None:
        """Take the bytes at a position of another file, whose batches were indexed last. Raises `OSError`."""
        size = len(data)
        if size < MIN_COPIED_BYTES:
            self._pending.append(data)
            return
        self.flush()
        if self.is_real:
            disk.copy_range(
                source.handle.descriptor, self.records.handle.descriptor, size, position, self.records.size
            )
            self.records.size += size
            self._throttle(size)

    def add_aborted(self, transaction: AbortedTransaction) -> None:
        """Keep the index entry of an aborted transaction. Raises `OSError`."""
        if self.is_real:
            self.indexes.transactions.append(transaction)

    def finish(self, modified_ns: int) -> None:
        """Complete the files, sync them, and give them the time of the last source. Raises `OSError`."""
        self.flush()
        if not self.is_real:
            return
        self.indexes.finish()
        for path in self.paths:
            if os.path.exists(path):
                os.utime(path, ns=(modified_ns, modified_ns))
                disk.sync_path(path)
        self.records.close()

    def remove(self) -> None:
        """Delete the files, as far as they exist. Raises `OSError`."""
        self.records.close()
        for path in self.paths:
            with suppress(FileNotFoundError):
                os.unlink(path)
