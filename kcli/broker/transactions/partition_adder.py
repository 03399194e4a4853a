"""PartitionAdder: adds partitions to the transactions that a node coordinates, or verifies them (KIP-890).

One unknown partition refuses its transaction: it is UNKNOWN_TOPIC_OR_PARTITION, and the others of the
transaction are OPERATION_NOT_ATTEMPTED. An error of the coordinator is that of all partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.broker.coordinator.runtime.shard_host import CoordinatorResponse
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kcli.protocol.topics import TopicPartition, by_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from kcli.broker.coordinator.transaction_service import TransactionRuntime
    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnTransaction

    Codes = Mapping[TopicPartition, ErrorCode]

TV1_CLIENT, TV2_CLIENT = 0, 2
"""The client version of a transaction whose partitions the client adds, and of one where brokers do."""


class PartitionAdder:
    """What adds partitions on a node whose metadata is `image()`."""

    def __init__(self, coordinators: TransactionRuntime, image: Callable[[], MetadataImage]) -> None:
        self._coordinators = coordinators
        self._image = image

    def add(
        self,
        transaction: AddPartitionsToTxnTransaction,
        *,
        client_version: int,
        denied: AbstractSet[str] = frozenset(),
        shape: Callable[[Codes], Any] | None = None,
    ) -> Any:  # noqa: ANN401 - codes by partition or what `shape` makes of them, or an operation that waits
        """Add the partitions of one transaction, or verify them; topics in `denied` are refused."""
        partitions = [
            TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions
        ]
        codes: Codes | None = self._refused(partitions, denied)
        if codes is None:
            try:
                return self._coordinators.ask_for(
                    transaction.transactional_id,
                    lambda shard, now, token: shard.add_partitions(
                        now, token, transaction, client_version=client_version
                    ),
                    shape,
                )
            except KafkaError as error:
                codes = dict.fromkeys(partitions, error.code)
        return codes if shape is None else shape(codes)

    def _refused(
        self, partitions: Sequence[TopicPartition], denied: AbstractSet[str]
    ) -> dict[TopicPartition, ErrorCode] | None:
        """Return the codes of a transaction with denied or unknown partitions, None without one."""
        topics = self._image().topics
        codes = {}
        for each in partitions:
            code = ErrorCode.OPERATION_NOT_ATTEMPTED
            topic = topics.get(each.topic)
            if each.topic in denied:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif topic is None or not 0 <= each.partition < len(topic.partitions):
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            codes[each] = code
        return None if set(codes.values()) <= {ErrorCode.OPERATION_NOT_ATTEMPTED} else codes

    async def add_all(
        self, transactions: Sequence[AddPartitionsToTxnTransaction]
    ) -> AddPartitionsToTxnResponse:
        """Add the partitions of each transaction, or verify them, as other brokers ask for."""
        answers = [self.add(each, client_version=TV2_CLIENT) for each in transactions]
        results = []
        for transaction, answer in zip(transactions, answers, strict=True):
            codes = (
                await self._coordinators.wait(answer) if isinstance(answer, CoordinatorResponse) else answer
            )
            results.append(
                AddPartitionsToTxnResult(
                    transactional_id=transaction.transactional_id, topic_results=topic_results(codes)
                )
            )
        return AddPartitionsToTxnResponse(results_by_transaction=results)


def topic_results(codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    """Return error codes as responses have them."""
    return [
        AddPartitionsToTxnTopicResult(
            name=topic,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[TopicPartition(topic, index)]
                )
                for index in indexes
            ],
        )
        for topic, indexes in by_topic(codes).items()
    ]
