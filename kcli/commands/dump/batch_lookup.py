"""BatchLookup: looks up batches of a log by position, for the entries of its indexes."""

from __future__ import annotations

import os
from struct import Struct
from typing import NamedTuple

from kcli.commands.dump.dumped_record import records_of
from kcli.protocol.record import NO_TIMESTAMP
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_header import HEADER_SIZE, LOG_OVERHEAD, MAGIC_POSITION
from kcli.storage.record_walk import walk_records
from kcli.storage.scanned_entry import view_of

MAX_BATCH_BYTES = 2**31 - 1

_OFFSET_AND_SIZE = Struct(">qi")
_DELTA = Struct(">i")
_DELTA_POSITION = 23
_MIN_ENTRY_SIZE = 14


class Head(NamedTuple):
    """A batch: where it is, and what its header says. An entry of the older formats ends with its offset."""

    position: int
    size: int
    last_offset: int


class BatchLookup:
    """A log file, opened to be read. Raises `OSError`."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        self._newest: tuple[int, int] = (-1, NO_TIMESTAMP)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)

    @property
    def size(self) -> int:
        """How long the file is now."""
        return os.fstat(self._descriptor).st_size

    def head_at(self, position: int, max_bytes: int = MAX_BATCH_BYTES) -> Head | None:
        """Return the batch that begins at a position and takes at most `max_bytes`, None if none does."""
        if position < 0:
            return None
        head = os.pread(self._descriptor, HEADER_SIZE, position)
        if len(head) <= MAGIC_POSITION or head[MAGIC_POSITION] > 2:
            return None
        offset, length = _OFFSET_AND_SIZE.unpack_from(head)
        whole = LOG_OVERHEAD + length
        if length < _MIN_ENTRY_SIZE or whole > max_bytes or position + whole > self.size:
            return None
        if head[MAGIC_POSITION] == 2:
            if len(head) < HEADER_SIZE:
                return None
            offset += _DELTA.unpack_from(head, _DELTA_POSITION)[0]
        return Head(position, whole, offset)

    def head_of(self, offset: int, position: int) -> Head | None:
        """Return the first batch from a position on that ends at or behind an offset."""
        while (head := self.head_at(position)) is not None and head.last_offset < offset:
            position += head.size
        return head

    def max_timestamp(self, head: Head) -> int:
        """Return the largest timestamp of a batch's records, whatever its header says; -1 without records.

        Raises `CorruptRecord`.
        """
        if self._newest[0] != head.position:
            self._newest = head.position, self._read_max_timestamp(head)
        return self._newest[1]

    def _read_max_timestamp(self, head: Head) -> int:
        batch = view_of(os.pread(self._descriptor, head.size, head.position))
        if not isinstance(batch, RecordBatch):
            return max((record.timestamp for record in records_of(batch)), default=NO_TIMESTAMP)
        if not batch.count:
            return NO_TIMESTAMP
        if batch.timestamp_type:
            return max(batch.max_timestamp, NO_TIMESTAMP)
        _, delta, _, _ = walk_records(batch.record_data(), 0, batch.count)
        return max(batch.base_timestamp + delta, NO_TIMESTAMP)
