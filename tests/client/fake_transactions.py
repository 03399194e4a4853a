"""Fake brokers with a coordinator of transactions that keeps state: what was committed, aborted, and is open.

Without `transaction.version` 2 it refuses batches of partitions that nobody added, as leaders do.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import trio

from kcli.client.client import Client, connect
from kcli.client.config import ProducerConfig
from kcli.client.producer.producer import Producer
from kcli.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kcli.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kcli.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kcli.protocol.messages.produce import ProduceRequest, ProduceResponse
from kcli.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kcli.protocol.records.batch import RecordBatch
from tests.client.fake_brokers import FakeBrokers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TRANSACTIONAL = (
    InitProducerIdRequest, AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, TxnOffsetCommitRequest,
    ProduceRequest, EndTxnRequest,
)  # fmt: skip


@dataclass
class FakeTransaction:
    """A transactional id, and its open transaction."""

    producer_id: int
    epoch: int = 0
    last_epoch: int = -1
    """The epoch before: a request with it is one whose answer was lost."""
    last_end: bool | None = None
    """Whether the transaction before was committed, None if there was none in this epoch."""
    partitions: set[tuple[str, int]] = field(default_factory=set)
    values: list[bytes] = field(default_factory=list)
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    is_open: bool = False


class TransactionalBrokers(FakeBrokers):
    """Brokers whose coordinator is the first of them."""

    def __init__(self, nursery: trio.Nursery, *, level: int, nodes: int = 1) -> None:
        super().__init__(nursery, nodes=nodes, topics={"orders": 3})
        self.features = {"transaction.version": level} if level else {}
        self.ids: dict[str, FakeTransaction] = {}
        self.committed: list[bytes] = []
        self.aborted: list[bytes] = []
        self.offsets: dict[tuple[str, int], int] = {}
        self.ends: list[str] = []

    @property
    def calls(self) -> list[str]:
        """What was asked about transactions: names of requests, with their versions."""
        return [
            f"{type(entry.request).__name__.removesuffix('Request')} {entry.version}"
            for entry in self.requests
            if isinstance(entry.request, TRANSACTIONAL)
            or (isinstance(entry.request, FindCoordinatorRequest) and entry.request.key_type == 1)
        ]

    def _end(self, known: FakeTransaction, *, is_commit: bool) -> None:
        (self.committed if is_commit else self.aborted).extend(known.values)
        if is_commit:
            self.offsets.update(known.offsets)
        self.ends.append("commit" if is_commit else "abort")
        known.partitions, known.values, known.offsets, known.is_open = set(), [], {}, False

    def _InitProducerIdRequest(self, node_id: int, request: Any, version: int) -> InitProducerIdResponse:
        if request.transactional_id is None:
            return super()._InitProducerIdRequest(node_id, request, version)
        known = self.ids.get(request.transactional_id)
        if known is None:
            self.next_producer_id += 1
            known = self.ids[request.transactional_id] = FakeTransaction(self.next_producer_id - 1, -1)
        elif request.producer_id >= 0 and request.producer_epoch == known.last_epoch:
            return InitProducerIdResponse(producer_id=known.producer_id, producer_epoch=known.epoch)
        elif request.producer_id >= 0 and request.producer_epoch != known.epoch:
            return InitProducerIdResponse(error_code=90, producer_epoch=-1)
        if known.is_open:
            self._end(known, is_commit=False)
        known.last_epoch = known.epoch if request.producer_id >= 0 else -1
        known.last_end = None
        known.epoch += 1
        return InitProducerIdResponse(producer_id=known.producer_id, producer_epoch=known.epoch)

    def _checked(self, request: Any) -> FakeTransaction | int:
        """Return the open transaction of a request, or an error code."""
        known = self.ids.get(request.transactional_id)
        if known is None or known.producer_id != request.producer_id:
            return 49
        return known if known.epoch == request.producer_epoch else 90

    def _AddPartitionsToTxnRequest(
        self, node_id: int, request: AddPartitionsToTxnRequest, version: int
    ) -> AddPartitionsToTxnResponse:
        known = self.ids[request.v3_and_below_transactional_id]
        code = 0 if known.epoch == request.v3_and_below_producer_epoch else 90
        if not code:
            known.is_open = True
        results = []
        for topic in request.v3_and_below_topics:
            rows = []
            for index in topic.partitions:
                if not code:
                    known.partitions.add((topic.name, index))
                rows.append(
                    AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                )
            results.append(AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=rows))
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)

    def _AddOffsetsToTxnRequest(self, node_id: int, request: Any, version: int) -> AddOffsetsToTxnResponse:
        known = self._checked(request)
        if isinstance(known, int):
            return AddOffsetsToTxnResponse(error_code=known)
        known.is_open = True
        known.partitions.add(("__consumer_offsets", 0))
        return AddOffsetsToTxnResponse()

    def _TxnOffsetCommitRequest(self, node_id: int, request: Any, version: int) -> TxnOffsetCommitResponse:
        known = self._checked(request)
        code = known if isinstance(known, int) else 0
        if not isinstance(known, int):
            if version < 5 and ("__consumer_offsets", 0) not in known.partitions:
                code = 48
            known.is_open = True
        topics = []
        for topic in request.topics:
            rows = []
            for row in topic.partitions:
                if not code and not isinstance(known, int):
                    known.offsets[topic.name, row.partition_index] = row.committed_offset
                rows.append(
                    TxnOffsetCommitResponsePartition(partition_index=row.partition_index, error_code=code)
                )
            topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=rows))
        return TxnOffsetCommitResponse(topics=topics)

    def _EndTxnRequest(self, node_id: int, request: Any, version: int) -> EndTxnResponse:
        known = self.ids.get(request.transactional_id)
        is_again = known is not None and version >= 5 and request.producer_epoch == known.last_epoch
        if known is not None and is_again and known.last_end is request.committed:
            return EndTxnResponse(producer_id=known.producer_id, producer_epoch=known.epoch)
        known_or_code = self._checked(request)
        if isinstance(known_or_code, int):
            return EndTxnResponse(error_code=known_or_code)
        known = known_or_code
        if not known.is_open and (version < 5 or request.committed):
            return EndTxnResponse(error_code=0 if known.last_end is request.committed else 48)
        self._end(known, is_commit=request.committed)
        known.last_end = request.committed
        if version < 5:
            return EndTxnResponse()
        known.last_epoch = known.epoch
        known.epoch += 1
        return EndTxnResponse(producer_id=known.producer_id, producer_epoch=known.epoch)

    def _ProduceRequest(self, node_id: int, request: ProduceRequest, version: int) -> ProduceResponse | None:
        if request.transactional_id is None:
            return super()._ProduceRequest(node_id, request, version)
        known = self.ids[request.transactional_id]
        codes: dict[tuple[str, int], int] = {}
        for topic in request.topic_data:
            for data in topic.partition_data:
                place = (self._name(topic), data.index)
                assert data.records is not None
                batch = RecordBatch(bytearray(data.records))
                assert batch.is_transactional
                if batch.producer_epoch != known.epoch:
                    codes[place] = 47
                elif version < 12 and place not in known.partitions:
                    codes[place] = 48
                else:
                    known.is_open = True
                    known.partitions.add(place)
        if codes:
            # The leaders append nothing: as if another node led them all.
            answer = super()._ProduceRequest(-1, request, version)
            assert answer is not None
            for described in answer.responses:
                for row in described.partition_responses:
                    row.error_code = codes.get((self._name(described), row.index), 47)
            return answer
        answer = super()._ProduceRequest(node_id, request, version)
        assert answer is not None
        taken = {
            (self._name(described), row.index): row.error_code
            for described in answer.responses
            for row in described.partition_responses
        }
        for topic in request.topic_data:
            for data in topic.partition_data:
                if not taken[self._name(topic), data.index]:
                    batch = RecordBatch(bytearray(data.records or b""))
                    known.values += [record.value or b"" for record in batch.records()]
        return answer


@asynccontextmanager
async def transactional_cluster(
    level: int = 2, *, nodes: int = 1
) -> AsyncIterator[tuple[TransactionalBrokers, Client]]:
    """Brokers in memory with a level of `transaction.version`, and a client connected to them."""
    async with trio.open_nursery() as nursery:
        brokers = TransactionalBrokers(nursery, level=level, nodes=nodes)
        async with connect("broker-1", open_stream=brokers.open_stream) as client:
            yield brokers, client
        nursery.cancel_scope.cancel()


def transactional(client: Client, **settings: Any) -> Producer:
    """Return a producer with the transactional id `me`."""
    return Producer(client, ProducerConfig(transactional_id="me", **settings))
