"""PartitionVerifier: every check of one replica directory; SegmentVerifier: those of one segment.

The log of each segment is read once and all its batches are shown to every check. A broker may be running.
The directory is listed first: its last segment is the one being written, whose indexes may be behind, and
files that disappear meanwhile are skipped. The indexes of a segment are read before its log, opposite to the
order in which a broker writes them, so that they cannot be ahead of what is read of the log.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.forensics.entries.damage import Damage
from kcli.forensics.entries.segment_scan import scan
from kcli.forensics.verification.findings import Findings, PartitionReport, of_damage
from kcli.forensics.verification.index_bytes import ENTRY_SIZES, IndexBytes, read_index, sanity_problem
from kcli.forensics.verification.log_directory_checks import (
    PartitionOffsets,
    check_offsets,
    check_partition_metadata,
)
from kcli.forensics.verification.log_reader import read_log
from kcli.forensics.verification.offset_index_check import NO_OFFSET_DUE, OffsetIndexCheck
from kcli.forensics.verification.packed_batches import PackedBatches
from kcli.forensics.verification.replica_file_checks import LeaderEpochCheck, SnapshotCheck
from kcli.forensics.verification.segment_chain import ReplicaListing, SegmentChain
from kcli.forensics.verification.time_index_check import TimeIndexCheck
from kcli.forensics.verification.transaction_index_check import TransactionIndexCheck, Transactions
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_header import CONTROL_BIT, TRANSACTIONAL_BIT
from kcli.protocol.records.control_records import ControlRecordType
from kcli.storage.index.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from kcli.storage.index.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from kcli.storage.index.transaction_index import ENTRY_SIZE as TRANSACTION_ENTRY_SIZE
from kcli.storage.log_paths import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.forensics.entries.scanned_entry import ScannedEntry
    from kcli.forensics.verification.findings import Finding, VerificationOptions
    from kcli.forensics.verification.log_reader import ReadLog


PROGRESS_BYTES = 4 * 1024 * 1024
IN_TRANSACTIONS = TRANSACTIONAL_BIT | CONTROL_BIT


class SegmentVerifier:
    """The checks of the segment at `base_offset`; `partition` has the checks that span segments."""

    def __init__(self, partition: PartitionVerifier, base_offset: int, *, is_active: bool) -> None:
        self._partition = partition
        self._base_offset = base_offset
        self._is_active = is_active
        self._report = partition.report
        self._path = partition.listing.path(base_offset, LOG_SUFFIX)
        self._told = 0
        self._is_after_damage = False
        self.batches = 0

    def run(self) -> None:
        """Read the indexes and the log. Raises `OSError`."""
        base, report, most_bytes = self._base_offset, self._report, self._partition.options.max_message_size
        index = self._index(INDEX_SUFFIX, OFFSET_ENTRY_SIZE)
        self._offsets = OffsetIndexCheck(index, base, report=report, most_bytes=most_bytes)
        index = self._index(TIME_INDEX_SUFFIX, TIME_ENTRY_SIZE, keeps_zeros=True)
        self._times = TimeIndexCheck(index, base, report=report)
        index = self._index(TRANSACTION_INDEX_SUFFIX, TRANSACTION_ENTRY_SIZE)
        self._transactions = TransactionIndexCheck(index, base, report=report)
        self._partition.chain.begin(self._path, base)
        end = self._read_log()
        self._offsets.finish(end)
        has_times = self._partition.listing.has(self._base_offset, TIME_INDEX_SUFFIX)
        self._times.finish(is_active=self._is_active or not has_times)
        self._transactions.finish(self._read_transactions if self._is_active else None)

    def _index(self, suffix: str, entry_size: int, *, keeps_zeros: bool = False) -> IndexBytes:
        """Return the entries of an index file, none if it does not exist."""
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
        """Show all batches to the checks; return the position at which the log ends."""
        position = due_progress = 0
        for item in self._partition.read(self._path, self._base_offset, self._partition.options.deep):
            if isinstance(item, Damage):
                position = max(position, item.position + item.skipped_bytes)
                self._take_damage(item)
                continue
            position = item.end
            if isinstance(item, PackedBatches):
                self._take_run(item)
            else:
                self._take_entry(item)
            if position >= due_progress:
                self._tell(position)
                due_progress = position + PROGRESS_BYTES
        self._tell(position)
        if self._is_after_damage:
            self._transactions.pass_over(NO_OFFSET_DUE, report=False)
        return position

    def _take_run(self, run: PackedBatches) -> None:
        """Show sound batches to every check, one by one to a check that cannot take them at once."""
        self.batches += len(run)
        if self._is_after_damage:
            self._leave_damage(run.base_offsets[0])
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
        self.batches += 1
        self._take_offsets(entry)
        if not entry.is_valid or entry.damages:
            self._enter_damage()
            return
        if self._is_after_damage:
            self._leave_damage(entry.first_offset)
        self._take_times(entry)
        self._take_batch(entry)

    def _take_offsets(self, entry: ScannedEntry) -> None:
        if entry.end > self._offsets.due:
            self._offsets.take(entry)

    def _take_times(self, entry: ScannedEntry) -> None:
        if entry.last_offset >= self._times.due or entry.batch.max_timestamp > self._times.largest:
            self._times.take(entry)

    def _take_batch(self, entry: ScannedEntry) -> None:
        chain, epochs, batch = self._partition.chain, self._partition.epochs, entry.batch
        if isinstance(batch, RecordBatch):
            if batch.base_offset != chain.expected or batch.count <= batch.last_offset_delta:
                self._take_hole()
            epoch = batch.partition_leader_epoch
            if epoch != epochs.epoch or batch.last_offset >= epochs.next_start:
                epochs.take(self._path, entry.position, epoch, batch.base_offset, batch.last_offset)
            if batch.producer_id >= 0:
                self._take_producer(entry, batch)
        chain.expected = batch.last_offset + 1

    def _take_batches(self, run: PackedBatches) -> bool:
        """Follow offsets, epochs and producers; return False if the batches must be taken one by one."""
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
        """Note that offsets are missing: records were compacted away."""
        self._partition.chain.has_holes = True
        self._partition.snapshots.give_up()

    def _take_damage(self, damage: Damage) -> None:
        self._report(of_damage(self._path, damage))
        if damage.skipped_bytes:
            self._offsets.skip(damage.position + damage.skipped_bytes)
            if not damage.is_harmless:
                self._enter_damage()

    def _enter_damage(self) -> None:
        """Note that what the log held from here on, up to the next sound batch, is unknown."""
        self._is_after_damage = True
        self._partition.chain.is_damaged = True
        self._partition.chain.is_end_known = False
        self._partition.transactions.forget()
        self._partition.snapshots.give_up()
        self._times.skip()

    def _leave_damage(self, offset: int) -> None:
        self._is_after_damage = False
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
            kind = entry.marker_type() if batch.is_control else None
            ended = partition.transactions.take(batch, kind)
            if kind is ControlRecordType.ABORT:
                exact = partition.transactions.is_exact and not partition.chain.has_holes
                self._transactions.marker(batch.producer_id, batch.last_offset, ended, exact)

    def _tell(self, position: int) -> None:
        self._partition.advance(position - self._told)
        self._told = position


METADATA_SNAPSHOT = re.compile(r"\d{20}-\d{10}\.checkpoint", re.ASCII)


class PartitionVerifier:
    """The verification of one replica directory; `advance` takes the number of bytes read of log files."""

    def __init__(
        self,
        directory: str,
        options: VerificationOptions,
        *,
        offsets: PartitionOffsets,
        advance: Callable[[int], None],
        read: ReadLog,
    ) -> None:
        self.directory = directory
        self.options = options
        self.read = read
        self.findings = Findings()
        self.failures: list[KcliError] = []
        self.size_bytes = 0
        self.chain = SegmentChain(self.report)
        self.epochs = LeaderEpochCheck(directory, self.report)
        self.snapshots = SnapshotCheck(self.report)
        self.transactions = Transactions()
        self._offsets = offsets
        self._advance = advance

    def report(self, finding: Finding) -> None:
        """Add a finding, unless only indexes are asked about and it is about another file."""
        if not self.options.indexes_only or finding.path.endswith(tuple(ENTRY_SIZES)):
            self.findings.add(finding)

    def advance(self, count: int) -> None:
        self.size_bytes += count
        self._advance(count)

    def run(self) -> PartitionReport:
        """Verify the directory. Raises `OSError` when it cannot be listed."""
        self.listing = ReplicaListing.of(self.directory)
        if self.options.sanity_only:
            return self._check_sanity()
        batches = 0
        bases = [base for base in self.listing.segments if self.options.base_offset in (None, base)]
        if not self.options.indexes_only:
            self._attempt(lambda: self.listing.report_names(self.report), "")
            self._attempt(self.epochs.load, "")
            self.snapshots.load(self.listing)
        self.transactions.is_exact = bases[:1] == [0]
        for base in bases:
            verifier = SegmentVerifier(self, base, is_active=base == self.listing.segments[-1])
            self._attempt(verifier.run, self.listing.path(base, LOG_SUFFIX))
            batches += verifier.batches
        topic_id = None
        if not self.options.indexes_only:
            topic_id = self._check_the_rest(bases)
        return PartitionReport(
            self.directory, list(self.findings), self.failures, len(bases), batches, self.size_bytes, topic_id
        )

    def _check_the_rest(self, bases: list[int]) -> bytes | None:
        """Check the small files; return the topic id."""
        log_end = None
        if self.options.base_offset is None:
            self.chain.finish(is_compacted=self._offsets.cleaner is not None)
            if bases and self.chain.is_end_known and not self.failures:
                log_end = max(self.chain.expected, bases[-1])
                check_offsets(self._offsets, log_end, self.report)
        self.epochs.finish(log_end)
        self._attempt(lambda: self.snapshots.finish(log_end), "")
        self._attempt(self._check_metadata_snapshots, "")
        return check_partition_metadata(self.directory, self.report)

    def _check_metadata_snapshots(self) -> None:
        for name in sorted(self.listing.names):
            if METADATA_SNAPSHOT.fullmatch(name):
                path = f"{self.directory}/{name}"
                for item in scan(path, resync=True):
                    if isinstance(item, Damage):
                        self.report(of_damage(path, item))

    def _check_sanity(self) -> PartitionReport:
        passed: list[str] = []
        empty: list[str] = []
        for base in self.listing.segments:
            for suffix in ENTRY_SIZES:
                path = self.listing.path(base, suffix)
                if not self.listing.has(base, suffix) or self.options.base_offset not in (None, base):
                    continue
                try:
                    problem, is_empty = sanity_problem(path, suffix)
                except OSError as error:
                    self._failed(error, path)
                    continue
                if problem is not None:
                    self.report(problem)
                else:
                    (empty if is_empty else passed).append(path)
        count = len(self.listing.segments)
        report = PartitionReport(self.directory, [*self.findings], self.failures, count)
        return report._replace(passed=tuple(passed), empty=tuple(empty))

    def _attempt(self, check: Callable[[], None], log_path: str) -> None:
        """Run a check; a file that cannot be read is a failure, unless its segment was deleted."""
        try:
            check()
        except FileNotFoundError as error:
            if log_path and os.path.exists(log_path):
                self._failed(error, log_path)
        except OSError as error:
            self._failed(error, log_path)

    def _failed(self, error: OSError, path: str) -> None:
        self.chain.is_damaged = True
        self.failures.append(KcliError(f"cannot read `{error.filename or path}`: {error.strerror}"))


def verify_partition(
    directory: str,
    options: VerificationOptions,
    *,
    offsets: PartitionOffsets | None = None,
    advance: Callable[[int], None] = lambda _: None,
    read: ReadLog | None = None,
) -> PartitionReport:
    """Verify a replica directory; `offsets` are its offsets in the checkpoints of the log directory."""
    offsets, read = offsets or PartitionOffsets(), read or read_log
    return PartitionVerifier(directory, options, offsets=offsets, advance=advance, read=read).run()
