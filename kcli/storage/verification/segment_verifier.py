"""SegmentVerifier: reads the log file of one segment once, and shows each batch to every check.

The files of a segment are read in the order opposite to that in which a broker writes them: indexes, then the
log. So nothing in them can be ahead of what is read of the log, even if the broker is running.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.protocol.control_records import ControlRecordType
from kcli.protocol.record_batch import RecordBatch
from kcli.storage.batch_scan import Damage, scan
from kcli.storage.log_paths import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from kcli.storage.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from kcli.storage.record_checks import check_records
from kcli.storage.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from kcli.storage.transaction_index import ENTRY_SIZE as TRANSACTION_ENTRY_SIZE
from kcli.storage.verification.findings import of_damage
from kcli.storage.verification.index_bytes import IndexBytes, read_index
from kcli.storage.verification.markers import marker_type
from kcli.storage.verification.offset_index import NEVER, OffsetIndexCheck
from kcli.storage.verification.time_index import TimeIndexCheck
from kcli.storage.verification.transaction_index import TransactionIndexCheck

if TYPE_CHECKING:
    from kcli.storage.scanned_entry import ScannedEntry
    from kcli.storage.verification.partition_verifier import PartitionVerifier

PROGRESS_BYTES = 4 * 1024 * 1024


class SegmentVerifier:
    """The checks of the segment at `base_offset`; `partition` has those of all segments."""

    def __init__(self, partition: PartitionVerifier, base_offset: int, *, is_active: bool) -> None:
        self._partition = partition
        self._base_offset = base_offset
        self._is_active = is_active
        self._report = partition.report
        self._path = partition.listing.path(base_offset, LOG_SUFFIX)
        self._told = 0
        self._in_doubt = False
        self.batches = 0

    def run(self) -> None:
        """Read the indexes and the log. Raises `OSError`."""
        self._offsets = OffsetIndexCheck(
            self._index(INDEX_SUFFIX, OFFSET_ENTRY_SIZE), self._base_offset, self._report
        )
        self._times = TimeIndexCheck(
            self._index(TIME_INDEX_SUFFIX, TIME_ENTRY_SIZE, keeps_zeros=True), self._base_offset, self._report
        )
        self._transactions = TransactionIndexCheck(
            self._index(TRANSACTION_INDEX_SUFFIX, TRANSACTION_ENTRY_SIZE), self._base_offset, self._report
        )
        self._partition.chain.begin(self._path, self._base_offset)
        end = self._read_log()
        self._offsets.finish(end)
        has_times = self._partition.listing.has(self._base_offset, TIME_INDEX_SUFFIX)
        self._times.finish(is_active=self._is_active or not has_times)
        self._transactions.finish(self._read_transactions if self._is_active else None)

    def _index(self, suffix: str, entry_size: int, *, keeps_zeros: bool = False) -> IndexBytes:
        """Return an index file's entries; a file that is not there has none."""
        path = self._partition.listing.path(self._base_offset, suffix)
        if not self._partition.listing.has(self._base_offset, suffix):
            return IndexBytes(path, b"", entry_size, 0, 0)
        index = read_index(path, entry_size)
        index.report_form(self._report, is_active=self._is_active, keeps_zeros=keeps_zeros)
        return index

    def _read_transactions(self) -> IndexBytes:
        path = self._partition.listing.path(self._base_offset, TRANSACTION_INDEX_SUFFIX)
        if not os.path.exists(path):
            return IndexBytes(path, b"", TRANSACTION_ENTRY_SIZE, 0, 0)
        return read_index(path, TRANSACTION_ENTRY_SIZE)

    def _read_log(self) -> int:
        """Show every batch to the checks; return where the log ends."""
        offsets, times, chain = self._offsets, self._times, self._partition.chain
        epochs, deep = self._partition.epochs, self._partition.options.deep
        position = due_progress = 0
        for item in scan(self._path, resync=True, segment_base=self._base_offset):
            if isinstance(item, Damage):
                position = max(position, item.position + item.skipped_bytes)
                self._take_damage(item)
                continue
            batch = item.batch
            position = item.position + item.size
            self.batches += 1
            if position > offsets.due:
                offsets.take(item)
            if not item.is_valid or item.damages:
                self._begin_doubt()
                continue
            last = batch.last_offset
            if self._in_doubt:
                self._end_doubt(item.first_offset)
            if last >= times.due or batch.max_timestamp > times.largest:
                times.take(item)
            if isinstance(batch, RecordBatch):
                if batch.base_offset != chain.expected or batch.count <= batch.last_offset_delta:
                    self._take_hole()
                if batch.partition_leader_epoch != epochs.epoch or last >= epochs.next_start:
                    epochs.take(self._path, item.position, batch)
                if batch.producer_id >= 0:
                    self._take_producer(item, batch)
            chain.expected = last + 1
            if deep:
                for damage in check_records(item):
                    self._report(of_damage(self._path, damage))
            if position >= due_progress:
                self._tell(position)
                due_progress = position + PROGRESS_BYTES
        self._tell(position)
        if self._in_doubt:
            self._transactions.pass_over(NEVER, report=False)
        return position

    def _take_hole(self) -> None:
        """Take note that offsets are missing: records were compacted away."""
        self._partition.chain.has_holes = True
        self._partition.snapshots.give_up()

    def _take_damage(self, damage: Damage) -> None:
        self._report(of_damage(self._path, damage))
        if damage.skipped_bytes:
            self._offsets.skip(damage.position + damage.skipped_bytes)
            if not damage.is_harmless:
                self._begin_doubt()

    def _begin_doubt(self) -> None:
        """Take note that from here on, up to the next sound batch, nobody can tell what was in the log."""
        self._in_doubt = True
        self._partition.chain.is_damaged = True
        self._partition.chain.is_end_known = False
        self._partition.transactions.forget()
        self._partition.snapshots.give_up()
        self._times.skip()

    def _end_doubt(self, offset: int) -> None:
        self._in_doubt = False
        self._transactions.pass_over(offset, report=False)
        self._partition.chain.expected = offset
        self._partition.chain.is_end_known = True

    def _take_producer(self, entry: ScannedEntry, batch: RecordBatch) -> None:
        """Follow what a producer wrote, and the transaction that it belongs to."""
        partition = self._partition
        if batch.base_offset >= partition.snapshots.due:
            partition.snapshots.reach(batch.base_offset)
        if partition.snapshots.is_comparable:
            partition.snapshots.take(batch)
        if batch.is_transactional:
            kind = marker_type(entry) if batch.is_control else None
            ended = partition.transactions.take(batch, kind)
            if kind is ControlRecordType.ABORT:
                exact = partition.transactions.is_exact and not partition.chain.has_holes
                self._transactions.marker(batch.producer_id, batch.last_offset, ended, exact)

    def _tell(self, position: int) -> None:
        self._partition.advance(position - self._told)
        self._told = position
