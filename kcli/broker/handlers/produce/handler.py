"""Produce: append batches of producers to the partitions that this node leads (class `KafkaApis`).

* acks other than -1, 0 and 1 are refused for every partition that is there and has a batch to append. One bad
  partition never fails its neighbours. Of a partition that is there twice, the last batch counts.
* From version 3 a partition carries exactly one batch of magic 2, zstd from version 7; versions 0 to 2 carry
  message sets of magic 0 and 1, which are converted up.
* acks=-1 waits until the records are on every in-sync replica; after the timeout the error is
  REQUEST_TIMED_OUT, but the records stay. acks=0 gets no response, and an error closes the connection.
* With `flush.messages` the response waits until the records are on disk.
* A transactional batch in a request without a transactional id fails the whole request with
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED. The first batch of a transaction on a partition waits for the word of
  its coordinator (`TransactionalBatches`); the connection handles no other request meanwhile.
* A request above `YIELD_BYTES` lets others run between its partitions; records that take long to read or to
  write are read and written in threads (`LongReading`, `LongWriting`).
"""

from __future__ import annotations

from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Any

from trio.lowlevel import checkpoint

from kcli.broker.handlers.produce import short_path
from kcli.broker.handlers.produce.refusals import (
    check_one_batch,
    explain,
    failed_produce,
    has_transactional_batch,
    is_transactional,
    last_batches,
    refused_row,
)
from kcli.broker.handlers.produce.slow_batches import (
    LOOP_DECOMPRESSED_BYTES,
    WRITTEN_ON_LOOP_BYTES,
    YIELD_BYTES,
    LongReading,
    LongWriting,
    OtherWriting,
    must_read_long,
)
from kcli.broker.handlers.produce.transactional_batches import AwaitedVerification, TransactionalBatches
from kcli.broker.handlers.produce.wire import TOPIC_IDS_FROM, ProduceData, encode_rows
from kcli.broker.network.authorization import authorize_topics, authorize_transactional_id
from kcli.broker.network.request_context import NONE_DENIED, CloseConnection
from kcli.broker.network.responses import DelayedResponse, Frame, once_settled
from kcli.broker.replication.partition import ACKS_ALL
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kcli.protocol.records.record import NO_PRODUCER_ID
from kcli.protocol.topics import INTERNAL_TOPICS
from kcli.security.acl import Operation
from kcli.storage.log.log_validator import TooMuchToRead

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator, Iterator

    from kcli.broker.handlers.produce.wire import Row, ShortProduce, Topic
    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.replication.partition import Partition
    from kcli.broker.replication.replica_manager import ReplicaManager
    from kcli.protocol.topics import TopicPartition
    from kcli.storage.log.log_appender import LogAppendInfo
    from kcli.storage.producers.producer_guards import ProducerGuard

    _Place = tuple[str | None, int, list[tuple[int, memoryview | None]], int]
    """Topic, partition, the records by partition, and their number there."""

__all__ = ["failed_produce", "produce"]


class PendingWrite:
    """One partition of an acks=all write; the high watermark has to reach `required_offset`."""

    __slots__ = ("key", "required_offset", "row")

    def __init__(self, key: TopicPartition, required_offset: int, row: PartitionProduceResponse) -> None:
        self.key = key
        self.required_offset = required_offset
        self.row = row
        row.error_code = ErrorCode.REQUEST_TIMED_OUT

    def settle(self, manager: ReplicaManager) -> bool:
        try:
            code = manager.partition(*self.key).replication_error(self.required_offset)
        except KafkaError as error:
            code = error.code
        if code is None:
            return False
        self.row.error_code = code
        if code != ErrorCode.NONE:
            self.row.base_offset = -1
        return True


_ADMIN_CLIENT_ID = "__admin_client"
_PRODUCER_ID = Struct(">q")
_PRODUCER_ID_POSITION = 43
_MIN_BATCH_SIZE = 61
_NO_RECORDS = memoryview(bytearray())
LEADERS_FROM = 10
"""The first version whose response can name the leader (KIP-951)."""

SlowWork = LongReading | LongWriting | OtherWriting | AwaitedVerification
Produced = ProduceResponse | DelayedResponse[ProduceResponse] | bytes | Frame | None


def produce(
    request: ProduceData | ShortProduce, context: RequestContext
) -> Produced | Coroutine[Any, Any, Produced]:
    """Append the records; the response waits for `acks`."""
    reads_long = False
    if type(request) is tuple:
        try:
            response = short_path.append(request, context)
        except TooMuchToRead:
            response, reads_long = None, True
        if response is not None:
            return response
        request = short_path.in_full(request)
    assert isinstance(request, ProduceData)
    transaction = None
    if has_transactional_batch(request):
        if request.transactional_id is None:
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "a transactional batch in a request without a transactional id",
            )
        authorize_transactional_id(context, Operation.WRITE, request.transactional_id)
        transaction = TransactionalBatches(request.transactional_id, context)
    append = _Append(request, context, transaction, reads_long=reads_long)
    steps = append.steps()
    if request.size > YIELD_BYTES:
        return _produce_in_turns(append, steps)
    for work in steps:
        if work is not None:
            return _produce_in_turns(append, steps, work)
    return append.flush_and_finish() if append.to_flush else append.finish()


async def _produce_in_turns(
    append: _Append, steps: Iterator[SlowWork | None], work: SlowWork | None = None
) -> Produced:
    if work is not None:
        await work.run()
    for work in steps:
        if work is not None:
            await work.run()
        else:
            await checkpoint()
    return await append.flush_and_finish()


class _Append:
    """One request in full: its partitions, the rows of its response and the errors."""

    __slots__ = (
        "_context",
        "_denied",
        "_errors",
        "_now_ms",
        "_pending",
        "_reads_long",
        "_replica_manager",
        "_request",
        "_rows",
        "_transaction",
        "_version",
        "to_flush",
    )

    def __init__(
        self,
        request: ProduceData,
        context: RequestContext,
        transaction: TransactionalBatches | None,
        *,
        reads_long: bool,
    ) -> None:
        request.topics = last_batches(request.topics)
        self._request = request
        self._transaction = transaction
        self._reads_long = reads_long
        self._context = context
        self._version = context.api_version
        self._replica_manager = context.node.replica_manager
        self._now_ms = context.node.wall_ms()
        self._rows: list[tuple[str, bytes, list[Row]]] = []
        self._errors: dict[tuple[int, int], KafkaError] = {}
        self._pending: list[tuple[int, int, Partition, int]] = []
        self.to_flush: list[tuple[int, int, Partition]] = []
        """The rows that wait until their partition is on disk."""
        self._denied = NONE_DENIED
        if context.access is not None:
            names = (name for topic in request.topics if (name := self._name(topic)) is not None)
            self._denied = authorize_topics(context, Operation.WRITE, names)

    def steps(self) -> Iterator[SlowWork | None]:
        """Append partition by partition; yield work that has to run before the next step."""
        transaction, guard = self._transaction, None
        if transaction is not None:
            yield from self._verify(transaction)
        for number, topic in enumerate(self._request.topics):
            name, topic_id, partitions = topic
            known = self._name(topic)
            rows: list[Row] = []
            self._rows.append((name, topic_id, rows))
            for index, records in partitions:
                log_start = -1
                try:
                    partition = self._check(known, index, records)
                    if transaction is not None:
                        guard = transaction.guard_of(partition.key)
                    log_start = partition.log.log_start_offset
                    place = known, index, partitions, len(rows)
                    if partition.writing is None and not self._must_wait(records or _NO_RECORDS):
                        try:
                            info = self._append(partition, records or _NO_RECORDS, guard)
                        except TooMuchToRead:
                            info = yield from self._append_slowly(place, guard)
                    else:
                        info = yield from self._append_slowly(place, guard)
                    row = self._appended(partition, index, info, number, len(rows))
                except KafkaError as error:
                    self._errors[number, len(rows)] = error.detached()
                    row = refused_row(index, error, log_start)
                rows.append(row)
                yield None

    def _verify(self, transaction: TransactionalBatches) -> Iterator[SlowWork]:
        """Have the batches verified that will not be refused anyway."""
        batches = []
        for topic in self._request.topics:
            for index, records in topic[2]:
                if records is not None and is_transactional(records):
                    with suppress(KafkaError):  # It is refused when its turn comes.
                        batches.append((self._check(self._name(topic), index, records), records))
        verification = transaction.begin(batches)
        if verification is not None:
            if not verification.ended:
                if self._request.size <= YIELD_BYTES:
                    self._request.copy_records()
                yield AwaitedVerification(verification, self._replica_manager.purgatory)
            transaction.take(verification)

    def _must_wait(self, records: memoryview) -> bool:
        """Return whether a thread has to read or to write the records."""
        return self._reads_long or len(records) > WRITTEN_ON_LOOP_BYTES or must_read_long(records)

    def _name(self, topic: Topic) -> str | None:
        """Return the name of a topic, None for an id that names none."""
        name, topic_id, _ = topic
        return self._replica_manager.topic_name(topic_id) if self._version >= TOPIC_IDS_FROM else name

    def _append_slowly(
        self, place: _Place, guard: ProducerGuard | None
    ) -> Generator[SlowWork, None, LogAppendInfo]:
        """Append to one partition, with threads to read and to write what takes long."""
        name, index, partitions, number = place
        if self._request.size <= YIELD_BYTES:
            self._request.copy_records()
        records = partitions[number][1] or _NO_RECORDS
        partition = self._check(name, index, records)
        reading = LongReading(partition.log.validator, records, self._now_ms)
        yield reading
        validated = reading.result()
        partition = self._check(name, index, records)
        while partition.writing is not None:
            yield OtherWriting(partition.writing)
            partition = self._check(name, index, records)
        acks = self._request.acks
        if len(validated.data) <= WRITTEN_ON_LOOP_BYTES:
            return partition.append_validated(validated, acks=acks, now_ms=self._now_ms, guard=guard)
        writing = LongWriting(partition, validated, acks, self._now_ms, guard)
        yield writing
        return writing.result()

    def _check(self, name: str | None, index: int, records: memoryview | None) -> Partition:
        """Return the partition. Raises `KafkaError` for refusals that do not depend on its log."""
        if name is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
        if name in self._denied:
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = self._replica_manager.partition(name, index)
        if self._version >= 3:
            check_one_batch(records or _NO_RECORDS, self._version)
        if self._request.acks not in (-1, 0, 1):
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, "acks must be -1, 0 or 1")
        if name in INTERNAL_TOPICS and self._context.client_id != _ADMIN_CLIENT_ID:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"`{name}` is the broker's own")
        return partition

    def _append(
        self, partition: Partition, records: memoryview, guard: ProducerGuard | None
    ) -> LogAppendInfo:
        acks, now_ms = self._request.acks, self._now_ms
        if guard is None:
            return partition.append(
                records, acks=acks, now_ms=now_ms, max_decompressed=LOOP_DECOMPRESSED_BYTES
            )
        validated = partition.log.validator.validate(
            records, now_ms=now_ms, max_decompressed=LOOP_DECOMPRESSED_BYTES
        )
        return partition.append_validated(validated, acks=acks, now_ms=now_ms, guard=guard)

    def _appended(
        self, partition: Partition, index: int, info: LogAppendInfo, topic_number: int, number: int
    ) -> Row:
        if self._request.acks == ACKS_ALL and partition.log.high_watermark <= info.last_offset:
            self._pending.append((topic_number, number, partition, info.last_offset + 1))
        if partition.log.must_flush:
            self.to_flush.append((topic_number, number, partition))
        return index, 0, info.first_offset, info.log_append_time, info.log_start_offset

    async def flush_and_finish(self) -> Produced:
        """Wait for the disk if `flush.messages` demands it, then finish."""
        for topic_number, number, partition in self.to_flush:
            try:
                await self._replica_manager.group_commit.flush(partition.log)
            except KafkaError as error:
                rows = self._rows[topic_number][2]
                self._errors[topic_number, number] = error.detached()
                rows[number] = refused_row(rows[number][0], error, -1)
        return self.finish()

    def finish(self) -> Produced:
        """Return the response, or the operation that will make it."""
        if self._request.acks == 0:
            for error in self._errors.values():
                raise CloseConnection(f"a produce with acks=0 failed: {error.message}")
            return None
        if not self._errors and not self._pending:
            return encode_rows(self._rows, self._version)
        response = self._response()
        writes = [
            PendingWrite(partition.key, offset, response.responses[topic_number].partition_responses[number])
            for topic_number, number, partition, offset in self._pending
        ]
        return once_settled(
            self._replica_manager,
            response,
            pending=writes,
            timeout_ms=self._request.timeout_ms,
            lets_pass=self._lets_pass(),
        )

    def _lets_pass(self) -> bool:
        """Return whether the next writes of the connection may be appended before this one is answered.

        Not those of idempotent producers: if a leader is lost with several unanswered batches in its log, its
        successor could take a later batch before the first is repeated, and would no longer know the first,
        which is then written twice or refused. Kafka reads no request before the response to the one before.
        """
        return all(
            _producer_id(records) == NO_PRODUCER_ID
            for _, _, partitions in self._request.topics
            for _, records in partitions
        )

    def _response(self) -> ProduceResponse:
        topics = [
            TopicProduceResponse(
                name=name,
                topic_id=topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=index,
                        error_code=error_code,
                        base_offset=base_offset,
                        log_append_time_ms=log_append_time,
                        log_start_offset=log_start_offset,
                    )
                    for index, error_code, base_offset, log_append_time, log_start_offset in rows
                ],
            )
            for name, topic_id, rows in self._rows
        ]
        moved_leaders: set[int] = set()
        for (topic_number, number), error in self._errors.items():
            topic = topics[topic_number]
            row = topic.partition_responses[number]
            explain(row, error)
            if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER and self._version >= LEADERS_FROM:
                leader = self._leader_of(topic, row.index)
                if leader is not None:
                    row.current_leader = LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
                    moved_leaders.add(leader[0])
        response = ProduceResponse(responses=topics)
        if moved_leaders:
            response.node_endpoints = self._endpoints(moved_leaders)
        return response

    def _leader_of(self, topic: TopicProduceResponse, index: int) -> tuple[int, int] | None:
        manager = self._replica_manager
        name = manager.topic_name(topic.topic_id) if self._version >= TOPIC_IDS_FROM else topic.name
        return None if name is None else manager.current_leader(name, index)

    def _endpoints(self, node_ids: set[int]) -> list[NodeEndpoint]:
        image, listener_name = self._context.node.image, self._context.listener_name
        return [
            NodeEndpoint(node_id=broker.node_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker, endpoint in image.brokers_with_listener(listener_name, node_ids)
        ]


def _producer_id(records: memoryview | None) -> int:
    """Return the producer id of a batch; any number in formats without one."""
    if records is None or len(records) < _MIN_BATCH_SIZE:
        return NO_PRODUCER_ID
    producer_id: int = _PRODUCER_ID.unpack_from(records, _PRODUCER_ID_POSITION)[0]
    return producer_id
