"""CleanedTransactions: which batches belong to aborted transactions, and which markers nobody needs any more.

It walks along with the batches of a log. A data batch of an aborted transaction can go at once. The marker
of a transaction stays as long as a batch of the transaction was seen in the same walk, and the entry of an
abort in `.txnindex` stays with its marker (Kafka class `CleanedTransactionMetadata`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.records.control_records import ControlRecordType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kcli.storage.index.transaction_index import AbortedTransaction


class CleanedTransactions:
    """The transactions on a walk; `on_kept_abort` takes the index entry of each abort marker that is kept."""

    __slots__ = ("_aborted", "_coming", "_committed", "_seen", "on_kept_abort")

    def __init__(
        self,
        aborted: Iterable[AbortedTransaction],
        on_kept_abort: Callable[[AbortedTransaction], None] = lambda transaction: None,
    ) -> None:
        self.on_kept_abort = on_kept_abort
        self._coming = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
        # By producer id: the aborted transaction that is open at this place of the walk.
        self._aborted: dict[int, AbortedTransaction] = {}
        # The producers of which a batch of the open transaction was seen, aborted and other.
        self._seen: set[int] = set()
        self._committed: set[int] = set()

    def is_aborted(self, producer_id: int, last_offset: int) -> bool:
        """Note a transactional data batch; return whether its transaction was aborted."""
        if self._coming:
            self._open_up_to(last_offset)
        if producer_id in self._aborted:
            self._seen.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def is_needless(
        self,
        control_type: ControlRecordType | None,
        producer_id: int,
        last_offset: int,
        *,
        keep: bool = False,
    ) -> bool:
        """Note a control batch, of type None without a record; return whether its transaction is all gone.

        With `keep` it is a marker that stays whatever became of its transaction.
        """
        if self._coming:
            self._open_up_to(last_offset)
        if control_type is ControlRecordType.ABORT:
            transaction = self._aborted.pop(producer_id, None)
            is_seen = producer_id in self._seen
            self._seen.discard(producer_id)
            if transaction is None or not (is_seen or keep):
                return True
            self.on_kept_abort(transaction)
            return False
        if control_type is ControlRecordType.COMMIT:
            is_seen = producer_id in self._committed
            self._committed.discard(producer_id)
            return not is_seen
        return control_type is None

    def _open_up_to(self, offset: int) -> None:
        coming = self._coming
        while coming and coming[-1].first_offset <= offset:
            transaction = coming.pop()
            self._aborted.setdefault(transaction.producer_id, transaction)
