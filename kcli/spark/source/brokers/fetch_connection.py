"""FetchConnection: a task's connection to one broker, for fetches of one partition without a session.

The socket blocks, with time limits that the system enforces, so that one system call fills the buffer with a
response however long it takes; over TLS one call gives a record of 16 KiB at most. Every response is read
into the same buffer: its records are views that are valid until the next `receive`.
"""

from __future__ import annotations

import math
import socket
import time
from struct import Struct
from typing import TYPE_CHECKING, Any

from kcli.client.network.bootstrap import Unreachable
from kcli.client.network.connection import Disconnected, RequestTimedOut
from kcli.client.network.sasl_login import SaslLogin
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.frames import RequestHeader, decode_response, encode_request
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kcli.protocol.schema.declaration import DecodeError, message_info
from kcli.protocol.uuids import ZERO_UUID
from kcli.spark.source.data_loss import name_of

if TYPE_CHECKING:
    import ssl

    from kcli.client.config import ClientConfig
    from kcli.client.network.metadata import Node
    from kcli.client.network.sasl_login import Ask
    from kcli.errors import KcliError
    from kcli.protocol.messages.fetch import PartitionData
    from kcli.protocol.topics import TopicPartition
    from kcli.security.client_security import ClientSecurity

FETCH = message_info(FetchResponse).key
_API_VERSIONS = message_info(ApiVersionsRequest).key

_SIZE = Struct(">i")
_TIME = Struct("@ll")
_MAX_EXTRA_BYTES = 256 * 1024 * 1024
"""The bytes of a response beyond the limit: the first batch is complete, however large."""


class FetchConnection:
    """A connection for fetches of one version, one response per request.

    All failures raise `Unreachable`, `Disconnected` or `AuthenticationFailed`; then the connection cannot be
    used any more.
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
        self._security = config.security
        self._is_tls = config.security is not None and config.security.is_tls
        self._login_due = math.inf
        self._ranges: dict[int, tuple[int, int]] = {}
        try:
            self._secure()
        except BaseException:
            self._socket.close()
            raise

    def send(self, request: FetchRequest) -> None:
        """Send a fetch; its response must be received before the next request."""
        if time.monotonic() >= self._login_due:
            self._log_in()
        self._limit = request.max_bytes + _MAX_EXTRA_BYTES
        self._send(request, self.version, self._seconds + request.max_wait_ms / 1000)

    def receive(self) -> FetchResponse:
        """Return the response to the last request, in the buffer of the previous one."""
        response = self._response(FETCH, self.version)
        assert isinstance(response, FetchResponse)
        return response

    def close(self) -> None:
        self._socket.close()

    def _secure(self) -> None:
        """Shake hands over TLS, and log in; raise `AuthenticationFailed` if either side refuses."""
        security = self._security
        if security is None:
            return
        if security.is_tls:
            self._socket = _with_tls(self._socket, self.node, security, self._seconds)
        if security.is_sasl:
            self._send(ApiVersionsRequest(), 0, self._seconds)
            versions = self._response(_API_VERSIONS, 0)
            self._ranges = {row.api_key: (row.min_version, row.max_version) for row in versions.api_keys}
            self._log_in()

    def _log_in(self) -> None:
        assert self._security is not None
        login = SaslLogin(self._security, self.node.address, self._ranges)
        login.run_blocking(self._exchange)
        self._login_due = time.monotonic() + login.renewal_seconds()

    def _exchange(self, ask: Ask) -> Any:  # noqa: ANN401  # the type follows from the request
        """Send a part of a login and return the response or token."""
        if ask.request is None:
            self._send_bytes(_SIZE.pack(len(ask.token)) + ask.token, self._seconds)
            return bytes(self._frame())
        self._send(ask.request, ask.version, self._seconds)
        return self._response(message_info(type(ask.request)).key, ask.version)

    def _send(self, request: object, version: int, seconds: float) -> None:
        self._correlation_id += 1
        key = message_info(type(request)).key
        header = RequestHeader(key, version, self._correlation_id, self._client_id)
        self._send_bytes(encode_request(header, request), seconds)

    def _send_bytes(self, data: bytes, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        if self._is_tls:
            # The rest of the last response's time is not that of this request.
            self._socket.settimeout(self._seconds)
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise self._failed(error) from error

    def _response(self, key: int, version: int) -> Any:  # noqa: ANN401  # the type follows from the key
        frame = self._frame()
        try:
            correlation_id, response = decode_response(key, version, frame)
        except DecodeError as error:
            raise Disconnected(f"{self.node.address} sent an invalid response: {error.message}") from error
        if correlation_id != self._correlation_id:
            raise Disconnected(f"{self.node.address} sent a response without a request")
        return response

    def _frame(self) -> memoryview:
        """Return the next frame, in the buffer."""
        self._fill(memoryview(self._size))
        (size,) = _SIZE.unpack(self._size)
        if not 0 <= size <= self._limit:
            raise Disconnected(f"{self.node.address} sent an invalid response: a frame of {size} bytes")
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        frame = memoryview(self._buffer)[:size]
        self._fill(frame)
        return frame

    def _fill(self, view: memoryview) -> None:
        while view:
            remaining = self._deadline - time.monotonic()
            if remaining <= 0:
                raise RequestTimedOut(f"{self.node.address} did not answer in time")
            try:
                count = self._receive_into(view, remaining)
            except (BlockingIOError, TimeoutError):
                continue
            except OSError as error:
                raise self._failed(error) from error
            if not count:
                raise self._lost()
            view = view[count:]

    def _receive_into(self, view: memoryview, seconds: float) -> int:
        if self._is_tls:
            self._socket.settimeout(seconds)
            return self._socket.recv_into(view)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _time(seconds))
        return self._socket.recv_into(view, 0, socket.MSG_WAITALL)

    def _failed(self, error: OSError) -> KcliError:
        """Return what ended the connection: TLS says more than that it is lost."""
        if self._security is not None and self._security.is_tls:
            from kcli.client.network.tls_failures import ssl_error_of, tls_refusal

            verdict = ssl_error_of(error)
            if verdict is not None:
                return tls_refusal(verdict, self.node, has_key=self._security.has_key)
        return self._lost(error)

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


def _with_tls(plain: socket.socket, node: Node, security: ClientSecurity, seconds: float) -> ssl.SSLSocket:
    """Return the socket with TLS around it, after the handshake."""
    from kcli.client.network.tls_failures import ssl_error_of, tls_refusal

    plain.settimeout(seconds)
    try:
        return security.tls_context().wrap_socket(plain, server_hostname=node.host)
    except OSError as error:
        verdict = ssl_error_of(error)
        if verdict is not None:
            raise tls_refusal(verdict, node, has_key=security.has_key) from error
        raise Disconnected(f"{node.address} closed the connection during the TLS handshake") from error


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
