"""PartitionVerifier: every check of one replica directory.

Each segment is read once. Files that a running broker removes meanwhile are passed over; the directory is
listed first, so the last segment is the one that was written to, and its indexes may be behind.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.storage.batch_scan import Damage, scan
from kcli.storage.log_paths import LOG_SUFFIX
from kcli.storage.verification.findings import Findings, of_damage
from kcli.storage.verification.identity import check_partition_metadata
from kcli.storage.verification.leader_epochs import LeaderEpochCheck
from kcli.storage.verification.log_dir_checkpoints import PartitionOffsets, check_offsets
from kcli.storage.verification.log_items import read_log
from kcli.storage.verification.partition_report import PartitionReport
from kcli.storage.verification.sanity import ENTRY_SIZES, sanity_problem
from kcli.storage.verification.segment_chain import ReplicaListing, SegmentChain
from kcli.storage.verification.segment_verifier import SegmentVerifier
from kcli.storage.verification.snapshots import SnapshotCheck
from kcli.storage.verification.transaction_index import Transactions

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.storage.verification.findings import Finding
    from kcli.storage.verification.log_items import ReadLog
    from kcli.storage.verification.options import VerificationOptions

METADATA_SNAPSHOT = re.compile(r"\d{20}-\d{10}\.checkpoint", re.ASCII)


class PartitionVerifier:
    """The verification of one replica directory; `advance` is told of bytes of log files done."""

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
        """Take a finding, if it is of a file that is asked about."""
        if not self.options.indexes_only or finding.path.endswith(tuple(ENTRY_SIZES)):
            self.findings.add(finding)

    def advance(self, count: int) -> None:
        """Take note that so many bytes more of log files were read."""
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
        """Check the small files, and return the topic's id."""
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
        """Check the batches of the snapshots that only the metadata log has."""
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
        return PartitionReport(
            self.directory,
            list(self.findings),
            self.failures,
            len(self.listing.segments),
            passed=tuple(passed),
            empty=tuple(empty),
        )

    def _attempt(self, check: Callable[[], None], log_path: str) -> None:
        """Make a check; a file that cannot be read is a failure, unless its segment has gone."""
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
    read: ReadLog = read_log,
) -> PartitionReport:
    """Verify a replica directory; `offsets` are those that the log directory's checkpoints have for it."""
    offsets = offsets or PartitionOffsets()
    return PartitionVerifier(directory, options, offsets=offsets, advance=advance, read=read).run()
