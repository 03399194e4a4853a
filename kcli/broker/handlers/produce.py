"""Produce: append producers' batches to the partitions this node leads (class `KafkaApis`).

* acks other than -1, 0 and 1 are refused for every partition. One bad partition never fails its neighbours.
* From version 3 a partition carries exactly one batch of magic 2, zstd from version 7; versions 0 to 2 carry
  message sets of magic 0 and 1, which are converted up.
* acks=-1 waits until the records are on every in-sync replica; what is late is REQUEST_TIMED_OUT, its records
  stay. acks=0 is never answered, and an error closes the connection: the producer has no other sign.
* There is no transaction coordinator, so nothing vouches for a transactional batch: INVALID_TXN_STATE.
* A request above `YIELD_BYTES` lets others run between its partitions.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from trio.lowlevel import checkpoint

from kcli.broker.controller.topic_names import INTERNAL_TOPICS
from kcli.broker.delayed_produce import DelayedProduce, PendingWrite
from kcli.broker.partition import ACKS_ALL
from kcli.broker.request_context import CloseConnection
from kcli.protocol.compression import Codec
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kcli.storage.log_validator import InvalidRecords

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from kcli.broker.request_context import RequestContext
    from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

YIELD_BYTES = 1024 * 1024
MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024
"""What checking one batch may decompress to; a batch that claims more is refused."""

_ADMIN_CLIENT_ID = "__admin_client"
_BATCH_HEAD = Struct(">iibIh")
"""From byte 8: batch length, leader epoch, magic, CRC, attributes."""
_BATCH_HEAD_POSITION = 8
_MIN_BATCH_SIZE = 61
_TRANSACTIONAL = 0x10

Produced = ProduceResponse | DelayedProduce | None


def produce(request: ProduceRequest, context: RequestContext) -> Produced | Coroutine[None, None, Produced]:
    """Append, and answer when `acks` is met."""
    if request.acks not in (-1, 0, 1):
        return failed(request, KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, "acks must be -1, 0 or 1"))
    size = 0
    for topic in request.topic_data:
        for partition in topic.partition_data:
            size += len(partition.records or b"")
    if size > YIELD_BYTES:
        return _produce_in_turns(request, context)
    append = _Append(request, context)
    for topic in request.topic_data:
        for partition in topic.partition_data:
            append.add(topic, partition)
    return append.finish()


async def _produce_in_turns(request: ProduceRequest, context: RequestContext) -> Produced:
    append = _Append(request, context)
    for topic in request.topic_data:
        for partition in topic.partition_data:
            append.add(topic, partition)
            await checkpoint()
    return append.finish()


def failed(request: ProduceRequest, error: KafkaError) -> ProduceResponse | None:
    """Answer with the same error for every partition; None, to close the connection, with acks=0."""
    if request.acks == 0:
        return None
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=partition.index,
                        error_code=error.code,
                        base_offset=-1,
                        error_message=error.message,
                    )
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


class _Append:
    """One request on its way: what was appended, and the response as far as it is known."""

    def __init__(self, request: ProduceRequest, context: RequestContext) -> None:
        self._request = request
        self._context = context
        self._version = context.api_version
        self._replica_manager = context.broker.replica_manager
        self._now_ms = context.broker.wall_ms()
        self._responses: list[TopicProduceResponse] = []
        self._topic: TopicProduceData | None = None
        self._name: str | None = None
        self._rows: list[PartitionProduceResponse] = []
        self._pending: list[PendingWrite] = []
        self._error: KafkaError | None = None
        self._moved_leaders: set[int] = set()

    def add(self, topic: TopicProduceData, data: PartitionProduceData) -> None:
        """Append one partition's records."""
        if topic is not self._topic:
            self._topic = topic
            self._name = topic.name
            if self._version >= 13:
                self._name = self._replica_manager.topic_name(topic.topic_id)
            self._rows = []
            self._responses.append(
                TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=self._rows)
            )
        try:
            row = self._append(data)
        except KafkaError as error:
            row = self._error_row(data.index, error)
        self._rows.append(row)

    def finish(self) -> Produced:
        """Return the response, or the operation that will make it."""
        acks = self._request.acks
        if acks == 0:
            if self._error is not None:
                raise CloseConnection(f"a produce with acks=0 failed: {self._error.message}")
            return None
        response = ProduceResponse(responses=self._responses)
        if self._moved_leaders:
            response.node_endpoints = self._endpoints()
        if self._pending:
            operation = DelayedProduce(self._replica_manager, response, self._pending)
            if not operation.settle():
                keys = [pending.key for pending in self._pending]
                self._context.broker.purgatory.park(operation, keys, max(0, self._request.timeout_ms))
                return operation
        return response

    def _append(self, data: PartitionProduceData) -> PartitionProduceResponse:
        name = self._name
        if name is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
        partition = self._replica_manager.partition(name, data.index)
        records = data.records or b""
        if self._version >= 3:
            _check_one_batch(records, self._version)
        if name in INTERNAL_TOPICS and self._context.client_id != _ADMIN_CLIENT_ID:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"`{name}` is the broker's own")
        acks = self._request.acks
        info = partition.append(
            records,  # type: ignore[arg-type]  # the frame is writable
            acks=acks,
            now_ms=self._now_ms,
            max_decompressed=MAX_DECOMPRESSED_BYTES,
        )
        row = PartitionProduceResponse(
            index=data.index,
            base_offset=info.first_offset,
            log_append_time_ms=info.log_append_time,
            log_start_offset=info.log_start_offset,
        )
        if acks == ACKS_ALL and partition.log.high_watermark <= info.last_offset:
            self._pending.append(PendingWrite(partition.key, info.last_offset + 1, row))
        return row

    def _error_row(self, index: int, error: KafkaError) -> PartitionProduceResponse:
        self._error = error
        row = PartitionProduceResponse(
            index=index, error_code=error.code, base_offset=-1, error_message=error.message
        )
        if isinstance(error, InvalidRecords):
            row.record_errors = [
                BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=why)
                for number, why in error.record_errors
            ]
        if (
            error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            and self._version >= 10
            and self._name is not None
        ):
            leader = self._replica_manager.current_leader(self._name, index)
            if leader is not None:
                row.current_leader = LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
                self._moved_leaders.add(leader[0])
        return row

    def _endpoints(self) -> list[NodeEndpoint]:
        brokers = self._context.broker.image.brokers
        endpoints = []
        for node_id in sorted(self._moved_leaders):
            broker = brokers.get(node_id)
            endpoint = None if broker is None else broker.endpoint(self._context.listener_name)
            if broker is not None and endpoint is not None:
                endpoints.append(
                    NodeEndpoint(node_id=node_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
                )
        return endpoints


def _check_one_batch(records: bytes | bytearray | memoryview, version: int) -> None:
    """Raise `KafkaError` unless `records` is one batch that this version may carry."""
    if len(records) < _MIN_BATCH_SIZE:
        raise KafkaError(ErrorCode.INVALID_RECORD, "there is no record batch")
    length, _, magic, _, attributes = _BATCH_HEAD.unpack_from(records, _BATCH_HEAD_POSITION)
    if magic != 2:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"version {version} carries record batches of magic 2, not {magic}"
        )
    if length + 12 != len(records):
        raise KafkaError(ErrorCode.INVALID_RECORD, f"version {version} carries exactly one whole record batch")
    if attributes & 7 == Codec.ZSTD and version < 7:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs version 7 or later")
    if attributes & _TRANSACTIONAL:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, "there is no transaction coordinator")
