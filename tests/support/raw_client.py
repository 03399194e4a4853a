"""RawClient: a blocking socket that sends any bytes and reads whole frames, for tests of the wire itself."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Any

from kcli.protocol.frames import RequestHeader, decode_response, encode_request
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kcli.protocol.schema.declaration import message_info

if TYPE_CHECKING:
    from types import TracebackType

TIMEOUT_SECONDS = 60.0
"""What a client waits for anything; longer is a failure of the broker."""

_SIZE = struct.Struct(">i")


def request_frame(
    request: object, version: int, correlation_id: int = 1, client_id: str | None = "raw"
) -> bytes:
    """A request as it goes over the wire, its size included."""
    header = RequestHeader(message_info(type(request)).key, version, correlation_id, client_id)
    return encode_request(header, request)


class RawClient:
    """One connection. Everything that takes longer than `timeout` seconds raises `TimeoutError`.

    It comes from the address `source`, or from the one that the system chooses.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        timeout: float = TIMEOUT_SECONDS,
        receive_buffer: int = 0,
        source: str | None = None,
    ) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source is not None:
            self.socket.bind((source, 0))
        self.socket.settimeout(timeout)
        self.socket.connect((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()
        self._correlation_id = 0

    def __enter__(self) -> RawClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def send(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def offer(self, data: bytes | bytearray | memoryview) -> bool:
        """Send bytes and end the sending side; False if the broker closed before it had them all."""
        try:
            self.socket.sendall(data)
            self.socket.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            return False
        return True

    def ask(self, request: object, version: int) -> Any:
        """Send a request and return its response."""
        self._correlation_id += 1
        self.send(request_frame(request, version, self._correlation_id))
        frame = self.receive_frame()
        assert frame is not None, f"no answer to {type(request).__name__}: closed"
        correlation_id, response = decode_response(message_info(type(request)).key, version, frame)
        assert correlation_id == self._correlation_id
        return response

    def log_in(self, user: str, password: str) -> None:
        """Log in by SASL/PLAIN."""
        handshake = self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert handshake.error_code == 0, handshake
        token = f"\0{user}\0{password}".encode()
        login = self.ask(SaslAuthenticateRequest(auth_bytes=token), 1)
        assert login.error_code == 0, login

    def receive_frame(self) -> bytes | None:
        """The next frame without its size; None when the broker has closed, between or inside frames."""
        if not self._fill(_SIZE.size):
            return None
        (size,) = _SIZE.unpack_from(self._received)
        assert size >= 0, f"an answer of {size} bytes"
        if not self._fill(_SIZE.size + size):
            return None
        frame = bytes(self._received[_SIZE.size : _SIZE.size + size])
        del self._received[: _SIZE.size + size]
        return frame

    def receive_all(self) -> list[bytes]:
        """Every frame until the broker closes."""
        frames = []
        while (frame := self.receive_frame()) is not None:
            frames.append(frame)
        return frames

    def is_closed(self) -> bool:
        """Wait for the broker to send something or close; whether it closed."""
        try:
            return not self.socket.recv(1)
        except ConnectionResetError:
            return True

    def _fill(self, count: int) -> bool:
        while len(self._received) < count:
            try:
                data = self.socket.recv(262_144)
            except ConnectionResetError:
                return False
            if not data:
                return False
            self._received += data
        return True
