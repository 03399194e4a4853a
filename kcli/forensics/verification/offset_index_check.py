"""OffsetIndexCheck: whether the offset index of a segment agrees with its log.

Every entry must point to the beginning of a batch and have that batch's last offset. Kafka before 4.1 wrote
one entry for all batches appended together, with the last offset of the last batch (KAFKA-806), and before
1.1 the first offset of the batch: both are reported as `info`, once per file.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING

from kcli.forensics.verification.findings import Finding, FindingKind
from kcli.forensics.verification.index_bytes import always_rises, never_falls
from kcli.protocol.corruption import CorruptRecord
from kcli.storage.index.offset_index import ENTRY_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcli.forensics.entries.scanned_entry import ScannedEntry
    from kcli.forensics.verification.index_bytes import IndexBytes
    from kcli.forensics.verification.packed_batches import PackedBatches

NO_OFFSET_DUE = 2**63
NOT_FOUND = -1


class OffsetIndexCheck:
    """Takes, in order, the batches of a segment that end behind position `due`."""

    def __init__(
        self,
        index: IndexBytes,
        base_offset: int,
        *,
        report: Callable[[Finding], None],
        most_bytes: int | None = None,
    ) -> None:
        assert index.entry_size == ENTRY_SIZE
        self._index = index
        self._base_offset = base_offset
        self._report = report
        self._most_bytes = NO_OFFSET_DUE if most_bytes is None else most_bytes
        words = index.words()
        self._relatives, self._positions = words[0::2], words[1::2]
        self._rises = always_rises(self._positions)
        self._order = self._by_position()
        self._at = 0
        self._bad: set[int] = set()
        self._open: tuple[int, int, int] | None = None
        """Slot, key and last offset of the batch of an entry that may cover several batches."""
        self._multi_batch: list[int] = []
        self._first_offset: list[int] = []
        self.due = 0
        self._settle_due()

    def entry(self, slot: int) -> tuple[int, int]:
        """Return key and position of an entry."""
        return self._base_offset + self._relatives[slot], self._positions[slot]

    def take_run(self, run: PackedBatches) -> bool:
        """Take sound batches at once; return False, to take them one by one, if an entry in them is wrong."""
        if self._open is not None or not isinstance(self._order, range):
            return False
        if self._most_bytes != NO_OFFSET_DUE and run.largest_size > self._most_bytes:
            return False
        stop = bisect_left(self._positions, run.end, self._at)
        if stop > self._at:
            if not run.has_offset_entries(self._index.data[self._at * ENTRY_SIZE : stop * ENTRY_SIZE]):
                return False
            self._at = stop
            self._settle_due()
        return True

    def take(self, batch: ScannedEntry) -> None:
        """Check the entries that point to a batch or into it."""
        while self._at < len(self._order):
            slot = self._order[self._at]
            key, position = self.entry(slot)
            if position >= batch.end:
                break
            self._at += 1
            if position == batch.position:
                self._close(None)
                if batch.is_valid and not batch.damages:
                    self._compare(slot, key, batch)
            else:
                message = f"no batch begins at position {position}, where the entry of offset {key} points"
                self._bad_entry(slot, FindingKind.INDEX_POSITION, message=message, key=key)
        if self._open is not None and batch.last_offset >= self._open[1]:
            self._close(batch.last_offset)
        self._settle_due()

    def skip(self, end: int) -> None:
        """Pass over the entries that point into damage that ends at a position."""
        while self._at < len(self._order) and self.entry(self._order[self._at])[1] < end:
            self._at += 1
        self._settle_due()

    def finish(self, log_bytes: int) -> None:
        """Report entries past the end of the log, and entries out of order."""
        self._close(None)
        for slot in self._order[self._at :]:
            key, position = self.entry(slot)
            message = f"the entry of offset {key} points to {position}, the log has {log_bytes} bytes"
            self._bad_entry(slot, FindingKind.INDEX_PAST_LOG, message=message, key=key)
        self._check_order()
        what = "have the last offset of several batches appended together, as before Kafka 4.1"
        self._report_old(self._multi_batch, FindingKind.INDEX_OLD_MULTI_BATCH, what)
        what = "have the first offset of their batch, as before Kafka 1.1"
        self._report_old(self._first_offset, FindingKind.INDEX_OLD_FIRST_OFFSET, what)

    def _by_position(self) -> Sequence[int]:
        """Return the slots by ascending position; in a sound index that is their own order."""
        if self._rises or never_falls(self._positions):
            return range(self._index.entries)
        return array("i", sorted(range(self._index.entries), key=self._positions.__getitem__))

    def _settle_due(self) -> None:
        if self._open is not None:
            self.due = 0
        elif self._at < len(self._order):
            self.due = self.entry(self._order[self._at])[1]
        else:
            self.due = NO_OFFSET_DUE

    def _compare(self, slot: int, key: int, batch: ScannedEntry) -> None:
        last = batch.last_offset if batch.size <= self._most_bytes else NOT_FOUND
        if key == last != NOT_FOUND:
            return
        if key < self._base_offset:
            message = f"offset {key} is below {self._base_offset}, where the segment begins"
            self._bad_entry(slot, FindingKind.INDEX_OFFSET_RANGE, message=message, key=key)
        elif last == NOT_FOUND:
            self._mismatch(slot, key, last)
        elif key > last:
            self._open = slot, key, last
        elif key == _first_offset(batch):
            self._first_offset.append(slot)
        else:
            self._mismatch(slot, key, last)

    def _close(self, last_offset: int | None) -> None:
        """Decide on the entry that may cover several batches, of which the last ends with `last_offset`."""
        if self._open is None:
            return
        slot, key, last = self._open
        self._open = None
        if key == last_offset:
            self._multi_batch.append(slot)
        else:
            self._mismatch(slot, key, last)

    def _mismatch(self, slot: int, key: int, last: int) -> None:
        message = f"index offset {key}, log offset {last}"
        self._bad_entry(slot, FindingKind.INDEX_MISMATCH, message=message, key=key, pair=(key, last))

    def _bad_entry(
        self, slot: int, kind: FindingKind, *, message: str, key: int, pair: tuple[int, int] | None = None
    ) -> None:
        self._bad.add(slot)
        self._report(Finding(self._index.path, kind, message, slot * ENTRY_SIZE, key, pair))

    def _check_order(self) -> None:
        if not self._bad and self._rises and always_rises(self._relatives):
            return
        previous = (-1, -1)
        for slot in range(self._index.entries):
            if slot in self._bad:
                continue
            key, position = entry = self.entry(slot)
            if key <= previous[0] or position <= previous[1]:
                message = f"offset {key} at {position} comes after offset {previous[0]} at {previous[1]}"
                at = slot * ENTRY_SIZE
                self._report(Finding(self._index.path, FindingKind.INDEX_ORDER, message, at, key))
            previous = entry

    def _report_old(self, slots: list[int], kind: FindingKind, what: str) -> None:
        if slots:
            key, _ = self.entry(slots[0])
            message = f"{len(slots)} of {self._index.entries} entries {what}"
            self._report(Finding(self._index.path, kind, message, slots[0] * ENTRY_SIZE, key))


def _first_offset(batch: ScannedEntry) -> int:
    """Return the first offset of a batch of any format, -1 if its records cannot be read."""
    try:
        return batch.load().base_offset
    except (CorruptRecord, StopIteration):
        return -1
