"""FetchConnection: a task's connection to one broker, for fetches of one partition without a session.

The socket blocks, with time limits that the system enforces, so that one system call fills the buffer with a
response however long it takes. Every response is read into the same buffer: its records are views that are
valid until the next `receive`.
"""

from __future__ import annotations

import socket
import time
from struct import Struct
from typing import TYPE_CHECKING

from kcli.client.network.bootstrap import Unreachable
from kcli.client.network.connection import Disconnected, RequestTimedOut
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.frames import RequestHeader, decode_response, encode_request
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kcli.protocol.schema.declaration import DecodeError, message_info
from kcli.protocol.uuids import ZERO_UUID
from kcli.spark.source.data_loss import name_of

if TYPE_CHECKING:
    from kcli.client.config import ClientConfig
    from kcli.client.network.metadata import Node
    from kcli.protocol.messages.fetch import PartitionData
    from kcli.protocol.topics import TopicPartition

FETCH = message_info(FetchResponse).key

_SIZE = Struct(">i")
_TIME = Struct("@ll")
_MAX_EXTRA_BYTES = 256 * 1024 * 1024
"""The bytes of a response beyond the limit: the first batch is complete, however large."""


class FetchConnection:
    """A connection for fetches of one version, one response per request.

    All failures raise `Unreachable` or `Disconnected`; then the connection cannot be used any more.
    """

    def __init__(self, node: Node, config: ClientConfig, version: int, *, buffer_bytes: int) -> None:
        self.node = node
        self.version = version
        self._client_id = config.client_id
        self._seconds = config.request_timeout_ms / 1000
        self._correlation_id = 0
        self._deadline = 0.0
        self._limit = buffer_bytes + _MAX_EXTRA_BYTES
        self._buffer = bytearray(buffer_bytes)
        self._size = bytearray(_SIZE.size)
        self._socket = _connected(node, config)

    def send(self, request: FetchRequest) -> None:
        """Send a fetch; its response must be received before the next request."""
        self._correlation_id += 1
        self._limit = request.max_bytes + _MAX_EXTRA_BYTES
        self._deadline = time.monotonic() + self._seconds + request.max_wait_ms / 1000
        header = RequestHeader(FETCH, self.version, self._correlation_id, self._client_id)
        try:
            self._socket.sendall(encode_request(header, request))
        except OSError as error:
            raise self._lost(error) from error

    def receive(self) -> FetchResponse:
        """Return the response to the last request, in the buffer of the previous one."""
        self._fill(memoryview(self._size))
        (size,) = _SIZE.unpack(self._size)
        if not 0 <= size <= self._limit:
            raise Disconnected(f"{self.node.address} sent an invalid response: a frame of {size} bytes")
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        frame = memoryview(self._buffer)[:size]
        self._fill(frame)
        try:
            correlation_id, response = decode_response(FETCH, self.version, frame)
        except DecodeError as error:
            raise Disconnected(f"{self.node.address} sent an invalid response: {error.message}") from error
        if correlation_id != self._correlation_id or not isinstance(response, FetchResponse):
            raise Disconnected(f"{self.node.address} sent a response without a request")
        return response

    def close(self) -> None:
        self._socket.close()

    def _fill(self, view: memoryview) -> None:
        while view:
            remaining = self._deadline - time.monotonic()
            if remaining <= 0:
                raise RequestTimedOut(f"{self.node.address} did not answer in time")
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _time(remaining))
            try:
                count = self._socket.recv_into(view, 0, socket.MSG_WAITALL)
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._lost(error) from error
            if not count:
                raise self._lost()
            view = view[count:]

    def _lost(self, error: OSError | None = None) -> Disconnected:
        why = f": {error.strerror.lower()}" if error is not None and error.strerror else ""
        return Disconnected(f"the connection to {self.node.address} was lost{why}")


def _connected(node: Node, config: ClientConfig) -> socket.socket:
    seconds = config.socket_connection_setup_timeout_ms / 1000
    try:
        opened = socket.create_connection((node.host, node.port), timeout=seconds)
    except (OSError, UnicodeError) as error:
        why = str(getattr(error, "strerror", None) or error).lower()
        raise Unreachable(f"cannot connect to {node.address}: {why}") from error
    opened.settimeout(None)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if config.receive_buffer_bytes >= 0:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, config.receive_buffer_bytes)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _time(config.request_timeout_ms / 1000))
    return opened


def _time(seconds: float) -> bytes:
    """Return a time limit for the socket; 0 would mean none."""
    microseconds = max(1000, int(seconds * 1_000_000))
    return _TIME.pack(microseconds // 1_000_000, microseconds % 1_000_000)


_MAX_VERSION_BY_NAME = 12
"""Later versions name topics by id."""


def fetch_request(
    partition: TopicPartition,
    topic_id: bytes,
    offset: int,
    *,
    max_bytes: int,
    leader_epoch: int = -1,
    read_committed: bool = False,
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    rack: str = "",
) -> FetchRequest:
    """Return a fetch of one partition from an offset on."""
    wanted = FetchPartition(
        partition=partition.partition,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=int(read_committed),
        topics=[FetchTopic(topic=partition.topic, topic_id=topic_id, partitions=[wanted])],
        rack_id=rack,
    )


def max_fetch_version(topic_id: bytes) -> int | None:
    """Return the last version that can name a topic, None without a limit."""
    return _MAX_VERSION_BY_NAME if topic_id == ZERO_UUID else None


def partition_data(response: FetchResponse, partition: TopicPartition) -> PartitionData:
    """Return the data of the one partition; raise `KafkaError`, or `Disconnected` if it is missing."""
    if response.error_code:
        raise KafkaError(ErrorCode.of(response.error_code))
    for topic in response.responses:
        for data in topic.partitions:
            if data.partition_index == partition.partition and topic.topic in ("", partition.topic):
                return data
    raise Disconnected(f"the broker left {name_of(partition)} out of its answer")
