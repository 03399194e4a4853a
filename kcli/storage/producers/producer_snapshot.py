"""Producer snapshots: `<offset>.snapshot` holds the producer state of everything below that offset.

A log writes one when a segment rolls (the name is the new segment's base offset) and when it closes, so that
a start replays only the batches behind the newest one. Big-endian:

| at | size | field |
|---|---|---|
| 0 | 2 | version, 1 |
| 2 | 4 | CRC-32C over bytes 6 to the end |
| 6 | 4 | number of rows |
| 10 | 46 each | the rows |

| at | size | field of a row |
|---|---|---|
| 0 | 8 | producer id |
| 8 | 2 | producer epoch |
| 10 | 4 | last sequence (-1 none) |
| 14 | 8 | last offset (-1 none) |
| 22 | 4 | offset delta: last offset less first offset of the batch |
| 26 | 8 | last timestamp, ms |
| 34 | 4 | coordinator epoch (-1 none) |
| 38 | 8 | first offset of the open transaction (-1 none) |

Rows are in ascending order of producer ids. Kafka writes one row per producer, for its last batch. So it
forgets at a restart the other four batches that may be in flight: a repetition of them is refused as out of
order, or written twice by a producer that then takes a new epoch. kcli writes a row for each retained batch,
newest last. Kafka reads such a file as its own, because a later row of a producer replaces the earlier one
(Kafka class `ProducerStateManager`).
"""

from __future__ import annotations

import os
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.protocol.records.batch_header import crc32c
from kcli.protocol.records.record import NO_SEQUENCE, NO_TIMESTAMP
from kcli.storage import disk
from kcli.storage.log_paths import DELETED_SUFFIX, SNAPSHOT_SUFFIX, base_offset_of, segment_path
from kcli.storage.producers.producer_entry import NO_OFFSET, BatchMetadata, ProducerStateEntry
from kcli.storage.producers.producer_state import ProducerStateManager

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kcli.protocol.records.batch import RecordBatch
    from kcli.protocol.records.message_set import LegacyEntry

_VERSION = 1
_HEADER = Struct(">hIi")
_CRC_START = 6
_ROW = Struct(">qhiqiqiq")
_NO_BATCH = BatchMetadata(NO_SEQUENCE, NO_OFFSET, 0, NO_TIMESTAMP)


class CorruptSnapshot(KcliError):
    """A snapshot file whose version, size or checksum is wrong."""


def encode_snapshot(entries: Iterable[ProducerStateEntry]) -> bytes:
    """Return the bytes of a snapshot file."""
    rows = [
        row for entry in sorted(entries, key=lambda entry: entry.producer_id) for row in _encode_rows(entry)
    ]
    data = bytearray(_HEADER.pack(_VERSION, 0, len(rows)) + b"".join(rows))
    _HEADER.pack_into(data, 0, _VERSION, crc32c(memoryview(data)[_CRC_START:]), len(rows))
    return bytes(data)


def _encode_rows(entry: ProducerStateEntry) -> Iterator[bytes]:
    *earlier, last = entry.batches or (_NO_BATCH,)
    for batch in (*earlier, last._replace(timestamp=entry.last_timestamp)):
        yield _ROW.pack(
            entry.producer_id,
            entry.producer_epoch,
            batch.last_sequence,
            batch.last_offset,
            batch.offset_delta,
            batch.timestamp,
            entry.coordinator_epoch,
            entry.current_txn_first_offset,
        )


def decode_snapshot(data: bytes) -> list[ProducerStateEntry]:
    """Return the producers of a snapshot file. Raises `CorruptSnapshot`."""
    entries: dict[int, ProducerStateEntry] = {}
    for row in decode_rows(data):
        earlier = entries.get(row.producer_id)
        if earlier is not None and row.continues(earlier):
            earlier.batches.extend(row.batches)
            row.batches = earlier.batches
        entries[row.producer_id] = row
    return list(entries.values())


def decode_rows(data: bytes) -> list[ProducerStateEntry]:
    """Return the rows of a snapshot file, one entry for each. Raises `CorruptSnapshot`."""
    if len(data) < _HEADER.size:
        raise CorruptSnapshot(f"a producer snapshot of {len(data)} bytes")
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshot(f"a producer snapshot of version {version}")
    if crc != crc32c(memoryview(data)[_CRC_START:]):
        raise CorruptSnapshot("a producer snapshot with a wrong checksum")
    if count != (len(data) - _HEADER.size) / _ROW.size:
        raise CorruptSnapshot(f"a producer snapshot of {count} rows in {len(data)} bytes")
    rows = []
    for fields in _ROW.iter_unpack(memoryview(data)[_HEADER.size :]):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn_offset = fields
        row = ProducerStateEntry(producer_id, epoch, coordinator_epoch, timestamp, txn_offset)
        if offset >= 0:
            row.batches.append(BatchMetadata(sequence, offset, delta, timestamp))
        rows.append(row)
    return rows


MAX_BYTES = 48 * 1024 * 1024
"""The size of a million rows."""


class ProducerSnapshots:
    """The snapshot files of one replica directory."""

    __slots__ = ("directory", "offsets", "unsynced")

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.offsets: set[int] = set()
        self.unsynced: list[int] = []
        """The snapshots that the next flush syncs."""

    def find(self) -> None:
        """List the snapshot files. Raises `OSError`."""
        offsets = [base_offset_of(name, SNAPSHOT_SUFFIX) for name in os.listdir(self.directory)]
        self.offsets = {offset for offset in offsets if offset is not None}

    @property
    def latest(self) -> int | None:
        """The highest offset with a snapshot, None without one."""
        return max(self.offsets, default=None)

    def path(self, offset: int) -> str:
        return segment_path(self.directory, offset, SNAPSHOT_SUFFIX)

    def write(self, offset: int, entries: Iterable[ProducerStateEntry], *, sync: bool = False) -> None:
        """Write the snapshot at an offset unless it exists. Raises `OSError`."""
        if offset in self.offsets:
            return
        descriptor = disk.open_file(self.path(offset), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            disk.write_fully(descriptor, encode_snapshot(entries))
            if sync:
                disk.sync(descriptor)
        finally:
            os.close(descriptor)
        self.offsets.add(offset)

    def read(self, offset: int) -> list[ProducerStateEntry]:
        """Return the producers of the snapshot at an offset. Raises `CorruptSnapshot` and `OSError`."""
        return decode_snapshot(disk.read_file(self.path(offset)))

    def remove(self, offset: int) -> None:
        """Delete the snapshot at an offset if it exists. Raises `OSError`."""
        if offset in self.offsets:
            self.offsets.discard(offset)
            with suppress(FileNotFoundError):
                os.unlink(self.path(offset))

    def remove_if(self, *, below: int | None = None, above: int | None = None) -> None:
        """Delete the snapshots at offsets smaller than `below` and larger than `above`. Raises `OSError`."""
        for offset in sorted(self.offsets):
            if (below is not None and offset < below) or (above is not None and offset > above):
                self.remove(offset)

    def remove_strays(self, base_offsets: Iterable[int]) -> None:
        """Delete the snapshots without a segment, except that of a clean stop beyond all segments."""
        bases = set(base_offsets)
        newest = max(bases, default=None)
        strays = sorted(self.offsets - bases)
        for offset in strays:
            if offset != strays[-1] or (newest is not None and offset < newest):
                self.remove(offset)

    def mark_deleted(self, offset: int) -> str | None:
        """Rename the snapshot at an offset to `.deleted`; return its new path, None without one."""
        if offset not in self.offsets:
            return None
        self.offsets.discard(offset)
        path = self.path(offset)
        try:
            os.replace(path, path + DELETED_SUFFIX)
        except FileNotFoundError:
            return None
        return path + DELETED_SUFFIX

    def take(self, state: ProducerStateManager, *, sync_later: bool = False) -> None:
        """Write the snapshot at the end of the state, unless one as new exists. Raises `OSError`.

        With `sync_later` the next flush of the log syncs it.
        """
        offset = state.map_end_offset
        if offset <= (self.latest or 0):
            return
        self.write(offset, state.producers.values())
        if sync_later:
            self.unsynced.append(offset)

    def rebuild(
        self,
        state: ProducerStateManager,
        batches_between: Callable[[int, int], Iterable[RecordBatch | LegacyEntry]],
        *,
        log_start_offset: int,
        end_offset: int,
        now_ms: int,
        report: Callable[[str], None],
    ) -> None:
        """Build the state at `end_offset` from the newest valid snapshot and later batches, and write it.

        `batches_between(start, end)` gives the batches that end within [start, end). Deletes the snapshots
        that are damaged, at or below the log start, or above the end. Raises `CorruptRecord` and `OSError`.
        """
        self.remove_if(below=log_start_offset + 1, above=end_offset)
        state.clear(log_start_offset)
        while (offset := self.latest) is not None:
            try:
                state.load(self.read(offset), end_offset=offset, now_ms=now_ms)
                break
            except CorruptSnapshot as error:
                report(f"deleting a damaged producer snapshot: {error}: `{self.path(offset)}`")
                self.remove(offset)
        for batch in batches_between(max(state.map_end_offset, log_start_offset), end_offset):
            state.replay(batch)
        state.map_end_offset = end_offset
        self.take(state)

    def find_ended(
        self,
        state: ProducerStateManager,
        batches_between: Callable[[int, int], Iterable[RecordBatch | LegacyEntry]],
        *,
        log_start_offset: int,
        high_watermark: int,
    ) -> None:
        """Add to a state the transactions that ended above the high watermark, below its own snapshot.

        A snapshot has open transactions only, so these are found as `rebuild` finds the others, from an older
        one. Raises `CorruptRecord` and `OSError`.
        """
        former = ProducerStateManager(
            state.topic_partition, producer_id_expiration_ms=state.producer_id_expiration_ms
        )
        former.clear(log_start_offset)
        for offset in sorted(self.offsets, reverse=True):
            if offset <= high_watermark:
                with suppress(CorruptSnapshot):
                    former.load(self.read(offset), end_offset=offset, now_ms=0)
                    break
        for batch in batches_between(max(former.map_end_offset, log_start_offset), state.loaded_offset):
            former.replay(batch)
        former.high_watermark_moved(high_watermark)
        state.add_ended(former)
