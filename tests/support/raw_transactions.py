"""RawTransactions: the requests of a transactional producer, one frame at a time, right and wrong ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kcli.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kcli.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kcli.protocol.messages.end_txn import EndTxnRequest
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.list_transactions import ListTransactionsRequest
from kcli.protocol.topics import by_topic
from tests.support.waiting import first

if TYPE_CHECKING:
    from kcli.protocol.messages.describe_transactions import TransactionState
    from kcli.protocol.messages.list_transactions import ListTransactionsResponse
    from tests.support.raw_client import RawClient

CONCURRENT = 51
ONE_BATCH_OF_KEYS = 4
"""The first version of FindCoordinator with several keys, and of AddPartitionsToTxn with transactions."""


class Outcome(NamedTuple):
    """An error code, and the producer in the response."""

    code: int
    producer_id: int = -1
    epoch: int = -1


class RawTransactions:
    """One transactional id on one connection to its coordinator."""

    def __init__(self, client: RawClient, transactional_id: str) -> None:
        self.client = client
        self.id = transactional_id

    def find(self, version: int = 6) -> int:
        """Ask for the coordinator until there is one; return its node."""

        def ask() -> tuple[int, int]:
            if version < ONE_BATCH_OF_KEYS:
                found = self.client.ask(FindCoordinatorRequest(key=self.id, key_type=1), version)
            else:
                request = FindCoordinatorRequest(coordinator_keys=[self.id], key_type=1)
                (found,) = self.client.ask(request, version).coordinators
            return found.error_code, found.node_id

        return first(ask, lambda found: found[0] == 0, "a coordinator")[1]

    def init(
        self, producer: tuple[int, int] = (-1, -1), *, timeout_ms: int = 60_000, version: int = 5
    ) -> Outcome:
        """Begin a session."""
        request = InitProducerIdRequest(
            transactional_id=self.id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer[0],
            producer_epoch=producer[1],
        )
        response = self.client.ask(request, version)
        return Outcome(response.error_code, response.producer_id, response.producer_epoch)

    def init_at_last(self, producer: tuple[int, int] = (-1, -1)) -> Outcome:
        """Begin a session, again and again while the former transaction is being aborted."""
        return first(lambda: self.init(producer), lambda found: found.code != CONCURRENT, "a session")

    def add(self, producer: tuple[int, int], *partitions: tuple[str, int], version: int = 3) -> list[int]:
        """Add partitions, as a client; return the codes in the order of the partitions."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=_topics(partitions),
        )
        return _codes(self.client.ask(request, version).results_by_topic_v3_and_below, partitions)

    def add_as_broker(
        self,
        producer: tuple[int, int],
        *partitions: tuple[str, int],
        verify_only: bool = False,
        version: int = 5,
    ) -> list[int]:
        """Add partitions, or verify them, as a broker; return the codes in the order of the partitions."""
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=self.id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            verify_only=verify_only,
            topics=_topics(partitions),
        )
        response = self.client.ask(AddPartitionsToTxnRequest(transactions=[transaction]), version)
        assert response.error_code == 0
        (result,) = response.results_by_transaction
        assert result.transactional_id == self.id
        return _codes(result.topic_results, partitions)

    def add_offsets(self, producer: tuple[int, int], group: str, version: int = 4) -> int:
        """Add the partition with the offsets of a group."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.id, producer_id=producer[0], producer_epoch=producer[1], group_id=group
        )
        return int(self.client.ask(request, version).error_code)

    def end(self, producer: tuple[int, int], *, commit: bool, version: int) -> Outcome:
        """Commit or abort."""
        request = EndTxnRequest(
            transactional_id=self.id, producer_id=producer[0], producer_epoch=producer[1], committed=commit
        )
        response = self.client.ask(request, version)
        return Outcome(response.error_code, response.producer_id, response.producer_epoch)

    def describe(self) -> TransactionState:
        """Ask for the state."""
        request = DescribeTransactionsRequest(transactional_ids=[self.id])
        state: TransactionState
        (state,) = self.client.ask(request, 0).transaction_states
        return state

    def settled(self, state: str) -> TransactionState:
        """Wait for a state."""
        return first(self.describe, lambda found: found.transaction_state == state, f"{self.id} is {state}")

    def list(
        self,
        *,
        states: tuple[str, ...] = (),
        producer_ids: tuple[int, ...] = (),
        duration: int = -1,
        pattern: str | None = None,
        version: int = 2,
    ) -> ListTransactionsResponse:
        """List the ids of the broker."""
        response: ListTransactionsResponse = self.client.ask(
            ListTransactionsRequest(
                state_filters=list(states),
                producer_id_filters=list(producer_ids),
                duration_filter=duration,
                transactional_id_pattern=pattern,
            ),
            version,
        )
        return response


def _topics(partitions: tuple[tuple[str, int], ...]) -> list[AddPartitionsToTxnTopic]:
    return [
        AddPartitionsToTxnTopic(name=name, partitions=indexes)
        for name, indexes in by_topic(partitions).items()
    ]


def _codes(results: list, partitions: tuple[tuple[str, int], ...]) -> list[int]:  # type: ignore[type-arg]
    found = {
        (topic.name, each.partition_index): each.partition_error_code
        for topic in results
        for each in topic.results_by_partition
    }
    assert len(found) == len(set(partitions))
    return [found[each] for each in partitions]
