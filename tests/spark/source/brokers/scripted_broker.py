"""ScriptedBroker: one partition served on loopback, that answers as a test says.

It knows ApiVersions, Metadata, ListOffsets, OffsetForLeaderEpoch, DescribeLogDirs and Fetch. `script` holds
what the next fetches get instead of the truth: a function from the request and the truthful answer to a
response, to bytes of a frame, or to None, which closes the connection. `fetches` remembers every fetch.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.frames import encode_response, parse_request_header
from kcli.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kcli.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kcli.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kcli.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kcli.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kcli.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.control_records import ControlRecordType, EndTxnMarker, end_txn_batch
from kcli.protocol.schema.declaration import codec, message_info

REQUESTS = {
    message_info(request).key: request
    for request in (
        ApiVersionsRequest,
        MetadataRequest,
        ListOffsetsRequest,
        OffsetForLeaderEpochRequest,
        DescribeLogDirsRequest,
        FetchRequest,
    )
}
TOPIC = "t"
TOPIC_ID = bytes(range(16))
SIZE = struct.Struct(">i")

Script = Callable[[FetchRequest, FetchResponse], FetchResponse | bytes | None]


class ScriptedBroker:
    """A broker of `node_id`; several of them with the same `peers` are a cluster led by `leader[0]`."""

    def __init__(
        self,
        batches: Sequence[bytes] = (),
        *,
        node_id: int = 1,
        peers: list[ScriptedBroker] | None = None,
        leader: list[int] | None = None,
        max_fetch_version: int = 18,
        max_epoch_version: int = 4,
        log_start: int = 0,
    ) -> None:
        self.batches = list(batches)
        self.node_id = node_id
        self.peers = [self] if peers is None else peers
        self.leader = [node_id] if leader is None else leader
        self.log_start = log_start
        self.aborted: list[AbortedTransaction] = []
        self.stable_offset: int | None = None
        self.epoch_ends: dict[int, tuple[int, int]] = {}
        """The answer for a leader epoch: epoch and end offset; -1 and -1 for others."""
        self.tells_sizes = True
        self.knows_topic = True
        self.script: deque[Script] = deque()
        self.fetches: list[FetchRequest] = []
        self._versions = {key: message_info(request).max_version for key, request in REQUESTS.items()}
        self._versions[message_info(FetchRequest).key] = max_fetch_version
        self._versions[message_info(OffsetForLeaderEpochRequest).key] = max_epoch_version
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def end(self) -> int:
        return RecordBatch(self.batches[-1]).next_offset if self.batches else self.log_start

    def __enter__(self) -> ScriptedBroker:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            connection.close()
        for thread in self._threads:
            thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as stream:
                while size := stream.read(SIZE.size):
                    answer = self._answer(stream.read(SIZE.unpack(size)[0]))
                    if answer is None:
                        connection.shutdown(socket.SHUT_RDWR)
                        return
                    connection.sendall(answer)
        except (OSError, ValueError):
            return

    def _answer(self, frame: bytes) -> bytes | None:
        header, position = parse_request_header(frame)
        key, version = header.api_key, header.api_version
        request, _ = codec(REQUESTS[key], version).decode(frame, position)
        response: Any
        match request:
            case ApiVersionsRequest():
                keys = [
                    ApiVersion(api_key=key, min_version=0, max_version=last)
                    for key, last in self._versions.items()
                ]
                response = ApiVersionsResponse(api_keys=keys)
            case MetadataRequest():
                response = self._metadata()
            case ListOffsetsRequest():
                response = self._list_offsets(request)
            case OffsetForLeaderEpochRequest():
                response = self._epoch_ends(request)
            case DescribeLogDirsRequest():
                response = self._log_dirs()
            case FetchRequest():
                self.fetches.append(request)
                response = self.fetched(request, version)
                if self.script:
                    response = self.script.popleft()(request, response)
            case _:
                raise AssertionError(request)
        if response is None or isinstance(response, bytes):
            return response
        return encode_response(key, version, header.correlation_id, response)

    def _metadata(self) -> MetadataResponse:
        brokers = [
            MetadataResponseBroker(node_id=peer.node_id, host="127.0.0.1", port=peer.port, rack=None)
            for peer in self.peers
        ]
        ids = [peer.node_id for peer in self.peers]
        partition = MetadataResponsePartition(
            partition_index=0,
            leader_id=self.leader[0],
            leader_epoch=len(self.leader),
            replica_nodes=ids,
            isr_nodes=ids,
        )
        topic = MetadataResponseTopic(name=TOPIC, topic_id=TOPIC_ID, partitions=[partition])
        if not self.knows_topic:
            topic = MetadataResponseTopic(
                name=TOPIC, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, partitions=[]
            )
        return MetadataResponse(brokers=brokers, cluster_id="scripted", controller_id=1, topics=[topic])

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        timestamp = request.topics[0].partitions[0].timestamp
        offset = {-2: self.log_start, -1: self.end}.get(timestamp, -1)
        if timestamp == -1 and request.isolation_level and self.stable_offset is not None:
            offset = self.stable_offset
        entry = ListOffsetsPartitionResponse(partition_index=0, offset=offset)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=[entry])])

    def _epoch_ends(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        assert request.replica_id == -1  # a consumer's
        epoch, end = self.epoch_ends.get(request.topics[0].partitions[0].leader_epoch, (-1, -1))
        entry = EpochEndOffset(partition=0, leader_epoch=epoch, end_offset=end)
        return OffsetForLeaderEpochResponse(
            topics=[OffsetForLeaderTopicResult(topic=TOPIC, partitions=[entry])]
        )

    def _log_dirs(self) -> DescribeLogDirsResponse:
        if not self.tells_sizes:
            return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, results=[])
        size = sum(map(len, self.batches))
        entry = DescribeLogDirsPartition(
            partition_index=0, partition_size=size, offset_lag=0, is_future_key=False
        )
        topics = [DescribeLogDirsTopic(name=TOPIC, partitions=[entry])]
        return DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir="/d", topics=topics)])

    def fetched(self, request: FetchRequest, version: int) -> FetchResponse:
        """Return the truthful answer: like a broker's, it may end inside an entry."""
        wanted = request.topics[0].partitions[0]
        offset = wanted.fetch_offset
        end = self.end if self.stable_offset is None else self.stable_offset
        error = ErrorCode.NONE
        if self.leader[0] != self.node_id and not request.rack_id:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif not self.log_start <= offset <= self.end:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        parts = [
            batch
            for batch in self.batches
            if RecordBatch(batch).last_offset >= offset and RecordBatch(batch).base_offset < end
        ]
        if error:
            parts = []
        data = b"".join(parts)
        limit = wanted.partition_max_bytes
        if version >= 3 and parts:
            limit = max(limit, len(parts[0]))
        return answer(
            PartitionData(
                partition_index=0,
                error_code=error,
                high_watermark=self.end,
                last_stable_offset=end,
                log_start_offset=self.log_start,
                aborted_transactions=self.aborted if request.isolation_level else None,
                preferred_read_replica=-1,
                records=data[:limit],
            )
        )


@contextmanager
def nobody_listens() -> Iterator[str]:
    """Give an address that nobody listens at, and nobody else may meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def answer(data: PartitionData) -> FetchResponse:
    """Return a response about the one partition."""
    return FetchResponse(
        responses=[FetchableTopicResponse(topic=TOPIC, topic_id=TOPIC_ID, partitions=[data])]
    )


def refusal(error: ErrorCode) -> Script:
    """Return a script of one error."""
    data = PartitionData(
        partition_index=0, error_code=error, high_watermark=-1, records=b"", preferred_read_replica=-1
    )
    return lambda request, truth: answer(data)


def batch(
    base: int,
    count: int,
    *,
    codec: Codec = Codec.NONE,
    value_bytes: int = 20,
    producer_id: int = -1,
) -> bytes:
    """Return a batch whose values name their offsets; of a transaction if it has a producer id."""
    builder = RecordBatchBuilder(
        codec=codec, base_offset=base, producer_id=producer_id, is_transactional=producer_id >= 0
    )
    for offset in range(base, base + count):
        builder.append(1_700_000_000_000 + offset, b"k%d" % offset, b"v%d" % offset + b"." * value_bytes)
    return bytes(builder.build())


def marker(offset: int, producer_id: int, kind: ControlRecordType) -> bytes:
    """Return the batch that ends a transaction."""
    return bytes(
        end_txn_batch(
            EndTxnMarker(kind, 0), timestamp=0, producer_id=producer_id, producer_epoch=0, base_offset=offset
        )
    )
