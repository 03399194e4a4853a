"""A transactional producer that sends the frames that a test asks for, right or wrong."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from kcli.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kcli.protocol.messages.end_txn import EndTxnRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.topics import TRANSACTION_STATE_TOPIC
from tests.broker.records import batch, produced
from tests.broker.single_node import START_MS, Client, Node, connected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kcli.protocol.messages.produce import PartitionProduceResponse

CONCURRENT_TRANSACTIONS = 51


class TransactionalClient:
    """One transactional id; `version` 2 leaves the adding of partitions to the broker."""

    def __init__(self, client: Client, transactional_id: str = "tid", *, version: int = 1) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.version = version
        self.producer_id = self.epoch = -1
        self.timestamp = START_MS
        self.sequences: dict[tuple[str, int], int] = {}

    async def begin(self, *, timeout_ms: int = 60_000) -> None:
        """Get a producer id, or the next epoch."""
        assert await self.try_begin(timeout_ms=timeout_ms) == 0

    async def try_begin(self, *, timeout_ms: int = 60_000) -> int:
        """Ask for a producer id, or the next epoch; return the error code."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=-1,
            producer_epoch=-1,
        )
        response = await self.client.ask(request, 4)
        if not response.error_code:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self.sequences.clear()
        code: int = response.error_code
        return code

    async def add(self, topic: str, *indexes: int) -> list[int]:
        """Add partitions as old producers do; return the error codes."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(indexes))],
        )
        response = await self.client.ask(request, 3)
        return [
            row.partition_error_code
            for result in response.results_by_topic_v3_and_below
            for row in result.results_by_partition
        ]

    def request(self, topic: str, *values: bytes, index: int = 0, **fields: Any) -> ProduceRequest:
        """Return a request with one batch; `fields` replace those of the batch and the transactional id."""
        key = topic, index
        records = batch(
            *values,
            timestamp=self.timestamp,
            producer_id=fields.get("producer_id", self.producer_id),
            producer_epoch=fields.get("epoch", self.epoch),
            base_sequence=fields.get("sequence", self.sequences.get(key, 0)),
            is_transactional=True,
        )
        return ProduceRequest(
            transactional_id=fields.get("transactional_id", self.transactional_id),
            acks=-1,
            timeout_ms=10_000,
            topic_data=[
                TopicProduceData(
                    name=topic, partition_data=[PartitionProduceData(index=index, records=records)]
                )
            ],
        )

    async def try_produce(
        self, topic: str, *values: bytes, api_version: int | None = None, **fields: Any
    ) -> PartitionProduceResponse:
        """Produce one batch and return the row of the response."""
        if api_version is None:
            api_version = 12 if self.version == 2 else 9
        response = await self.client.ask(self.request(topic, *values, **fields), api_version)
        return produced(response)

    async def produce(self, topic: str, *values: bytes, index: int = 0) -> int:
        """Produce one batch, added if need be; return its first offset."""
        if self.version == 1:
            codes = [CONCURRENT_TRANSACTIONS]
            while codes == [CONCURRENT_TRANSACTIONS]:  # Markers of the former transaction are under way.
                codes = await self.add(topic, index)
            assert codes == [0]
        row = await self.try_produce(topic, *values, index=index)
        assert row.error_code == 0
        key = topic, index
        self.sequences[key] = self.sequences.get(key, 0) + len(values)
        return row.base_offset

    async def end(self, *, commit: bool) -> None:
        """End the transaction; with version 2 the next one has another epoch."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        response = await self.client.ask(request, 5 if self.version == 2 else 3)
        assert response.error_code == 0
        if self.version == 2:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self.sequences.clear()


@asynccontextmanager
async def transactional_client(
    node: Node, transactional_id: str = "tid", *, version: int = 1
) -> AsyncIterator[TransactionalClient]:
    """Connect a producer that has its id; the node coordinates and verifies its transactions."""
    node.log_manager.set_transaction_verification(verifies=True)
    if TRANSACTION_STATE_TOPIC not in node.image.topics:
        node.create_topic(TRANSACTION_STATE_TOPIC)
    async with connected(node) as client:
        producer = TransactionalClient(client, transactional_id, version=version)
        await producer.begin()
        yield producer
