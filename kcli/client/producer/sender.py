"""Sender: drains the accumulator into Produce requests, and settles batches by the responses."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from kcli.client.network.backoff import Backoff
from kcli.client.network.bootstrap import AuthenticationFailed, Unreachable
from kcli.client.network.connection import Disconnected
from kcli.client.network.metadata import ANY, STALE_METADATA, NewLeader, Node
from kcli.client.network.retry_warnings import PATIENCE_SECONDS, RetryWarnings, error_text, request_error
from kcli.client.producer.producer_batch import GivenUp
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kcli.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from kcli.protocol.topics import TopicPartition
from kcli.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.client.client import Client
    from kcli.client.config import ProducerConfig
    from kcli.client.network.connection import Connection, NodeVersions
    from kcli.client.network.metadata import ClusterMetadata
    from kcli.client.producer.accumulator import Accumulator
    from kcli.client.producer.partitioner import Partitioner
    from kcli.client.producer.producer_batch import ProducerBatch
    from kcli.client.producer.sequences import Sequences
    from kcli.client.producer.transactions import Transactions
    from kcli.protocol.messages.produce import ProduceResponse


MAX_VERSION_BY_NAME = 12
"""The last Produce version that names topics; later ones need their ids."""

NO_ANSWER = PartitionProduceResponse(index=-1, error_code=-1, base_offset=-1)
"""The result of a partition that the response does not mention."""


FIRST_TV2_VERSION = 12
"""The first Produce version with which the leader adds a partition to its transaction (KIP-890)."""


def produce_request(
    batches: list[ProducerBatch],
    cluster: ClusterMetadata,
    *,
    config: ProducerConfig,
    versions: NodeVersions,
    is_tv2: bool | None = None,
) -> tuple[ProduceRequest, int]:
    """Return the Produce request for built batches, and its version; raise `UnsupportedVersion`.

    `is_tv2` says of a transaction who adds partitions to it.
    """
    topics: dict[str, TopicProduceData] = {}
    has_ids = True
    for batch in batches:
        name, index = batch.partition
        data = topics.get(name)
        if data is None:
            known = cluster.topics.get(name)
            topic_id = known.topic_id if known is not None else ZERO_UUID
            has_ids = has_ids and topic_id != ZERO_UUID
            data = topics[name] = TopicProduceData(name=name, topic_id=topic_id, partition_data=[])
        if batch.data is not None:
            data.partition_data.append(PartitionProduceData(index=index, records=batch.data))
    first, last = 7 if config.compression_type == "zstd" else 3, None if has_ids else MAX_VERSION_BY_NAME
    if is_tv2 is not None:
        first, last = (FIRST_TV2_VERSION, last) if is_tv2 else (first, FIRST_TV2_VERSION - 1)
    version = versions.choose(ProduceRequest, min_version=first, max_version=last)
    request = ProduceRequest(
        transactional_id=config.transactional_id or None,
        acks=config.required_acks,
        timeout_ms=config.request_timeout_ms,
        topic_data=list(topics.values()),
    )
    return request, version


def answers_of(
    request: ProduceRequest, response: ProduceResponse
) -> tuple[dict[tuple[str, int], PartitionProduceResponse], list[NewLeader]]:
    """Return the response of each partition, and the new leaders in it (KIP-951)."""
    names = {data.topic_id: data.name for data in request.topic_data}
    answers: dict[tuple[str, int], PartitionProduceResponse] = {}
    leaders: list[NewLeader] = []
    for topic in response.responses:
        name = topic.name or names.get(topic.topic_id, "")
        for answer in topic.partition_responses:
            answers[name, answer.index] = answer
            leader = answer.current_leader
            if leader.leader_id >= 0:
                partition = TopicPartition(name, answer.index)
                leaders.append(NewLeader(partition, leader.leader_id, leader.leader_epoch))
    return answers, leaders


THREAD_BYTES = 64 * 1024
"""From this size on, a worker thread costs less than the delay of the event loop."""

RETRIED = STALE_METADATA | {ErrorCode.of(code) for code in (2, 7, 14, 15, 16, 19, 20, 75)}
OUT_OF_ORDER = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})


class DeliveryWarnings:
    """Warns of the errors that keep a producer's batches waiting, and keeps the last of each partition."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warnings = RetryWarnings(warn)
        self._last: dict[TopicPartition, tuple[KafkaError, float]] = {}

    def note(self, batch: ProducerBatch, error: KafkaError, *, subject: str | None = None) -> None:
        """Note why a batch waits; the subject of the warning is its partition unless another is given."""
        now = trio.current_time()
        self._last[batch.partition] = error, now
        if batch.delayed_since is None:
            batch.delayed_since = now
        if now >= batch.delayed_since + PATIENCE_SECONDS:
            self._warnings.warn(subject or str(batch.partition), error)

    def note_no_leader(self, batch: ProducerBatch, cluster: ClusterMetadata) -> float:
        """Note that the partition of a batch has no known leader; return when to note it again."""
        if not cluster.nodes:
            error = KafkaError(ErrorCode.NETWORK_EXCEPTION, "no broker can be reached")
            self.note(batch, error, subject="cluster")
        else:
            code = cluster.errors.get(batch.partition.topic, ErrorCode.LEADER_NOT_AVAILABLE)
            self.note(batch, KafkaError(code))
        assert batch.delayed_since is not None
        due = batch.delayed_since + PATIENCE_SECONDS
        return due if due > trio.current_time() else math.inf

    def expired(self, batch: ProducerBatch, timeout_ms: int) -> KafkaError:
        """Return the error of a batch that ran out of time; it names the partition's last error since."""
        error, when = self._last.get(batch.partition, (None, 0.0))
        last = f": {error_text(error)}" if error is not None and when >= batch.created_at else ""
        return KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"not delivered within {timeout_ms} ms{last}")

    def reason(self, batch: ProducerBatch) -> str | None:
        """Return why a batch waits: the last error of its partition since it was created."""
        error, when = self._last.get(batch.partition, (None, 0.0))
        if error is None or when < batch.created_at:
            return None
        return f"{batch.partition}: {error_text(error)}"


class Sender:
    """The task behind a producer.

    One task handles all nodes, and each request in flight has its own. Per node, at most
    `max.in.flight.requests.per.connection` requests are out, and one is built at a time so that a partition's
    batches leave in order. Batches above 64 KiB are compressed in a worker thread.

    | outcome of a batch                       | what follows                                                |
    |------------------------------------------|-------------------------------------------------------------|
    | retriable error, lost connection         | back to the head of its queue, unless retries or time ran   |
    |                                          | out                                                         |
    | 10 with several records                  | split, sent again as smaller batches, no attempt counted    |
    | 46 (the broker has it already)           | success, offset unknown                                     |
    | 45, 59 with sequence numbers             | sent again; if next in line the partition's numbers restart |
    | 47                                       | fails, and the partition's numbers restart                  |
    | 90                                       | the producer is fenced: all batches fail                    |
    | any other error                          | fails with the broker's or the record's text (KIP-467)      |

    In a transaction, 45 and 59 of the batch that is next in line fail it, and a batch that fails leaves only
    the abort; 51, the transaction before is still ending, is sent again.
    """

    def __init__(
        self,
        client: Client,
        config: ProducerConfig,
        *,
        accumulator: Accumulator,
        sequences: Sequences | None,
        partitioner: Partitioner,
        warn: Callable[[str], None],
        transactions: Transactions | None = None,
    ) -> None:
        self.fatal_error: KafkaError | None = None
        self._client = client
        self._transactions = transactions
        self._config = config
        self._accumulator = accumulator
        self._sequences = sequences
        self._partitioner = partitioner
        self._warnings = DeliveryWarnings(warn)
        self._wakeup = trio.Event()
        self._in_flight: dict[int, int] = {}
        self._building: set[int] = set()
        self._connecting: set[int] = set()
        self._is_asking_id = False
        self._delivery_timeout = config.delivery_timeout_ms / 1000
        # Without sequence numbers only one request at a time keeps a partition's order over retries.
        self._mutes = sequences is None and config.max_in_flight_requests_per_connection == 1
        if sequences is not None:
            accumulator.may_drain = sequences.may_drain
            accumulator.on_drain = sequences.number
        if transactions is not None:
            accumulator.may_drain = self._may_drain
            transactions.wake = self.wake
            transactions.drop = self.drop_queued
            transactions.delay_reason = self.delay_reason
        client.cache.listeners.append(self._metadata_changed)

    def wake(self) -> None:
        self._wakeup.set()

    def close(self) -> None:
        """Fail all batches that are not settled, and stop following the metadata."""
        if self._metadata_changed in self._client.cache.listeners:
            self._client.cache.listeners.remove(self._metadata_changed)
        self._fail_all(self.fatal_error or GivenUp())

    def drop_queued(self, error: KafkaError) -> None:
        """Fail the batches that are in no request."""
        for batch in self._accumulator.queued():
            self._accumulator.remove(batch)
            self._fail(batch, error)

    def delay_reason(self) -> str | None:
        """Return why records are not delivered yet: the error of the oldest batch that met one."""
        reasons = map(self._warnings.reason, self._accumulator.incomplete)
        return next((reason for reason in reasons if reason is not None), None)

    def _may_drain(self, batch: ProducerBatch) -> bool:
        transactions, sequences = self._transactions, self._sequences
        assert transactions is not None
        assert sequences is not None
        return transactions.may_drain(batch.partition) and sequences.may_drain(batch)

    def _metadata_changed(self, cluster: ClusterMetadata) -> None:
        self.wake()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                self._wakeup = trio.Event()
                next_look = self._send_what_is_ready(nursery)
                with trio.move_on_at(next_look):
                    await self._wakeup.wait()
                # Several records often arrive together: let their senders run before the next check.
                await trio.lowlevel.checkpoint()

    def _send_what_is_ready(self, nursery: trio.Nursery) -> float:
        now = trio.current_time()
        accumulator = self._accumulator
        next_expiry = self._expire(now)
        if self._transactions is not None:
            self._transactions.add_new(accumulator.queued_partitions)
        elif self._needs_producer_id():
            if not self._is_asking_id and accumulator.incomplete:
                self._is_asking_id = True
                nursery.start_soon(self._ask_producer_id)
            if self._sequences is not None and not self._sequences.has_producer_id:
                return next_expiry
        cluster = self._client.cluster
        for name, sizes in accumulator.queue_sizes():
            topic = cluster.topics.get(name)
            if topic is not None:
                self._partitioner.update_loads(topic, sizes)
        check = accumulator.ready(cluster, now)
        for batch in check.leaderless:
            self._client.want_topic(batch.partition.topic, auto_create=True)
            check.next_check = min(check.next_check, self._warnings.note_no_leader(batch, cluster))
        if check.leaderless:
            self._client.request_metadata_update()
        most = self._config.max_in_flight_requests_per_connection
        for node_id in check.nodes:
            if node_id in self._building or self._in_flight.get(node_id, 0) >= most:
                continue
            link = self._client.links.get(node_id, "produce")
            if link.is_ready and link.connection is not None:
                batches = accumulator.drain(node_id, cluster, self._config.max_request_size, now)
                if batches:
                    self._begin(node_id, batches)
                    nursery.start_soon(self._send, node_id, link.connection, batches)
            elif node_id not in self._connecting:
                self._connecting.add(node_id)
                nursery.start_soon(self._connect, node_id)
        return min(check.next_check, next_expiry)

    def _begin(self, node_id: int, batches: list[ProducerBatch]) -> None:
        self._building.add(node_id)
        self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
        if self._transactions is not None:
            self._transactions.drained()
        if self._mutes:
            self._accumulator.muted.update(batch.partition for batch in batches)

    async def _connect(self, node_id: int) -> None:
        try:
            await self._client.links.get(node_id, "produce").ready()
        except AuthenticationFailed:
            # It would fail again: the producer ends with it.
            raise
        except KcliError as error:
            # The batches wait, at most `delivery.timeout.ms`. The leader may have changed.
            self._client.request_metadata_update()
            for batch in self._accumulator.heads(node_id, self._client.cluster):
                self._warnings.note(batch, request_error(error), subject=f"broker {node_id}")
        finally:
            self._connecting.discard(node_id)
        self.wake()

    def _expire(self, now: float) -> float:
        """Fail the batches that were not delivered in time; return when the next batch expires."""
        for batch in list(self._accumulator.incomplete):
            due = batch.created_at + self._delivery_timeout
            if due > now:
                return due
            self._accumulator.remove(batch)
            self._fail(batch, self._warnings.expired(batch, self._config.delivery_timeout_ms))
        return math.inf

    def _needs_producer_id(self) -> bool:
        sequences = self._sequences
        return sequences is not None and (not sequences.has_producer_id or sequences.last_epoch_is_used)

    async def _ask_producer_id(self) -> None:
        backoff = Backoff.of(self._config)
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        while True:
            try:
                response: InitProducerIdResponse = await self._client.request(ANY, request)
                error = KafkaError(ErrorCode.of(response.error_code))
            except (Disconnected, Unreachable) as away:
                error = request_error(away)
            except KcliError as refused:
                self._abort(KafkaError(ErrorCode.UNSUPPORTED_VERSION, refused.message, hint=refused.hint))
                return
            if error.code is ErrorCode.NONE:
                break
            if not error.code.retriable:
                self._abort(error)
                return
            for batch in self._accumulator.incomplete:
                self._warnings.note(batch, error, subject="producer id")
            await trio.sleep(backoff.next_delay())
        assert self._sequences is not None
        self._sequences.adopt(response.producer_id, response.producer_epoch)
        self._is_asking_id = False
        self.wake()

    def _abort(self, error: KafkaError) -> None:
        self.fatal_error = error
        if self._transactions is not None:
            self._transactions.stop(error)
        self._fail_all(error)

    def _fail_all(self, error: KafkaError) -> None:
        for batch in list(self._accumulator.incomplete):
            self._accumulator.remove(batch)
            self._fail(batch, error)

    async def _send(self, node_id: int, connection: Connection, batches: list[ProducerBatch]) -> None:
        try:
            try:
                await self._build(batches)
                request, version = produce_request(
                    batches,
                    self._client.cluster,
                    config=self._config,
                    versions=connection.versions,
                    is_tv2=None if self._transactions is None else self._transactions.is_tv2,
                )
                acks = self._config.required_acks
                call = await connection.send(
                    request,
                    version,
                    seconds=self._config.request_timeout_ms / 1000,
                    expects_response=acks != 0,
                )
            finally:
                self._building.discard(node_id)
            self.wake()
            response = await call.wait()
        except Disconnected as error:
            lost = request_error(error)
            self._client.request_metadata_update()
            for batch in batches:
                self._retry_or_fail(batch, lost, subject=f"broker {node_id}")
        except KcliError as error:
            # No common version, or records that its version cannot carry: a retry does not help.
            refused = error if isinstance(error, KafkaError) else None
            for batch in batches:
                self._came_back(batch)
                self._fail(batch, refused or KafkaError(ErrorCode.UNSUPPORTED_VERSION, error.message))
        else:
            self._answered(batches, request, response)
        finally:
            self._in_flight[node_id] -= 1
            if self._mutes:
                self._accumulator.muted.difference_update(batch.partition for batch in batches)
            self.wake()

    async def _build(self, batches: list[ProducerBatch]) -> None:
        unbuilt = [batch for batch in batches if batch.data is None]
        sizes = [batch.size for batch in unbuilt]
        if self._config.compression_type != "none" and sum(sizes) >= THREAD_BYTES:
            await trio.to_thread.run_sync(_build_all, batches)
        else:
            _build_all(batches)
        for batch, size in zip(unbuilt, sizes, strict=True):
            self._accumulator.observe_ratio(batch.partition.topic, size, batch.size)

    def _answered(
        self, batches: list[ProducerBatch], request: ProduceRequest, response: ProduceResponse | None
    ) -> None:
        if response is None:
            for batch in batches:
                self._succeed(batch, -1, -1)
            return
        answers, leaders = answers_of(request, response)
        if leaders:
            nodes = [Node(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints]
            self._client.apply_new_leaders(leaders, nodes)
        for batch in batches:
            self._settle(batch, answers.get(batch.partition, NO_ANSWER))

    def _settle(self, batch: ProducerBatch, answer: PartitionProduceResponse) -> None:
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.NONE:
            self._succeed(batch, answer.base_offset, answer.log_append_time_ms)
        elif code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._succeed(batch, -1, -1)
        elif code is ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1 and not batch.is_settled:
            parts = self._accumulator.split(batch, trio.current_time())
            if self._sequences is not None:
                self._sequences.was_split(batch, parts)
                self._sequences.came_back(batch)
        else:
            if code in STALE_METADATA:
                self._client.request_metadata_update()
            error = KafkaError(code, answer.error_message)
            texts = {
                entry.batch_index: entry.batch_index_error_message or error.message
                for entry in answer.record_errors
            }
            self._retry_or_fail(batch, error, texts)

    def _retry_or_fail(
        self,
        batch: ProducerBatch,
        error: KafkaError,
        record_errors: dict[int, str] | None = None,
        *,
        subject: str | None = None,
    ) -> None:
        now = trio.current_time()
        may_pass = self._may_pass(batch, error)
        in_time = now < batch.created_at + self._delivery_timeout
        if may_pass and in_time and not batch.is_settled and batch.attempts < self._config.retries:
            self._warnings.note(batch, error, subject=subject)
            backoff = Backoff.of(self._config)
            backoff.failures = batch.attempts
            batch.retry_at = now + backoff.next_delay()
            batch.attempts += 1
            self._accumulator.put_back(batch)
            self._came_back(batch)
            return
        if may_pass:
            error = KafkaError(error.code, error_text(error), hint=error.hint)
        if error.code is ErrorCode.PRODUCER_FENCED:
            self._came_back(batch)
            self._abort(error)
        self._fail(batch, error, record_errors)
        self._came_back(batch)

    def _may_pass(self, batch: ProducerBatch, error: KafkaError) -> bool:
        """Return whether a batch with an error may succeed when it is sent again."""
        is_gap = False
        if self._sequences is not None and error.code in OUT_OF_ORDER and not batch.is_settled:
            is_gap = self._sequences.out_of_order(batch)
        may_pass = error.code in RETRIED or (self._sequences is not None and error.code in OUT_OF_ORDER)
        if self._transactions is None:
            return may_pass
        is_ending = error.code is ErrorCode.CONCURRENT_TRANSACTIONS
        return self._transactions.may_retry and (is_ending or (may_pass and not is_gap))

    def _succeed(self, batch: ProducerBatch, base_offset: int, log_append_time: int) -> None:
        if self._sequences is not None:
            self._sequences.succeeded(batch)
        if not batch.is_settled:
            self._accumulator.settled(batch)
            batch.succeed(base_offset, log_append_time)
        self._came_back(batch)

    def _fail(
        self, batch: ProducerBatch, error: KafkaError, record_errors: dict[int, str] | None = None
    ) -> None:
        if batch.is_settled:
            return
        self._accumulator.settled(batch)
        if self._sequences is not None and batch.has_sequence:
            self._sequences.failed(batch)
        batch.fail(error, record_errors)
        if self._transactions is not None:
            self._transactions.batch_failed(error)

    def _came_back(self, batch: ProducerBatch) -> None:
        if self._sequences is not None:
            self._sequences.came_back(batch)


def _build_all(batches: list[ProducerBatch]) -> None:
    for batch in batches:
        batch.build()
