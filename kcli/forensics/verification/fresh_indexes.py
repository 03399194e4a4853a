"""Fresh indexes of segments, as a broker would write them for the valid batches, in a directory of their own.

An entry is written when more than the interval was read since the last one; the largest timestamp is added at
the end, as when a segment closes. `repair.SegmentCopy` writes indexes by the broker's own rules instead.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.errors import KcliError, UsageError
from kcli.forensics.entries.damage import Damage
from kcli.forensics.entries.segment_scan import scan
from kcli.forensics.verification.findings import Findings, PartitionReport, of_damage
from kcli.forensics.verification.segment_chain import ReplicaListing
from kcli.forensics.verification.transaction_index_check import Transactions
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.control_records import ControlRecordType
from kcli.storage import disk
from kcli.storage.index.offset_index import OffsetIndex
from kcli.storage.index.time_index import NO_TIMESTAMP, TimeIndex
from kcli.storage.index.transaction_index import TransactionIndex
from kcli.storage.log_paths import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_path,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.forensics.entries.scanned_entry import ScannedEntry

DEFAULT_INTERVAL_BYTES = 4096
_NO_LIMIT = 2**31


def rebuild(
    directory: str,
    out: str,
    *,
    interval_bytes: int = DEFAULT_INTERVAL_BYTES,
    advance: Callable[[int], None] = lambda _: None,
) -> PartitionReport:
    """Write indexes for every segment to `out`, a new or empty directory. Raises `KcliError`, `OSError`."""
    listing = ReplicaListing.of(directory)
    os.makedirs(out, exist_ok=True)
    if os.listdir(out):
        raise UsageError(
            f"`{out}` is not empty", hint="indexes are written to a directory that is new or empty"
        )
    findings, transactions = Findings(), Transactions()
    paths: list[str] = []
    batches = size = 0
    for base_offset in listing.segments:
        segment = _FreshSegment(out, base_offset, interval_bytes=interval_bytes, transactions=transactions)
        path = listing.path(base_offset, LOG_SUFFIX)
        for item in scan(path, resync=True, segment_base=base_offset):
            if isinstance(item, Damage):
                findings.add(of_damage(path, item))
                continue
            batches += 1
            size += item.size
            advance(item.size)
            if item.is_valid and not item.damages:
                segment.add(item)
        paths += segment.finish()
    disk.sync_path(out)
    return PartitionReport(
        directory, [*findings], [], len(listing.segments), batches, size, written=tuple(paths)
    )


class _FreshSegment:
    """The indexes of one segment while its batches are added."""

    def __init__(
        self, out: str, base_offset: int, *, interval_bytes: int, transactions: Transactions
    ) -> None:
        self._offsets = OffsetIndex(segment_path(out, base_offset, INDEX_SUFFIX), base_offset, _NO_LIMIT)
        self._times = TimeIndex(segment_path(out, base_offset, TIME_INDEX_SUFFIX), base_offset, _NO_LIMIT)
        path = segment_path(out, base_offset, TRANSACTION_INDEX_SUFFIX)
        self._aborted = TransactionIndex(path, base_offset)
        self._interval_bytes = interval_bytes
        self._transactions = transactions
        self._since_entry = 0
        self._largest = NO_TIMESTAMP, base_offset
        self._last_offset = base_offset - 1
        self._offsets.create()
        self._times.create()

    def add(self, entry: ScannedEntry) -> None:
        """Add the next batch. Raises `OSError`."""
        batch, last = entry.batch, entry.last_offset
        if last <= self._last_offset:
            return
        self._last_offset = last
        if batch.max_timestamp > self._largest[0]:
            self._largest = batch.max_timestamp, last
        if self._since_entry > self._interval_bytes:
            self._offsets.append(last, entry.position)
            self._times.maybe_append(*self._largest)
            self._since_entry = 0
        self._since_entry += entry.size
        if isinstance(batch, RecordBatch) and batch.is_transactional:
            kind = entry.marker_type() if batch.is_control else None
            aborted = self._transactions.take(batch, kind)
            if aborted is not None and kind is ControlRecordType.ABORT:
                self._aborted.append(aborted)

    def finish(self) -> list[str]:
        """Write the files and flush them to disk; return their paths. Raises `OSError`."""
        self._times.maybe_append(*self._largest)
        self._offsets.finish()
        self._times.finish()
        for index in (self._offsets, self._times, self._aborted):
            index.sync()
        paths = [self._offsets.path, self._times.path]
        return [*paths, self._aborted.path] if len(self._aborted) else paths


def refuse_inside(out: str, directory: str) -> None:
    """Raise `KcliError` if `out` is `directory` or lies in it."""
    ours, theirs = os.path.realpath(out), os.path.realpath(directory)
    if ours == theirs or ours.startswith(theirs + os.sep):
        raise KcliError(
            f"`{out}` is in `{directory}`, which is only read", hint="name a directory outside of it"
        )
