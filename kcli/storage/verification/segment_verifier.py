"""SegmentVerifier: reads the log of one segment once, and shows all batches to every check.

The files of a segment are read in the order opposite to that in which a broker writes them: indexes, then the
log. So nothing in them can be ahead of what is read of the log, even if the broker is running.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_header import CONTROL_BIT, TRANSACTIONAL_BIT
from kcli.protocol.records.control_records import ControlRecordType
from kcli.storage.damage import Damage
from kcli.storage.log_paths import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from kcli.storage.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from kcli.storage.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from kcli.storage.transaction_index import ENTRY_SIZE as TRANSACTION_ENTRY_SIZE
from kcli.storage.verification.findings import of_damage
from kcli.storage.verification.index_bytes import IndexBytes, read_index
from kcli.storage.verification.markers import marker_type
from kcli.storage.verification.offset_index import NEVER, OffsetIndexCheck
from kcli.storage.verification.sound_run import SoundRun
from kcli.storage.verification.time_index import TimeIndexCheck
from kcli.storage.verification.transaction_index import TransactionIndexCheck

if TYPE_CHECKING:
    from kcli.storage.scanned_entry import ScannedEntry
    from kcli.storage.verification.partition_verifier import PartitionVerifier

PROGRESS_BYTES = 4 * 1024 * 1024
IN_TRANSACTIONS = TRANSACTIONAL_BIT | CONTROL_BIT


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
            self._index(INDEX_SUFFIX, OFFSET_ENTRY_SIZE),
            self._base_offset,
            report=self._report,
            most_bytes=self._partition.options.max_message_size,
        )
        self._times = TimeIndexCheck(
            self._index(TIME_INDEX_SUFFIX, TIME_ENTRY_SIZE, keeps_zeros=True),
            self._base_offset,
            report=self._report,
        )
        self._transactions = TransactionIndexCheck(
            self._index(TRANSACTION_INDEX_SUFFIX, TRANSACTION_ENTRY_SIZE),
            self._base_offset,
            report=self._report,
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
        """Show all batches to the checks; return where the log ends."""
        position = due_progress = 0
        for item in self._partition.read(self._path, self._base_offset, self._partition.options.deep):
            if isinstance(item, Damage):
                position = max(position, item.position + item.skipped_bytes)
                self._take_damage(item)
                continue
            position = item.end
            if isinstance(item, SoundRun):
                self._take_run(item)
            else:
                self._take_entry(item)
            if position >= due_progress:
                self._tell(position)
                due_progress = position + PROGRESS_BYTES
        self._tell(position)
        if self._in_doubt:
            self._transactions.pass_over(NEVER, report=False)
        return position

    def _take_run(self, run: SoundRun) -> None:
        """Show sound batches to every check, one by one to those that find something that is not plain."""
        self.batches += len(run)
        if self._in_doubt:
            self._end_doubt(run.base_offsets[0])
        checks = (
            (self._offsets.take_run, self._take_offsets),
            (self._times.take_run, self._take_times),
            (self._take_batches, self._take_batch),
        )
        left = [take_one for take_all, take_one in checks if not take_all(run)]
        for entry in run.entries() if left else ():
            if isinstance(entry, Damage):
                self._take_damage(entry)
                continue
            for take_one in left:
                take_one(entry)

    def _take_entry(self, entry: ScannedEntry) -> None:
        """Show an entry to every check."""
        self.batches += 1
        self._take_offsets(entry)
        if not entry.is_valid or entry.damages:
            self._begin_doubt()
            return
        if self._in_doubt:
            self._end_doubt(entry.first_offset)
        self._take_times(entry)
        self._take_batch(entry)

    def _take_offsets(self, entry: ScannedEntry) -> None:
        if entry.end > self._offsets.due:
            self._offsets.take(entry)

    def _take_times(self, entry: ScannedEntry) -> None:
        if entry.last_offset >= self._times.due or entry.batch.max_timestamp > self._times.largest:
            self._times.take(entry)

    def _take_batch(self, entry: ScannedEntry) -> None:
        """Follow offsets, leader epochs and producers."""
        chain, epochs, batch = self._partition.chain, self._partition.epochs, entry.batch
        if isinstance(batch, RecordBatch):
            if batch.base_offset != chain.expected or batch.count <= batch.last_offset_delta:
                self._take_hole()
            if batch.partition_leader_epoch != epochs.epoch or batch.last_offset >= epochs.next_start:
                epochs.take(
                    self._path,
                    entry.position,
                    batch.partition_leader_epoch,
                    batch.base_offset,
                    batch.last_offset,
                )
            if batch.producer_id >= 0:
                self._take_producer(entry, batch)
        chain.expected = batch.last_offset + 1

    def _take_batches(self, run: SoundRun) -> bool:
        """Follow offsets, leader epochs and producers, if there is nothing to look at more closely."""
        chain, epochs, snapshots = self._partition.chain, self._partition.epochs, self._partition.snapshots
        has_producers = max(run.producer_ids) >= 0
        if has_producers and (
            run.base_offsets[-1] >= snapshots.due or any(map(IN_TRANSACTIONS.__and__, {*run.attributes}))
        ):
            return False
        if run.base_offsets[0] != chain.expected or not run.is_dense:
            self._take_hole()
        if has_producers and snapshots.is_comparable:
            snapshots.take_run(run)
        epochs.take_run(self._path, run)
        chain.expected = run.last_offsets[-1] + 1
        return True

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
