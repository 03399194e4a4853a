"""The filters of ListTransactions (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.coordinator.transaction.transaction_states import STATES_BY_LABEL
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.list_transactions import TransactionState
from kcli.protocol.re2 import InvalidExpression
from kcli.protocol.topic_expression import TopicExpression

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kcli.broker.coordinator.transaction.transaction import Transaction
    from kcli.protocol.messages.list_transactions import ListTransactionsRequest


class TransactionFilter:
    """The filters of a ListTransactions request; `unknown_states` are names that are no states.

    A duration also lets ids without a transaction pass: their start is -1, in Kafka as well. Raises
    `KafkaError` INVALID_REGULAR_EXPRESSION.
    """

    def __init__(self, request: ListTransactionsRequest, now_ms: int) -> None:
        self.unknown_states = [
            name for name in dict.fromkeys(request.state_filters) if name not in STATES_BY_LABEL
        ]
        self._filters_states = bool(request.state_filters)
        self._states = {STATES_BY_LABEL.get(name) for name in request.state_filters}
        self._producer_ids = frozenset(request.producer_id_filters)
        self._started_before = now_ms - request.duration_filter if request.duration_filter >= 0 else None
        self._pattern: TopicExpression | None = None
        if request.transactional_id_pattern:
            try:
                self._pattern = TopicExpression(request.transactional_id_pattern)
            except InvalidExpression as error:
                raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, error.message) from error

    def listed(self, transactions: Iterable[Transaction]) -> Iterator[TransactionState]:
        """Yield those that pass, as responses have them."""
        for transaction in transactions:
            if self._passes(transaction):
                yield TransactionState(
                    transactional_id=transaction.transactional_id,
                    producer_id=transaction.producer_id,
                    transaction_state=transaction.state.label,
                )

    def _passes(self, transaction: Transaction) -> bool:
        if self._producer_ids and transaction.producer_id not in self._producer_ids:
            return False
        if self._filters_states and transaction.state not in self._states:
            return False
        if self._started_before is not None and transaction.start_ms >= self._started_before:
            return False
        if self._pattern is None:
            return True
        try:
            return self._pattern.fullmatch(transaction.transactional_id)
        except InvalidExpression as error:
            raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, error.message) from error
