"""The clients of a simulated cluster: idempotent producers with acks=all, and a consumer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.uuids import ZERO_UUID
from tests.broker.schedules.simulated_cluster import START_MS, Lost

if TYPE_CHECKING:
    from random import Random

    from tests.broker.schedules.simulated_cluster import SimulatedCluster

TOPIC = "orders"
BACKOFF_SECONDS = 0.1
REQUEST_SECONDS = 2.0

RETRIED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)


class Violation(AssertionError):
    """A broken invariant."""


class View:
    """A client's view of the leaders: never older than before (KIP-320)."""

    def __init__(self, random: Random, nodes: int) -> None:
        self._random = random
        self._nodes = nodes
        self._leaders: dict[int, tuple[int, int]] = {}

    def leader(self, partition: int) -> tuple[int, int] | None:
        """Return (leader, leader epoch), None without a leader."""
        found = self._leaders.get(partition)
        return None if found is None or found[0] < 0 else found

    async def refresh(self, cluster: SimulatedCluster) -> None:
        """Ask any node."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=TOPIC, topic_id=ZERO_UUID)], allow_auto_topic_creation=False
        )
        node_id = self._random.randint(1, self._nodes)
        try:
            response = await cluster.ask(node_id, request, 12, seconds=REQUEST_SECONDS)
        except Lost:
            await trio.sleep(BACKOFF_SECONDS)
            return
        for row in response.topics[0].partitions:
            known = self._leaders.get(row.partition_index, (-1, -1))
            if row.leader_epoch >= known[1]:
                self._leaders[row.partition_index] = (row.leader_id, row.leader_epoch)


@dataclass
class Producer:
    """An idempotent producer of one partition, with one batch under way, that never gives up."""

    name: str
    partition: int
    random: Random
    view: View
    think_seconds: float
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = 0
    sent: int = 0
    acknowledged: dict[str, int] = field(default_factory=dict)
    """Value -> offset, -1 where the answer was that it is there already."""
    pending: list[str] = field(default_factory=list)
    enough: bool = False

    async def run(self, cluster: SimulatedCluster) -> None:
        """Produce until there is enough, and the last batch is acknowledged."""
        while self.producer_id < 0:
            await self._introduce(cluster)
        while self.pending or not self.enough:
            if not self.pending:
                self.pending = [f"{self.name}:{self.sent + n}" for n in range(self.random.randint(1, 3))]
                self.sent += len(self.pending)
            if await self._send(cluster):
                await trio.sleep(self.random.expovariate(1 / self.think_seconds))

    async def _introduce(self, cluster: SimulatedCluster) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
        try:
            node_id = self.random.randint(1, 3)
            response = await cluster.ask(node_id, request, 4, seconds=REQUEST_SECONDS)
        except Lost:
            response = None
        if response is None or response.error_code:
            await trio.sleep(BACKOFF_SECONDS)
        else:
            self.producer_id, self.producer_epoch = response.producer_id, response.producer_epoch

    async def _send(self, cluster: SimulatedCluster) -> bool:
        leader = self.view.leader(self.partition)
        if leader is None:
            await self._back_off(cluster)
            return False
        try:
            response = await cluster.ask(leader[0], self._request(), 9, seconds=REQUEST_SECONDS)
        except Lost:
            await self._back_off(cluster)
            return False
        row = response.responses[0].partition_responses[0]
        code = ErrorCode.of(row.error_code)
        if code in RETRIED:
            await self._back_off(cluster)
            return False
        if code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            raise Violation(f"{self.name} got {code.name} for sequence {self.sequence} from node {leader[0]}")
        for number, value in enumerate(self.pending):
            self.acknowledged[value] = row.base_offset + number if row.base_offset >= 0 else -1
        self.sequence += len(self.pending)
        self.pending = []
        return True

    def _request(self) -> ProduceRequest:
        builder = RecordBatchBuilder(
            producer_id=self.producer_id, producer_epoch=self.producer_epoch, base_sequence=self.sequence
        )
        for value in self.pending:
            builder.append(START_MS + int(trio.current_time() * 1000), None, value.encode())
        row = PartitionProduceData(index=self.partition, records=bytes(builder.build()))
        return ProduceRequest(
            acks=-1, timeout_ms=1500, topic_data=[TopicProduceData(name=TOPIC, partition_data=[row])]
        )

    async def _back_off(self, cluster: SimulatedCluster) -> None:
        await trio.sleep(BACKOFF_SECONDS)
        await self.view.refresh(cluster)


@dataclass
class Consumer:
    """A reader of one partition, from the beginning, that keeps all values."""

    partition: int
    view: View
    seen: list[str] = field(default_factory=list)
    """What it read, by offset."""

    async def run(self, cluster: SimulatedCluster) -> None:
        """Read until cancelled."""
        while True:
            leader = self.view.leader(self.partition)
            if leader is None or not await self._fetch(cluster, leader):
                await trio.sleep(BACKOFF_SECONDS)
                await self.view.refresh(cluster)

    async def _fetch(self, cluster: SimulatedCluster, leader: tuple[int, int]) -> bool:
        offset = len(self.seen)
        row = FetchPartition(
            partition=self.partition,
            current_leader_epoch=leader[1],
            fetch_offset=offset,
            partition_max_bytes=1 << 20,
        )
        request = FetchRequest(
            max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=[row])]
        )
        try:
            response = await cluster.ask(leader[0], request, 11, seconds=REQUEST_SECONDS)
        except Lost:
            return False
        answer = response.responses[0].partitions[0]
        code = ErrorCode.of(answer.error_code)
        if code in RETRIED:
            return False
        if code is not ErrorCode.NONE:
            raise Violation(f"a reader of partition {self.partition} at {offset} got {code.name}")
        for batch in iter_batches(answer.records or b""):
            assert isinstance(batch, RecordBatch)
            for record in batch.records():
                if record.offset < len(self.seen):
                    continue  # A batch may begin before the position.
                if record.offset >= answer.high_watermark:
                    raise Violation(
                        f"offset {record.offset} came, the high watermark is {answer.high_watermark}"
                    )
                if record.offset != len(self.seen):
                    raise Violation(f"offset {len(self.seen)} is missing before {record.offset}")
                self.seen.append(bytes(record.value or b"").decode())
        return True
