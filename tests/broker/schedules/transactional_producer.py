"""A transactional producer of a simulated cluster, at either level of `transaction.version`."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

import trio

from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kcli.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kcli.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kcli.protocol.messages.end_txn import EndTxnRequest
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.topics import TRANSACTION_STATE_TOPIC, partition_for
from tests.broker.schedules.clients import BACKOFF_SECONDS, REQUEST_SECONDS, RETRIED
from tests.broker.schedules.simulated_cluster import START_MS, Lost

if TYPE_CHECKING:
    from tests.broker.schedules.simulated_cluster import SimulatedCluster

PATIENCE_SECONDS = 120.0
"""How long a call is repeated, in virtual time."""

_GROUP, _TRANSACTIONAL_ID = 0, 1
_RETRIED = RETRIED | {ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS}


class Refused(Exception):
    """An answer that no repetition changes."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class TransactionalProducer:
    """One transactional id; every call is repeated until it has an answer."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        transactional_id: str,
        *,
        is_tv2: bool = True,
        timeout_ms: int = 60_000,
    ) -> None:
        self.transactional_id = transactional_id
        self.is_tv2 = is_tv2
        self.producer_id = self.producer_epoch = -1
        self.codes: list[ErrorCode] = []
        """The errors after which a request was repeated."""
        self._cluster = cluster
        self._nodes = cycle(cluster.cluster.nodes)
        self._timeout_ms = timeout_ms
        self._sequences: dict[tuple[str, int], int] = {}
        self._added: set[tuple[str, int]] = set()

    async def init(self) -> None:
        """Get a producer id and epoch; what the id had open is aborted."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms
        )
        response = await self._ask_coordinator(request, 4)
        self.producer_id, self.producer_epoch = response.producer_id, response.producer_epoch
        self._begin()

    async def send(self, topic: str, index: int, *values: bytes) -> int:
        """Write values in the transaction; return the offset of the first."""
        if not self.is_tv2 and (topic, index) not in self._added:
            await self._ask_coordinator(
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=self.transactional_id,
                    v3_and_below_producer_id=self.producer_id,
                    v3_and_below_producer_epoch=self.producer_epoch,
                    v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[index])],
                ),
                3,
            )
        self._added.add((topic, index))
        sequence = self._sequences.get((topic, index), 0)
        builder = RecordBatchBuilder(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        for value in values:
            builder.append(START_MS + int(trio.current_time() * 1000), None, value)
        row = PartitionProduceData(index=index, records=bytes(builder.build()))
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=1500,
            topic_data=[TopicProduceData(name=topic, partition_data=[row])],
        )

        async def attempt() -> Any:
            leader = self._cluster.controller.image.topics[topic].partitions[index].leader
            if leader < 0:
                raise Lost("the partition has no leader")
            response = await self._cluster.ask(
                leader, request, 12 if self.is_tv2 else 11, seconds=REQUEST_SECONDS
            )
            return response.responses[0].partition_responses[0]

        written = await self._repeat(attempt, done=(ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER))
        self._sequences[topic, index] = sequence + len(values)
        return int(written.base_offset)

    async def send_offset(self, group: str, topic: str, index: int, offset: int) -> None:
        """Commit an offset of a group in the transaction."""
        if not self.is_tv2:
            await self._ask_coordinator(
                AddOffsetsToTxnRequest(
                    transactional_id=self.transactional_id,
                    producer_id=self.producer_id,
                    producer_epoch=self.producer_epoch,
                    group_id=group,
                ),
                3,
            )
        row = TxnOffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=None
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[row])],
        )

        async def attempt() -> Any:
            node_id = await self._find(group, _GROUP)
            response = await self._cluster.ask(
                node_id, request, 5 if self.is_tv2 else 4, seconds=REQUEST_SECONDS
            )
            return response.topics[0].partitions[0]

        await self._repeat(attempt)

    async def end(self, *, commit: bool) -> None:
        """Commit or abort; the answer comes with the decision, before the markers are written."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=commit,
        )
        response = await self._ask_coordinator(request, 5 if self.is_tv2 else 4)
        if self.is_tv2:
            self.producer_id, self.producer_epoch = response.producer_id, response.producer_epoch
            self._begin()
        self._added.clear()

    def _begin(self) -> None:
        self._sequences.clear()
        self._added.clear()

    async def coordinator(self) -> int:
        """Return the node of the coordinator.

        Without the epochs of transaction version 2 a former coordinator, which does not know that it has
        lost its office, could let the next transaction begin in a partition of the last one: it answers
        AddPartitionsToTxn without a record if it knows the partition, as Kafka's does. So such a producer
        asks the controller.
        """
        if not self.is_tv2:
            topic = self._cluster.controller.image.topics.get(TRANSACTION_STATE_TOPIC)
            if topic is not None:
                leader = topic.partitions[partition_for(self.transactional_id, len(topic.partitions))].leader
                if leader < 0:
                    raise Lost("there is no coordinator")
                return leader
        return await self._find(self.transactional_id, _TRANSACTIONAL_ID)

    async def _find(self, key: str, key_type: int) -> int:
        """Return the coordinator of a group or a transactional id, as the nodes tell it."""
        request = FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type)

        async def attempt() -> Any:
            node_id = next(self._nodes)
            response = await self._cluster.ask(node_id, request, 4, seconds=REQUEST_SECONDS)
            return response.coordinators[0]

        return int((await self._repeat(attempt)).node_id)

    async def described(self) -> tuple[str, int]:
        """Return the state of the transaction, and how many partitions lack their marker."""
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])

        async def attempt() -> Any:
            node_id = await self.coordinator()
            response = await self._cluster.ask(node_id, request, 0, seconds=REQUEST_SECONDS)
            return response.transaction_states[0]

        state = await self._repeat(attempt)
        return state.transaction_state, sum(len(topic.partitions) for topic in state.topics)

    async def _ask_coordinator(self, request: object, version: int) -> Any:
        async def attempt() -> Any:
            node_id = await self.coordinator()
            return await self._cluster.ask(node_id, request, version, seconds=REQUEST_SECONDS)

        return await self._repeat(attempt)

    async def _repeat(self, attempt: Any, done: tuple[ErrorCode, ...] = (ErrorCode.NONE,)) -> Any:
        """Return the first answer without an error to repeat. Raises `Refused`, and `TooSlowError`."""
        with trio.fail_after(PATIENCE_SECONDS):
            while True:
                try:
                    answer = await attempt()
                except (Lost, KcliError):
                    await trio.sleep(BACKOFF_SECONDS)
                    continue
                code = _code_of(answer)
                if code in done:
                    return answer
                if code not in _RETRIED:
                    raise Refused(code)
                self.codes.append(code)
                await trio.sleep(BACKOFF_SECONDS)


def _code_of(answer: Any) -> ErrorCode:
    """Return the error of a response: that of its only partition, if it has one for each."""
    rows = getattr(answer, "results_by_topic_v3_and_below", None)
    if rows:
        return ErrorCode.of(rows[0].results_by_partition[0].partition_error_code)
    return ErrorCode.of(answer.error_code)
