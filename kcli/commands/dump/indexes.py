"""IndexDump: dumps an index and compares its entries with the log, as Kafka's dump tool does.

An offset index entry must point to a batch that ends with its offset; a time index entry must have the last
offset and the largest timestamp of a batch; timestamps must increase. A later entry with the offset of the
segment ends the index: it is space that a running broker reserves. Kafka's tool reports an index that is only
reserved space, and fails on it if the log is empty; kcli accepts it. A sanity check looks only at size, first
and last entry, like a starting broker. Bytes behind the last whole entry, which Kafka's tool ignores, are
damage: a starting kcli rebuilds such an index, Kafka only above its recovery point.

Indexes from before Kafka 4.1 may name the last of several batches appended together: their entries do not
match, and that is no damage (KAFKA-806).
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import closing
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.dump.view import Row
from kcli.forensics.entries.scanned_entry import records_of, view_of
from kcli.forensics.entries.segment_file import SegmentFile
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_header import (
    HEADER_SIZE,
    LAST_OFFSET_DELTA_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MIN_LENGTHS,
)
from kcli.protocol.records.record import NO_TIMESTAMP
from kcli.protocol.records.record_walk import walk_records
from kcli.storage.log_paths import INDEX_SUFFIX, LOG_SUFFIX

if TYPE_CHECKING:
    from kcli.commands.dump.dump_errors import DumpErrors
    from kcli.commands.dump.options import DumpOptions
    from kcli.commands.dump.view import DumpView
    from kcli.forensics.contents.log_files import DumpFile


MAX_BATCH_BYTES = 2**31 - 1

_OFFSET_AND_SIZE = Struct(">qi")
_DELTA = Struct(">i")


class Head(NamedTuple):
    """What an index needs of the head of a batch. It is checked as loosely as in Kafka's tool."""

    position: int
    size: int
    last_offset: int


class BatchLookup:
    """A log file in which index entries look up batches by position. Raises `OSError`."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        self._newest: tuple[int, int] = (-1, NO_TIMESTAMP)

    def close(self) -> None:
        os.close(self._descriptor)

    @property
    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def head_at(self, position: int, max_bytes: int = MAX_BATCH_BYTES) -> Head | None:
        """Return the batch of at most `max_bytes` that begins at a position, None without one."""
        if position < 0:
            return None
        head = os.pread(self._descriptor, HEADER_SIZE, position)
        if len(head) <= MAGIC_POSITION or head[MAGIC_POSITION] > 2:
            return None
        offset, length = _OFFSET_AND_SIZE.unpack_from(head)
        whole = LOG_OVERHEAD + length
        if length < MIN_LENGTHS[0] or whole > max_bytes or position + whole > self.size:
            return None
        if head[MAGIC_POSITION] == 2:
            if len(head) < HEADER_SIZE:
                return None
            offset += _DELTA.unpack_from(head, LAST_OFFSET_DELTA_POSITION)[0]
        return Head(position, whole, offset)

    def head_of(self, offset: int, position: int) -> Head | None:
        """Return the first batch from a position on that ends at an offset or later, None without one."""
        while (head := self.head_at(position)) is not None and head.last_offset < offset:
            position += head.size
        return head

    def max_timestamp(self, head: Head) -> int:
        """Return the largest timestamp of a batch's records, -1 without records. Raises `CorruptRecord`."""
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
        _, largest, _, _ = walk_records(batch.record_data(), 0, batch.count, batch.base_timestamp)
        return max(largest, NO_TIMESTAMP)


OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")
BLOCK_ENTRIES = 4096
MOST_POSITIONS = 4_000_000
"""How many entries are kept in memory; a search behind them takes longer."""
NOT_FOUND = -1


class IndexDump:
    """Shows one index to a view; `problems` counts the entries that do not fit."""

    def __init__(self, file: DumpFile, options: DumpOptions, view: DumpView, errors: DumpErrors) -> None:
        assert file.offset is not None
        self._file = file
        self._base = file.offset
        self._options = options
        self._view = view
        self._errors = errors
        self.problems = 0

    def offset_index(self) -> None:
        """Dump an offset index. Raises `OSError`, also if its log is missing."""
        path = self._file.path
        with closing(BatchLookup(beside(self._file, LOG_SUFFIX))) as log:
            if os.path.getsize(path) < OFFSET_ENTRY.size:
                self._view.remark("empty", f"{path} is empty.")
            elif self._options.index_sanity_check:
                self._check_sanity(OFFSET_ENTRY)
                return
            else:
                self._offset_entries(log)
        self._check_size(OFFSET_ENTRY, "index entry")

    def _offset_entries(self, log: BatchLookup) -> None:
        for number, (relative, position) in enumerate(entries_of(self._file.path, OFFSET_ENTRY)):
            if not relative and (number or not log.size):
                return
            self._check_offset(log, relative, position)
            offset = self._base + relative
            if not self._options.verify_index_only:
                self._view.row(Row("index_entry", {"offset": offset, "position": position}))

    def _check_offset(self, log: BatchLookup, relative: int, position: int) -> None:
        offset = self._base + relative
        head = log.head_at(position, self._options.max_message_size)
        found = NOT_FOUND if head is None else head.last_offset
        if found != offset:
            self._errors.index_mismatch(self._file.path, offset, found)
            fields: dict[str, object] = {"offset": offset, "position": position, "logOffset": found}
            self._report("index_mismatch", fields, is_reserved=not relative and not position)

    def time_index(self) -> None:
        """Dump a time index. Raises `OSError`, also if its log or its offset index is missing."""
        with closing(BatchLookup(beside(self._file, LOG_SUFFIX))) as log:
            positions = Positions(beside(self._file, INDEX_SUFFIX))
            if self._options.index_sanity_check:
                self._check_sanity(TIME_ENTRY)
                return
            self._time_entries(log, positions)
        self._check_size(TIME_ENTRY, "time index entry")

    def _time_entries(self, log: BatchLookup, positions: Positions) -> None:
        previous = NO_TIMESTAMP
        for number, (timestamp, relative) in enumerate(entries_of(self._file.path, TIME_ENTRY)):
            if not relative and (number or not log.size):
                return
            self._check_time(log, positions, timestamp, relative, previous)
            previous = timestamp
            if not self._options.verify_index_only:
                fields: dict[str, object] = {"timestamp": timestamp, "offset": self._base + relative}
                self._view.row(Row("time_index_entry", fields))

    def _check_time(
        self, log: BatchLookup, positions: Positions, timestamp: int, relative: int, previous: int
    ) -> None:
        path, offset, is_reserved = self._file.path, self._base + relative, not relative and not timestamp
        head = log.head_of(offset, positions.at_or_below(relative))
        if head is None or head.last_offset != offset:
            found = NOT_FOUND if head is None else head.last_offset
            self._errors.offset_not_found(path, offset, found)
            missing: dict[str, object] = {"offset": offset, "logOffset": found}
            self._report("indexed_offset_not_found", missing, is_reserved=is_reserved)
            return
        try:
            newest = log.max_timestamp(head)
        except CorruptRecord as error:
            self._report("undecodable_records", {"position": head.position, "message": error.message})
            return
        if newest != timestamp:
            self._errors.timestamp_mismatch(path, timestamp, newest)
            differing: dict[str, object] = {"timestamp": timestamp, "logTimestamp": newest}
            self._report("timestamp_mismatch", differing, is_reserved=is_reserved)
        if previous >= timestamp:
            self._errors.timestamp_out_of_order(path, timestamp, previous)
            self._report("timestamp_out_of_order", {"timestamp": timestamp, "previous": previous})

    def _check_size(self, entry: Struct, name: str) -> None:
        message = excess_message(self._file.path, entry, name=name)
        if message is not None:
            self._errors.damaged_file(message)
            self._report("damaged_file", {"message": message})

    def _check_sanity(self, entry: Struct) -> None:
        """Check the file like a starting broker: its size, its first and its last entry."""
        path = self._file.path
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            whole = size - size % entry.size
            first = os.pread(file.fileno(), entry.size, 0)
            last = os.pread(file.fileno(), entry.size, max(whole - entry.size, 0))
        reason = None
        if whole:
            oldest, newest = entry.unpack(first), entry.unpack(last)
            if entry is TIME_ENTRY and newest[0] < oldest[0]:
                reason = f"the last timestamp {newest[0]} is below the first, {oldest[0]}"
            elif newest[0 if entry is OFFSET_ENTRY else 1] < 0:
                reason = "the last offset is below that of the segment"
        if size != whole and excess_bytes(path, entry):
            reason = reason or f"{size} bytes are not a multiple of {entry.size}"
        if reason is None:
            self._view.remark("passed_sanity_check", f"{path} passed sanity check.")
        else:
            self._errors.failed_sanity(path, reason)
            self._report("failed_sanity_check", {"message": reason})

    def _report(self, type: str, fields: dict[str, object], *, is_reserved: bool = False) -> None:
        """Report an entry that does not fit; a first entry of zeros is reserved space."""
        if is_reserved:
            self._view.problem("reserved_space", {})
            return
        self.problems += 1
        self._view.problem(type, fields)


class Positions:
    """The entries of an offset index, at which a search in the log begins. Raises `OSError`.

    Only entries before the first one out of order are used, at most `MOST_POSITIONS`.
    """

    def __init__(self, path: str) -> None:
        from array import array

        self._offsets, self._positions = array("i"), array("i")
        for number, (relative, position) in enumerate(entries_of(path, OFFSET_ENTRY)):
            if number == MOST_POSITIONS or (number and relative <= self._offsets[-1]):
                break
            self._offsets.append(relative)
            self._positions.append(position)

    def at_or_below(self, relative: int) -> int:
        """Return the position of the last entry at or below an offset, 0 without one."""
        slot = bisect_right(self._offsets, relative)
        return self._positions[slot - 1] if slot else 0


def entries_of(path: str, entry: Struct) -> Iterator[tuple[int, ...]]:
    """Yield the whole entries of a file. Raises `OSError`."""
    with open(path, "rb") as file:
        while data := file.read(entry.size * BLOCK_ENTRIES):
            yield from entry.iter_unpack(data[: len(data) - len(data) % entry.size])


def excess_bytes(path: str, entry: Struct) -> int:
    """Return the number of bytes behind the last whole entry of a file. Raises `OSError`.

    A broker may be writing the rest of an entry, so a file that was changed just now is checked again.
    """
    with SegmentFile(path) as file:
        size = file.end
        if size % entry.size:
            changed = file.size_after_a_pause()
            size = size if changed is None else changed
    return size % entry.size


def excess_message(path: str, entry: Struct, *, name: str) -> str | None:
    """Return the message about bytes behind the last whole entry of a file, None without any."""
    excess = excess_bytes(path, entry)
    return f"the last {excess} bytes are not a whole {name}: `{path}`" if excess else None


def beside(file: DumpFile, suffix: str) -> str:
    """Return the path of another file of the same segment, with the same suffix `.deleted` or `.swap`."""
    digits, _, ending = file.name.partition(".")
    path = os.path.join(os.path.dirname(file.path), digits + suffix)
    _, dot, transient = ending.partition(".")
    moved = path + dot + transient
    return moved if os.path.exists(moved) else path
