"""TransactionVerifier: asks coordinators whether partitions belong to transactions (KIP-890; Kafka class
`AddPartitionsToTxnManager`).

The leader of a partition asks before it appends the first batch of a transaction. Old producers have added
the partition, which is only verified; those with `transaction.version` 2 leave the adding to the leader. A
coordinator on the own node is asked directly. For another node the questions queue, with one call at a time;
what has queued meanwhile goes together, one question for each transactional id:

| a second question of the id, while the first is queued | the first gets | the second |
|---|---|---|
| same epoch: the client asks again | NETWORK_EXCEPTION | queues |
| newer epoch | INVALID_PRODUCER_EPOCH | queues |
| older epoch | stays | INVALID_PRODUCER_EPOCH |

CONCURRENT_TRANSACTIONS means that the former transaction of the id has not ended yet. Whoever adds partitions
learns it only after `add.partitions.to.txn.retry.backoff.max.ms`: on the own node the question waits for the
end under the key `("txn", id)`, another node is asked every `add.partitions.to.txn.retry.backoff.ms`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kcli.broker.replication.leader_endpoint import PeerUnreachable
from kcli.broker.waiting.purgatory import DelayedOperation
from kcli.broker.waiting.timer import TimerCallback, monotonic_ms
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kcli.protocol.topics import TRANSACTION_STATE_TOPIC, TopicPartition, by_topic

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Sequence

    from kcli.broker.coordinator.effects import Effect, Now, Token
    from kcli.broker.replication.leader_endpoint import LeaderEndPoint
    from kcli.broker.replication.replica_manager import ReplicaManager
    from kcli.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResult

ADDED_BY_BROKERS = 2
"""The version of transactions of clients for which brokers add partitions."""


class Coordinators(Protocol):
    """The transaction coordinators of a node: `CoordinatorRuntime[TransactionCoordinator]`."""

    def partition_for(self, name: str) -> int: ...

    def ask(self, index: int, event: Callable[[Any, Now, Token], list[Effect]]) -> Any: ...  # noqa: ANN401


class Verification(DelayedOperation):
    """One question: whether partitions belong to a transaction, or with `adds` that they shall.

    Once it has ended, `errors` has the coordinator's code of every partition.
    """

    __slots__ = (
        "_ask",
        "adds",
        "deadline_ms",
        "errors",
        "is_asking",
        "partitions",
        "producer_epoch",
        "producer_id",
        "transactional_id",
    )

    def __init__(
        self,
        transaction: tuple[str, int, int],
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
        ask: Callable[[Verification], None],
    ) -> None:
        super().__init__()
        self.transactional_id, self.producer_id, self.producer_epoch = transaction
        self.partitions = partitions
        self.adds = adds
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.deadline_ms = 0
        """When CONCURRENT_TRANSACTIONS is told after all."""
        self.is_asking = False
        """Whether a coordinator of this node has yet to answer."""
        self._ask = ask

    def request(self) -> AddPartitionsToTxnTransaction:
        return AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            verify_only=not self.adds,
            topics=[
                AddPartitionsToTxnTopic(name=name, partitions=indexes)
                for name, indexes in by_topic(self.partitions).items()
            ],
        )

    def try_complete(self, key: Hashable) -> bool:
        """Ask again: the former transaction of the id may have ended. The answer ends the operation."""
        if not self.is_asking:
            self._ask(self)
        return False

    def finish(self) -> dict[TopicPartition, ErrorCode]:
        return self.errors


class _NodeQueue:
    """The questions for one other node, by transactional id."""

    __slots__ = ("is_calling", "node_id", "waiting")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.waiting: dict[str, Verification] = {}
        self.is_calling = False


class TransactionVerifier:
    """The questions of one node; `start_soon` starts a task of the node.

    `backoff_ms()` returns the time between two questions, and how long to ask.
    """

    def __init__(
        self,
        replica_manager: ReplicaManager,
        coordinators: Coordinators,
        *,
        link_to: Callable[[int], LeaderEndPoint],
        start_soon: Callable[[Callable[[], Awaitable[None]]], None],
        backoff_ms: Callable[[], tuple[int, int]],
    ) -> None:
        self._manager = replica_manager
        self._purgatory = replica_manager.purgatory
        self._coordinators = coordinators
        self._link_to = link_to
        self._start_soon = start_soon
        self._backoff_ms = backoff_ms
        self._queues: dict[int, _NodeQueue] = {}

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
    ) -> Verification:
        """Ask the coordinator of a transaction; the operation that is returned may have ended already."""
        transaction = transactional_id, producer_id, producer_epoch
        verification = Verification(transaction, partitions, adds=adds, ask=self._ask)
        verification.purgatory = self._purgatory
        verification.deadline_ms = monotonic_ms() + self._backoff_ms()[1]
        self._ask(verification)
        return verification

    def _ask(self, verification: Verification) -> None:
        if verification.ended:
            return
        index = self._coordinators.partition_for(verification.transactional_id)
        leader = self._manager.current_leader(TRANSACTION_STATE_TOPIC, index)
        if leader is None or leader[0] < 0:
            self._fail(verification, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif leader[0] == self._manager.node_id:
            self._ask_here(verification, index)
        else:
            self._ask_there(verification, leader[0])

    # --- a coordinator of the own node

    def _ask_here(self, verification: Verification, index: int) -> None:
        request = verification.request()
        try:
            reply = self._coordinators.ask(
                index,
                lambda shard, now, token: shard.add_partitions(
                    now, token, request, client_version=ADDED_BY_BROKERS
                ),
            )
        except KafkaError as error:
            self._fail(verification, error.code)
            return
        if isinstance(reply, DelayedOperation):
            verification.is_asking = True
            reply.waiter = partial(self._replied, verification, reply)
        else:
            self._answered_here(verification, reply)

    def _replied(self, verification: Verification, reply: DelayedOperation) -> None:
        verification.is_asking = False
        if not verification.ended:
            self._answered_here(verification, reply.finish())

    def _answered_here(self, verification: Verification, errors: dict[TopicPartition, ErrorCode]) -> None:
        left_ms = self._take(verification, errors)
        if left_ms <= 0:
            self._purgatory.end(verification)
        elif not verification.keys:
            self._purgatory.park(verification, [("txn", verification.transactional_id)], left_ms)
            if verification.ended:  # The time is up already.
                verification.tell()

    # --- a coordinator of another node

    def _ask_there(self, verification: Verification, node_id: int) -> None:
        queue = self._queues.get(node_id) or self._queues.setdefault(node_id, _NodeQueue(node_id))
        former = queue.waiting.get(verification.transactional_id)
        if former is not None and not former.ended:
            if verification.producer_epoch < former.producer_epoch:
                self._fail(verification, ErrorCode.INVALID_PRODUCER_EPOCH)
                return
            is_same = verification.producer_epoch == former.producer_epoch
            self._fail(former, ErrorCode.NETWORK_EXCEPTION if is_same else ErrorCode.INVALID_PRODUCER_EPOCH)
        queue.waiting[verification.transactional_id] = verification
        if not queue.is_calling:
            queue.is_calling = True
            self._start_soon(partial(self._call, queue))

    async def _call(self, queue: _NodeQueue) -> None:
        while queue.waiting:
            waiting, queue.waiting = queue.waiting, {}
            asked = [verification for verification in waiting.values() if not verification.ended]
            if asked:
                await self._send(queue.node_id, asked)
        queue.is_calling = False

    async def _send(self, node_id: int, asked: list[Verification]) -> None:
        request = AddPartitionsToTxnRequest(transactions=[each.request() for each in asked])
        try:
            response = await self._link_to(node_id).add_partitions_to_txn(request)
        except PeerUnreachable:
            for verification in asked:
                self._fail(verification, ErrorCode.NETWORK_EXCEPTION)
            return
        results = {result.transactional_id: result for result in response.results_by_transaction}
        for verification in asked:
            result = results.get(verification.transactional_id)
            if response.error_code or result is None:
                self._fail(verification, ErrorCode.of(response.error_code or ErrorCode.UNKNOWN_SERVER_ERROR))
            elif not verification.ended:
                self._answered_there(verification, _errors(result))

    def _answered_there(self, verification: Verification, errors: dict[TopicPartition, ErrorCode]) -> None:
        left_ms = self._take(verification, errors)
        if left_ms <= 0:
            self._purgatory.end(verification)
        else:
            pause_ms = max(1, min(self._backoff_ms()[0], left_ms))
            timer = TimerCallback(partial(self._ask, verification))
            self._manager.timer.add(timer, pause_ms, monotonic_ms())

    def _take(self, verification: Verification, errors: dict[TopicPartition, ErrorCode]) -> int:
        """Take over an answer; return for how many ms to ask on, 0 if this is the last one."""
        verification.errors = errors
        if not verification.adds or ErrorCode.CONCURRENT_TRANSACTIONS not in errors.values():
            return 0
        return max(0, verification.deadline_ms - monotonic_ms())

    def _fail(self, verification: Verification, code: ErrorCode) -> None:
        if not verification.ended:
            verification.errors = dict.fromkeys(verification.partitions, code)
            self._purgatory.end(verification)


def _errors(result: AddPartitionsToTxnResult) -> dict[TopicPartition, ErrorCode]:
    return {
        TopicPartition(topic.name, row.partition_index): ErrorCode.of(row.partition_error_code)
        for topic in result.topic_results
        for row in topic.results_by_partition
    }
