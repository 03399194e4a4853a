"""Transaction coordinators of a node that answer what a test says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.broker.coordinator.effects import Now, Token
from kcli.broker.transactions.transaction_verifier import TransactionVerifier
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.topics import TRANSACTION_STATE_TOPIC, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    import trio

    from kcli.broker.coordinator.runtime.shard_host import CoordinatorResponse
    from kcli.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnTransaction
    from tests.broker.single_node import Node

Answer = ErrorCode | dict[TopicPartition, ErrorCode] | KafkaError | Any
"""A code for all partitions or for each, what `ask` raises, or the response to wait for."""


class ScriptedCoordinators:
    """It takes the `answers` in turn, the last one again and again; `asked` has the questions."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers) or [ErrorCode.NONE]
        self.asked: list[AddPartitionsToTxnTransaction] = []
        self.client_versions: list[int] = []

    def partition_for(self, name: str) -> int:
        return 0

    def ask(self, index: int, event: Callable[[Any, Now, Token], Any]) -> Any:
        event(self, Now(0, 0), Token())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, KafkaError):
            raise answer
        return self.reply(answer) if isinstance(answer, ErrorCode) else answer

    def add_partitions(
        self, now: Now, token: Token, transaction: AddPartitionsToTxnTransaction, *, client_version: int
    ) -> list[Any]:
        self.asked.append(transaction)
        self.client_versions.append(client_version)
        return []

    def reply(self, code: ErrorCode) -> dict[TopicPartition, ErrorCode]:
        """Return the reply with one code to the latest question."""
        return {
            TopicPartition(topic.name, index): code
            for topic in self.asked[-1].topics
            for index in topic.partitions
        }

    def give(self, response: CoordinatorResponse, code: ErrorCode) -> None:
        """Answer the latest question, which had this response."""
        response.give(self.reply(code))


def use_coordinators(
    node: Node, coordinators: ScriptedCoordinators, nursery: trio.Nursery
) -> ScriptedCoordinators:
    """Let a node verify transactions with these coordinators, of which it leads the only partition."""
    node.create_topic(TRANSACTION_STATE_TOPIC)
    node.log_manager.set_transaction_verification(verifies=True)
    node.verifier = TransactionVerifier(
        node.replica_manager,
        coordinators,
        link_to=node.link_to,
        start_soon=nursery.start_soon,
        backoff_ms=lambda: (20, 100),
    )
    return coordinators
