"""Request and response headers, and whole frames made of a header and a message.

| frame | fields |
|---|---|
| both | size int32 (of what follows) |
| request header 0 | api key int16, version int16, correlation id int32 |
| request header 1 | header 0, client id nullable string (int16 length) |
| request header 2, flexible versions | header 1, tagged fields; the client id keeps its int16 length |
| response header 0 | correlation id int32 |
| response header 1, flexible versions | header 0, tagged fields |

The response header of ApiVersions is always 0: a client must be able to read the response to a version that
the broker does not know (KIP-511).

`FrameReader` is for clients and tests; the broker's connections read frames straight into their own buffers.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.errors import KcliError
from kcli.protocol.schema.declaration import (
    DecodeError,
    codec,
    is_flexible,
    reason_of_failure,
    response_class,
)
from kcli.protocol.schema.unsigned_varint import decode_unsigned_varint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.protocol.corruption import Buffer


API_VERSIONS = 18

_MAX_TAGS = 1000
_REQUEST_START = Struct(">hhih")
_INT32 = Struct(">i")


class RequestHeader(NamedTuple):
    """The header of a request. `client_id` is None if the client sent null."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def request_header_version(api_key: int, api_version: int) -> int:
    """Return 2 for flexible versions of an API, 1 for others."""
    return 2 if is_flexible(api_key, api_version) else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """Return 1 for flexible versions of an API, 0 for others and always for ApiVersions."""
    if api_key == API_VERSIONS:
        return 0
    return 1 if is_flexible(api_key, api_version) else 0


def parse_request_header(buffer: Buffer) -> tuple[RequestHeader, int]:
    """Return the header at the start of a request frame without its size, and the offset of the body.

    Does not check whether the API or its version is known; the header of an undeclared API is read as
    version 1. Raises `DecodeError`.
    """
    try:
        api_key, api_version, correlation_id, length = _REQUEST_START.unpack_from(buffer)
        position = _REQUEST_START.size
        client_id = None
        if length >= 0:
            client_id = str(buffer[position : position + length], "utf-8", "replace")
            position += length
        elif length != -1:
            raise ValueError("a negative length of the client id")
        if is_flexible(api_key, api_version):
            position = _skip_tags(buffer, position) if buffer[position] else position + 1
        if position > len(buffer):
            raise ValueError("cut short")
    except (StructError, ValueError, IndexError) as error:
        raise DecodeError(f"malformed request header: {reason_of_failure(error)}") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def _skip_tags(buffer: Buffer, position: int) -> int:
    count, position = decode_unsigned_varint(buffer, position)
    if count > _MAX_TAGS:
        raise ValueError(f"{count} tagged fields")
    for _ in range(count):
        _, position = decode_unsigned_varint(buffer, position)
        size, position = decode_unsigned_varint(buffer, position)
        position += size
    return position


def encode_request(header: RequestHeader, request: object) -> bytes:
    """Return the frame of a request, size included."""
    client_id = None if header.client_id is None else header.client_id.encode()
    start = _REQUEST_START.pack(
        header.api_key, header.api_version, header.correlation_id, -1 if client_id is None else len(client_id)
    )
    tags = b"\0" if request_header_version(header.api_key, header.api_version) == 2 else b""
    body = codec(type(request), header.api_version).encode_parts(request)
    return _frame([start, client_id or b"", tags, *body])


def encode_response(api_key: int, api_version: int, correlation_id: int, response: object) -> bytes:
    """Return the frame of a response, size included."""
    tags = b"\0" if response_header_version(api_key, api_version) == 1 else b""
    body = codec(type(response), api_version).encode_parts(response)
    return _frame([_INT32.pack(correlation_id), tags, *body])


def _frame(parts: list[Any]) -> bytes:
    size = sum(map(len, parts))
    return b"".join([_INT32.pack(size), *parts])


def parse_response_header(api_key: int, api_version: int, frame: Buffer) -> tuple[int, int]:
    """Return the correlation id of a response frame, without its size, and the offset of the body."""
    try:
        (correlation_id,) = _INT32.unpack_from(frame, 0)
        position = _INT32.size
        if response_header_version(api_key, api_version) == 1:
            position = _skip_tags(frame, position)
        if position > len(frame):
            raise ValueError("cut short")
    except (StructError, ValueError, IndexError) as error:
        raise DecodeError(f"malformed response header: {reason_of_failure(error)}") from error
    return correlation_id, position


def decode_response(api_key: int, api_version: int, frame: Buffer) -> tuple[int, Any]:
    """Return the correlation id and the response in a frame without its size.

    The module of the API must have been imported.
    """
    correlation_id, position = parse_response_header(api_key, api_version, frame)
    response, _ = codec(response_class(api_key), api_version).decode(frame, position)
    return correlation_id, response


class FrameError(KcliError):
    """A frame size that is negative or above the limit: the stream cannot be read any further."""


class FrameReader:
    """Cuts a stream of bytes into frames, returned in order without their size.

    `feed` raises `FrameError` as soon as it sees a refused size, before it reserves memory; earlier frames
    can still be taken. The caller owns the `bytearray` of a frame.
    """

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._partial = bytearray()
        self._need = _INT32.size
        self._has_size = False
        self._frames: deque[bytearray] = deque()

    @property
    def buffered_bytes(self) -> int:
        """How many bytes of an incomplete frame have arrived, including its size."""
        return len(self._partial) + (_INT32.size if self._has_size else 0)

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Add the next bytes of the stream."""
        view = memoryview(data)
        while True:
            part = view[: self._need - len(self._partial)]
            self._partial += part
            view = view[len(part) :]
            if len(self._partial) < self._need:
                return
            self._complete()

    def _complete(self) -> None:
        if self._has_size:
            self._frames.append(self._partial)
            self._need = _INT32.size
        else:
            (self._need,) = _INT32.unpack(self._partial)
            if not 0 <= self._need <= self._max_size:
                raise FrameError(f"a frame of {self._need} bytes is not within the limit of {self._max_size}")
        self._has_size = not self._has_size
        self._partial = bytearray()

    def __iter__(self) -> Iterator[bytearray]:
        """Remove and yield the complete frames."""
        while self._frames:
            yield self._frames.popleft()
