"""TransactionIndexCheck: whether the transaction index of a segment agrees with its log.

Each marker that aborts a transaction with records in the log has an entry in the index of its segment: the
producer, the first offset of the transaction, the offset of the marker, and the last stable offset after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.forensics.verification.findings import Finding, FindingKind
from kcli.protocol.records.control_records import ControlRecordType
from kcli.storage.index.transaction_index import ENTRY_SIZE, VERSION, AbortedTransaction, unpack_entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.forensics.verification.index_bytes import IndexBytes
    from kcli.protocol.records.batch import RecordBatch


class Transactions:
    """The open transactions at a place in the log: their first offsets by producer.

    `is_exact` says that every record from offset 0 on was seen, so that no other one can be open.
    """

    __slots__ = ("is_exact", "open")

    def __init__(self) -> None:
        self.open: dict[int, int] = {}
        self.is_exact = True

    def forget(self) -> None:
        """Note that unknown transactions may be open from here on."""
        self.open.clear()
        self.is_exact = False

    def take(self, batch: RecordBatch, marker: ControlRecordType | None) -> AbortedTransaction | None:
        """Follow a transactional batch; return the transaction that a marker ends, as an index entry."""
        if not batch.is_control:
            self.open.setdefault(batch.producer_id, batch.base_offset)
        elif marker is ControlRecordType.ABORT or marker is ControlRecordType.COMMIT:
            return self._end(batch.producer_id, batch.last_offset)
        return None

    def _end(self, producer_id: int, offset: int) -> AbortedTransaction | None:
        first_offset = self.open.pop(producer_id, None)
        if first_offset is None:
            return None
        stable = min(self.open.values(), default=offset + 1)
        return AbortedTransaction(producer_id, first_offset, offset, stable)


class IndexedTransaction(NamedTuple):
    """An entry and its number in the index."""

    slot: int
    entry: AbortedTransaction


class TransactionIndexCheck:
    """Takes the abort markers of a segment in order."""

    def __init__(self, index: IndexBytes, base_offset: int, *, report: Callable[[Finding], None]) -> None:
        self._index = index
        self._base_offset = base_offset
        self._report = report
        self._entries = self._sound_entries()
        self._at = 0
        self._pending: list[AbortedTransaction] = []

    def marker(self, producer_id: int, offset: int, expected: AbortedTransaction | None, exact: bool) -> None:
        """Check the entry of an abort marker against `expected`, if that is known."""
        self.pass_over(offset, report=True)
        if self._at < len(self._entries) and self._entries[self._at].entry.last_offset == offset:
            found = self._entries[self._at]
            self._at += 1
            self._compare(found, producer_id, expected, exact)
        elif expected is not None:
            self._pending.append(expected)

    def pass_over(self, offset: int, *, report: bool) -> None:
        """Skip the entries of markers below an offset, which the log does not have."""
        while self._at < len(self._entries) and self._entries[self._at].entry.last_offset < offset:
            if report:
                self._no_marker(self._entries[self._at])
            self._at += 1

    def finish(self, reread: Callable[[], IndexBytes] | None) -> None:
        """Report entries without a marker and markers without an entry; `reread` an index that may grow."""
        for indexed in self._entries[self._at :]:
            self._no_marker(indexed)
        if not self._pending or self._index.is_too_large:
            return
        present = set()
        if reread is not None:
            data = reread().data
            present = {unpack_entry(data, at)[1].last_offset for at in range(0, len(data), ENTRY_SIZE)}
        for expected in self._pending:
            if expected.last_offset not in present:
                message = (
                    f"producer {expected.producer_id} aborted offsets {expected.first_offset} to "
                    f"{expected.last_offset}, and has no entry"
                )
                self._say(None, FindingKind.TRANSACTION_INDEX_INCOMPLETE, message, expected.last_offset)

    def _sound_entries(self) -> list[IndexedTransaction]:
        entries: list[IndexedTransaction] = []
        previous = self._base_offset - 1
        for slot in range(self._index.entries):
            version, entry = unpack_entry(self._index.data, slot * ENTRY_SIZE)
            if (
                version != VERSION
                or entry.producer_id < 0
                or not 0 <= entry.first_offset <= entry.last_offset
            ):
                message = f"impossible: version {version}, {entry}"
                self._say(slot, FindingKind.TRANSACTION_INDEX_ENTRY, message, entry.last_offset)
            elif entry.last_offset < self._base_offset:
                message = f"offset {entry.last_offset} is below {self._base_offset}, where the segment begins"
                self._say(slot, FindingKind.INDEX_OFFSET_RANGE, message, entry.last_offset)
            elif entry.last_offset <= previous:
                message = f"the marker at offset {entry.last_offset} comes after that at {previous}"
                self._say(slot, FindingKind.TRANSACTION_INDEX_ORDER, message, entry.last_offset)
            else:
                entries.append(IndexedTransaction(slot, entry))
                previous = entry.last_offset
        return entries

    def _compare(
        self, found: IndexedTransaction, producer_id: int, expected: AbortedTransaction | None, exact: bool
    ) -> None:
        slot, entry = found
        if entry.producer_id != producer_id:
            message = f"producer {entry.producer_id}, but the marker is that of producer {producer_id}"
        elif expected is None:
            return
        elif entry.first_offset > expected.first_offset or (
            exact and entry.first_offset != expected.first_offset
        ):
            message = f"first offset {entry.first_offset}, log {expected.first_offset}"
        elif exact and entry.last_stable_offset != expected.last_stable_offset:
            message = f"last stable offset {entry.last_stable_offset}, log {expected.last_stable_offset}"
        else:
            return
        self._say(slot, FindingKind.TRANSACTION_INDEX_MISMATCH, message, entry.last_offset)

    def _no_marker(self, indexed: IndexedTransaction) -> None:
        entry = indexed.entry
        message = f"no marker at offset {entry.last_offset} aborts a transaction of {entry.producer_id}"
        self._say(indexed.slot, FindingKind.TRANSACTION_INDEX_NO_MARKER, message, entry.last_offset)

    def _say(self, slot: int | None, kind: FindingKind, message: str, offset: int) -> None:
        position = None if slot is None else slot * ENTRY_SIZE
        self._report(Finding(self._index.path, kind, message, position, offset))
