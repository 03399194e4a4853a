"""Fetch: read record batches, and wait for them (class `KafkaApis`, KIP-74, KIP-227).

* Partitions are read in request order within one budget; the first one with records gives at least one batch.
  Up to version 3 every partition does, because a part of a batch cannot be converted.
* A fetch without time to wait, without partitions, with enough bytes or with any error is answered at once.
  Otherwise it is parked, and reads again when it is due.
* Record data goes from the segment file to the socket. Versions 0 to 3 cannot carry batches of magic 2: they
  get the older formats, converted on the way; zstd, which those do not have, is UNSUPPORTED_COMPRESSION_TYPE.
* From version 11 on consumers may read from followers, below their high watermark, and a leader with a
  `replica.selector.class` names a replica in their rack (KIP-392).
* A consumer above its quota gets an empty response and a pause, and fetches again; its session stays as it
  was (KIP-219). One fetch never reads more than the quota could ever let through.
* A failed log directory is NOT_LEADER_OR_FOLLOWER in versions that do not know KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.fetch import short_path
from kcli.broker.handlers.fetch.delayed_fetch import DelayedFetch, Fetched
from kcli.broker.handlers.fetch.down_conversion import CONVERTED_BELOW, convert_rows
from kcli.broker.handlers.fetch.wire import UNKNOWN, encode_rows, is_plain
from kcli.broker.network.authorization import authorize_topics, is_cluster_authorized
from kcli.broker.network.request_context import NONE_DENIED
from kcli.broker.replication.fetch_data import (
    FetchedPartition,
    FetchPartition,
    FetchPartitionKey,
    partition_key,
)
from kcli.broker.replication.fetch_session import NO_SESSION
from kcli.broker.replication.replica_manager import FetchParams
from kcli.broker.waiting.timer import monotonic_ms
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from kcli.protocol.schema.declaration import codec
from kcli.protocol.uuids import ZERO_UUID
from kcli.security.acl import Operation
from kcli.storage.log.log_read import Isolation

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine, Iterable

    from kcli.broker.handlers.fetch.wire import ShortFetch
    from kcli.broker.network.client_quotas import Allowance
    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.network.responses import Frame
    from kcli.broker.replication.fetch_session import FetchContext

_ISOLATIONS = {0: Isolation.HIGH_WATERMARK, 1: Isolation.TXN_COMMITTED}
_NO_BYTES = b""
_SIZE_BYTES = 4
ANY_REPLICA_FROM = 11
"""The first version in which consumers may read from followers (KIP-392)."""


def fetch(
    request: FetchRequest | ShortFetch, context: RequestContext
) -> Fetched | Frame | DelayedFetch | Coroutine[None, None, Fetched]:
    """Return records, now or when there are enough."""
    if type(request) is tuple:
        frame = short_path.read(request, context)
        if frame is not None:
            return frame
        request = short_path.in_full(request, context.api_version)
    assert isinstance(request, FetchRequest)
    return _Fetch(request, context).start()


def failed_fetch(request: FetchRequest | ShortFetch, error: KafkaError) -> FetchResponse:
    if type(request) is tuple:
        topic, index = request[:2]
        # One of the two is what the version has.
        topics = [(topic.decode(errors="replace"), topic.ljust(16)[:16], [index])]
    else:
        assert isinstance(request, FetchRequest)
        topics = [
            (each.topic, each.topic_id, [row.partition for row in each.partitions])
            for each in request.topics
            if each.topic_id == ZERO_UUID  # With ids, Kafka names no partition of a request that fails.
        ]
    return FetchResponse(
        error_code=error.code,
        responses=[
            FetchableTopicResponse(
                topic=name,
                topic_id=topic_id,
                partitions=[
                    PartitionData(
                        partition_index=index, error_code=error.code, high_watermark=-1, records=_NO_BYTES
                    )
                    for index in indexes
                ],
            )
            for name, topic_id, indexes in topics
        ],
    )


class _Fetch:
    """One request: its partitions, its reader and its response."""

    def __init__(self, request: FetchRequest, context: RequestContext) -> None:
        broker = context.node
        self._broker = broker
        self._replica_manager = broker.replica_manager
        self._version = context.api_version
        self._listener_name = context.listener_name
        self._replica_id = request.replica_id if self._version < 15 else request.replica_state.replica_id
        self._min_bytes = request.min_bytes
        self._max_wait_ms = request.max_wait_ms
        self._max_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)
        self._context = context
        self._allowance = None if self._replica_id >= 0 else context.allowance
        if self._allowance is not None:
            self._max_bytes = min(self._max_bytes, self._allowance.max_bytes)
            self._min_bytes = min(self._min_bytes, self._max_bytes)
        self._isolation_level = request.isolation_level
        self._reader = self._reader_of(request)
        self._session = self._open_session(request)
        self._denied = NONE_DENIED
        if context.access is not None:
            self._denied = self._authorize()

    def start(self) -> Fetched | DelayedFetch | Coroutine[None, None, Fetched]:
        session = self._session
        if session.error != ErrorCode.NONE:
            return FetchResponse(error_code=session.error, responses=[])
        if self._isolation_level not in _ISOLATIONS and self._must_read_any():
            # Kafka's code, which looks at the level when it begins to read.
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"there is no isolation level {self._isolation_level}"
            )
        rows = self._read()
        if self._max_wait_ms <= 0 or not rows or self._is_due(rows):
            return self._convert_and_respond(rows)
        operation = DelayedFetch(
            self._replica_manager,
            rows,
            min_bytes=self._min_bytes,
            reader=self._reader,
            respond=self._read_and_respond,
        )
        self._broker.purgatory.park(operation, operation.watched_keys, self._max_wait_ms)
        return operation

    def _isolation_of(self, level: int) -> Isolation:
        if self._replica_id >= 0:
            return Isolation.LOG_END
        return _ISOLATIONS.get(level, Isolation.HIGH_WATERMARK)

    def _must_read_any(self) -> bool:
        """Return whether any partition of the session is there, and may be read."""
        topics, denied = self._broker.image.topics, self._denied
        return any(
            (topic := topics.get(each.topic or "")) is not None
            and each.topic not in denied
            and 0 <= each.index < len(topic.partitions)
            for each in self._session.partitions
        )

    def _reader_of(self, request: FetchRequest) -> FetchParams:
        return FetchParams(
            self._isolation_of(request.isolation_level),
            self._replica_id,
            request.replica_state.replica_epoch if self._version >= 15 else -1,
            from_leader_only=self._replica_id >= 0 or self._version < ANY_REPLICA_FROM,
            each_min_one=self._version < CONVERTED_BELOW,
            rack=request.rack_id if self._version >= ANY_REPLICA_FROM else "",
        )

    def _open_session(self, request: FetchRequest) -> FetchContext:
        uses_ids = self._version >= 13
        topic_name = self._replica_manager.topic_name
        wanted: dict[FetchPartitionKey, FetchPartition] = {}
        for topic in request.topics:
            name = topic_name(topic.topic_id) if uses_ids else topic.topic
            topic_id = topic.topic_id if uses_ids else ZERO_UUID
            for each in topic.partitions:
                partition = FetchPartition(
                    name,
                    topic_id,
                    each.partition,
                    each.fetch_offset,
                    each.partition_max_bytes,
                    # Any negative epoch is none.
                    max(each.current_leader_epoch, -1),
                    max(each.last_fetched_epoch, -1),
                    each.log_start_offset,
                )
                wanted[partition_key(name, topic_id, each.partition)] = partition
        forgotten = [
            partition_key(topic.topic, topic.topic_id if uses_ids else ZERO_UUID, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ]
        session = self._broker.fetch_sessions.open(
            request.session_id,
            request.session_epoch,
            wanted,
            forgotten,
            uses_topic_ids=uses_ids,
            privileged=self._replica_id >= 0,
            now_ms=self._broker.wall_ms(),
        )
        if uses_ids:
            for partition in session.partitions:
                if partition.topic is None:  # The metadata may be newer than the session.
                    partition.topic = topic_name(partition.topic_id)
        return session

    def _authorize(self) -> frozenset[str]:
        """Return the topics of the session that the principal may not read."""
        names = [each.topic for each in self._session.partitions if each.topic is not None]
        if self._replica_id < 0:
            return authorize_topics(self._context, Operation.READ, names)
        return (
            NONE_DENIED
            if is_cluster_authorized(self._context, Operation.CLUSTER_ACTION)
            else frozenset(names)
        )

    def _read(self) -> list[FetchedPartition]:
        wanted, denied = self._session.partitions, self._denied
        if not denied:
            return self._replica_manager.read_from_log(wanted, self._reader, self._max_bytes)
        allowed = [each for each in wanted if each.topic not in denied]
        rows = iter(self._replica_manager.read_from_log(allowed, self._reader, self._max_bytes))
        return [
            FetchedPartition(each, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            if each.topic in denied
            else next(rows)
            for each in wanted
        ]

    def _is_due(self, rows: Collection[FetchedPartition]) -> bool:
        size = 0
        for row in rows:
            if row.error_code or row.diverging is not None or row.preferred_read_replica >= 0:
                return True
            size += row.size
        return size >= self._min_bytes

    def _read_and_respond(self) -> Fetched | Coroutine[None, None, Fetched]:
        return self._convert_and_respond(self._read())

    def _convert_and_respond(self, rows: list[FetchedPartition]) -> Fetched | Coroutine[None, None, Fetched]:
        if self._allowance is not None and (pause_ms := self._pause_for(rows, self._allowance)):
            error, session_id = self._session.throttled()
            return FetchResponse(
                throttle_time_ms=pause_ms, error_code=error, session_id=session_id, responses=[]
            )
        if self._version < CONVERTED_BELOW and any(row.size for row in rows):
            return self._respond_later(rows)
        return self._respond(rows)

    async def _respond_later(self, rows: list[FetchedPartition]) -> Fetched:
        with_markers_only = await convert_rows(rows, self._version)
        while with_markers_only:
            wanted = [row.request for row in with_markers_only]
            behind = self._replica_manager.read_from_log(wanted, self._reader, self._max_bytes)
            for row, found in zip(with_markers_only, behind, strict=True):
                row.records, row.size, row.error_code = found.records, found.size, found.error_code
            with_markers_only = await convert_rows(with_markers_only, self._version)
        return self._respond(rows)

    def _pause_for(self, rows: list[FetchedPartition], allowance: Allowance) -> int:
        """Return the milliseconds the client has to pause instead of getting these rows, 0 for none."""
        now_ms = monotonic_ms()
        pause_ms = allowance.take_if_free(self._size_of(self._session.news(rows)), now_ms)
        if pause_ms:
            self._context.mute(pause_ms, now_ms)
        return pause_ms

    def _size_of(self, rows: list[FetchedPartition]) -> int:
        """Return the size of a response before any conversion, as Kafka counts it: length and body."""
        fetched = self._encode(rows, error=ErrorCode.NONE, session_id=NO_SESSION)
        if isinstance(fetched, FetchResponse):
            fetched = codec(FetchResponse, self._version).encode_parts(fetched)
        return _SIZE_BYTES + (len(fetched) if isinstance(fetched, bytes) else sum(map(len, fetched)))

    def _respond(self, rows: list[FetchedPartition]) -> Fetched:
        error, session_id, rows = self._session.answer(rows, self._broker.wall_ms())
        return self._encode(rows, error=error, session_id=session_id)

    def _encode(self, rows: list[FetchedPartition], *, error: ErrorCode, session_id: int) -> Fetched:
        version = self._version
        if is_plain(rows, version):
            return encode_rows(rows, version, error_code=error, session_id=session_id)
        response = FetchResponse(error_code=error, session_id=session_id, responses=[])
        topic: FetchableTopicResponse | None = None
        for row in rows:
            request = row.request
            name = request.topic or ""
            if topic is None or (
                topic.topic_id != request.topic_id if version >= 13 else topic.topic != name
            ):
                topic = FetchableTopicResponse(topic=name, topic_id=request.topic_id, partitions=[])
                response.responses.append(topic)
            topic.partitions.append(self._partition_data(row))
        if version >= 16:
            response.node_endpoints = self._endpoints(rows)
        return response

    def _partition_data(self, row: FetchedPartition) -> PartitionData:
        error_code = row.error_code
        if error_code == ErrorCode.KAFKA_STORAGE_ERROR and self._version <= 5:
            error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        data = PartitionData(
            partition_index=row.request.index,
            error_code=error_code,
            high_watermark=row.high_watermark,
            last_stable_offset=row.last_stable_offset,
            log_start_offset=row.log_start_offset,
            # A slice of a file, which the engine sends as it is.
            records=_NO_BYTES if row.records is None else row.records,  # type: ignore[arg-type]
            preferred_read_replica=row.preferred_read_replica,
        )
        if row.aborted is None:
            if error_code not in UNKNOWN:
                data.aborted_transactions = None
        else:
            data.aborted_transactions = [
                AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
                for each in row.aborted
            ]
        if row.diverging is not None:
            data.diverging_epoch = EpochEndOffset(epoch=row.diverging[0], end_offset=row.diverging[1])
        if row.current_leader is not None and self._version >= 12:
            leader_id, leader_epoch = row.current_leader
            data.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
        return data

    def _endpoints(self, rows: Iterable[FetchedPartition]) -> list[NodeEndpoint]:
        leaders = {row.current_leader[0] for row in rows if row.current_leader is not None}
        if not leaders:
            return []
        return [
            NodeEndpoint(node_id=broker.node_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker, endpoint in self._broker.image.brokers_with_listener(self._listener_name, leaders)
        ]
