"""RequestEngine: one request in, its response out; synchronous, knows no socket.

`feed` decodes a frame, calls the API's handler and encodes what it returns. A handler returns

* a response object, or the bytes of a response body, or a list of its parts, some of them in files;
* a whole `Frame`, header included, which only short paths make;
* None: the client expects no response (Produce with acks=0);
* a `DelayedOperation` it has parked, whose `finish` returns one of these;
* a coroutine, which a task awaits.

A handler's `KafkaError` becomes the API's error response, and so does any other exception of a handler, which
is logged as a bug. Where the protocol has no response, for an unknown API or version or a body that cannot be
read, `feed` raises `CloseConnection`.

EngineLayers: the engines for faults, quotas and measurements that stand before the `RequestEngine` of a node.
Each is there only while it has something to do, so without them a request costs nothing more.
"""

from __future__ import annotations

import logging
from enum import IntEnum
from functools import lru_cache, partial
from struct import Struct
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Protocol

from kcli.broker.network.apis import unsupported_version_body
from kcli.broker.network.request_context import EMPTY_HEADER, CloseConnection
from kcli.broker.network.responses import AwaitedResponse, ParkedResponse
from kcli.broker.waiting.purgatory import DelayedOperation
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.frames import API_VERSIONS, parse_request_header, response_header_version
from kcli.protocol.schema.declaration import DecodeError, codec, message_info

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from kcli.broker.network.apis import Api
    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.network.responses import Response


_log = logging.getLogger(__name__)

_HEADER_SIZE = EMPTY_HEADER.size
_read_header = EMPTY_HEADER.unpack_from
_SIZE = Struct(">h")
_FRAME = Struct(">ii")
_TAGGED_FRAME = Struct(">iix")
_MAX_CACHED_CLIENT_IDS = 10_000
_MAX_CACHED_CLIENT_ID_BYTES = 256


class _Version:
    """One API in one version: its decoder, handler and encoder."""

    __slots__ = ("api", "decode", "encode", "flexible", "frame", "handler", "header_size", "key", "version")

    def __init__(self, api: Api, version: int) -> None:
        self.api = api
        self.key = api.key
        self.version = version
        self.handler = api.handler
        info = message_info(api.request)
        self.decode = api.reader(version)
        self.encode = codec(info.response, version).encode_parts
        self.flexible = info.is_flexible(version)
        tagged = response_header_version(api.key, version) == 1
        self.frame = _TAGGED_FRAME if tagged else _FRAME
        self.header_size = 5 if tagged else 4


class Engine(Protocol):
    """Handles requests; connections feed it."""

    def feed(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> Response:
        """Handle the request in `buffer[start:end]`. Raises `CloseConnection`."""
        ...


class RequestEngine:
    """The APIs of one node."""

    def __init__(self, apis: Iterable[Api]) -> None:
        self._apis = {api.key: api for api in apis}
        self._versions: dict[int, _Version] = {}
        self._client_ids: dict[bytes, str] = {}

    def feed(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> Response:
        header_size = context.header_size
        if end - start >= header_size:
            number, correlation_id, raw_client_id = context.read_header(buffer, start)
        elif end - start >= _HEADER_SIZE:
            number, correlation_id, raw_client_id = _read_header(buffer, start)
        else:
            raise CloseConnection(f"a request of {end - start} bytes has no header")
        entry = self._versions.get(number) or self._find(number)
        if entry is None:
            body = self._unsupported(number)
            return (_FRAME.pack(4 + len(body), correlation_id) + body,)
        context.api_key = entry.key
        context.api_version = entry.version
        context.correlation_id = correlation_id
        if raw_client_id == context.raw_client_id:
            position = start + header_size
        else:
            position = self._take_client_id(context, buffer, start, end)
        if entry.flexible:
            if position < end and buffer[position] == 0:
                position += 1
            else:
                position = _skip_header_tags(buffer[start:end]) + start
        try:
            request = entry.decode(buffer, position, end)[0]
        except DecodeError as error:
            raise CloseConnection(error.message) from error
        try:
            result = entry.handler(request, context)
            if type(result) is tuple:
                return result
            if type(result) is CoroutineType:
                return AwaitedResponse(result, partial(self._await, entry, request, context))
            return self._encode(entry, correlation_id, result)
        except Exception as error:
            return self._failure(entry, request, context, error)

    def read(
        self, context: RequestContext, buffer: memoryview, start: int, end: int
    ) -> tuple[Api, object] | None:
        """Return API and request without handling it, None for an unknown API. Raises `DecodeError`."""
        if end - start < _HEADER_SIZE:
            raise DecodeError(f"a request of {end - start} bytes has no header")
        # The API and its version tell the form of the header.
        entry = self._find(_read_header(buffer, start)[0])
        if entry is None:
            return None
        header, position = parse_request_header(buffer[start:end])
        context.api_key, context.api_version = header.api_key, header.api_version
        context.correlation_id = header.correlation_id
        context.client_id, context.raw_client_id = header.client_id or "", None
        return entry.api, entry.api.decoder(entry.version)(buffer, start + position, end)[0]

    def _finish(self, entry: _Version, correlation_id: int, operation: DelayedOperation) -> Response:
        result = operation.finish()
        if type(result) is CoroutineType:
            return AwaitedResponse(result, partial(self._await_finished, entry, correlation_id))
        return self._encode(entry, correlation_id, result)

    async def _await_finished(
        self, entry: _Version, correlation_id: int, coroutine: Coroutine[Any, Any, Any]
    ) -> Response:
        return self._encode(entry, correlation_id, await coroutine)

    async def _await(
        self, entry: _Version, request: object, context: RequestContext, coroutine: Coroutine[Any, Any, Any]
    ) -> Response:
        try:
            return self._encode(entry, context.correlation_id, await coroutine)
        except Exception as error:
            return self._failure(entry, request, context, error)

    def _encode(self, entry: _Version, correlation_id: int, result: object) -> Response:
        if type(result) is bytes:
            return (entry.frame.pack(entry.header_size + len(result), correlation_id) + result,)
        if result is None:
            return ()
        if isinstance(result, DelayedOperation):
            return ParkedResponse(result, partial(self._finish, entry, correlation_id, result))
        is_body = type(result) is list
        parts: list[Any] = result if is_body else entry.encode(result)  # type: ignore[assignment]
        frame = entry.frame.pack(entry.header_size + sum(map(len, parts)), correlation_id), *parts
        return frame if is_body or entry.api.sends_files else (b"".join(frame),)

    def _failure(
        self, entry: _Version, request: object, context: RequestContext, error: Exception
    ) -> Response:
        """Return the error response for an exception of a handler."""
        if isinstance(error, CloseConnection):
            raise error
        name = entry.api.name
        if isinstance(error, KafkaError):
            failure = error
        else:
            _log.error("%s from %s failed", name, context.peer_address, exc_info=error)
            failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if entry.api.failed is None:
            raise CloseConnection(f"{name} failed: {failure.message}") from error
        response = entry.api.failed(request, failure)
        if response is None:
            raise CloseConnection(f"{name} failed: {failure.message}") from error
        return self._encode(entry, context.correlation_id, response)

    def _find(self, number: int) -> _Version | None:
        key, version = _key_and_version(number)
        api = self._apis.get(key)
        if api is None or not api.min_version <= version <= api.max_version:
            return None
        entry = self._versions[number] = _Version(api, version)
        return entry

    def _unsupported(self, number: int) -> bytes:
        key, version = _key_and_version(number)
        if key == API_VERSIONS:
            return unsupported_version_body(self._apis[key])
        name = self._apis[key].name if key in self._apis else f"API {key}"
        raise CloseConnection(f"{name} version {version} is not supported")

    def _take_client_id(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> int:
        """Take a client id that is not that of the last request; return where the header goes on."""
        size: int = _SIZE.unpack_from(buffer, start + _HEADER_SIZE - _SIZE.size)[0]
        if size < -1 or start + _HEADER_SIZE + size > end:
            raise CloseConnection("the client id reaches past the request")
        size = max(size, 0)
        raw = bytes(buffer[start + _HEADER_SIZE : start + _HEADER_SIZE + size])
        context.client_id = (self._client_ids.get(raw) or self._client_id(raw)) if raw else ""
        context.header_size = _HEADER_SIZE + size
        context.read_header = _header_reader(size)
        context.raw_client_id = context.read_header(buffer, start)[2]
        return start + context.header_size

    def _client_id(self, raw: bytes) -> str:
        client_id = raw.decode(errors="replace")  # As in Java.
        if len(raw) <= _MAX_CACHED_CLIENT_ID_BYTES:
            if len(self._client_ids) >= _MAX_CACHED_CLIENT_IDS:
                self._client_ids.clear()
            self._client_ids[raw] = client_id
        return client_id


@lru_cache(maxsize=256)
def _header_reader(client_id_size: int) -> Callable[[memoryview, int], tuple[int, int, bytes]]:
    """Return what reads API, correlation id and the client id with its size, for client ids of one size."""
    return Struct(f">ii{_SIZE.size + client_id_size}s").unpack_from


def _key_and_version(number: int) -> tuple[int, int]:
    return number >> 16, (number & 0xFFFF) - (number << 1 & 0x10000)


def _skip_header_tags(frame: memoryview) -> int:
    """Return the start of the body in a request whose header has tagged fields."""
    try:
        return parse_request_header(frame)[1]
    except DecodeError as error:
        raise CloseConnection(error.message) from error


class Layer(IntEnum):
    """The kinds of engines before the `RequestEngine`; lower ones stand nearer to it."""

    FAULTS = 0
    QUOTAS = 1
    TIMES = 2


class EngineLayers:
    """The layers of one node; `use` gets the engine that connections feed from now on."""

    def __init__(self, engine: RequestEngine, use: Callable[[Engine], None]) -> None:
        self._engine = engine
        self._use = use
        self._layers: dict[Layer, Callable[[Engine], Engine]] = {}
        self.outermost: Engine = engine
        """Handles requests; connections feed it."""

    def put(self, layer: Layer, make: Callable[[Engine], Engine] | None) -> None:
        """Add the layer that `make` returns for the engine behind it; None removes the layer.

        Every layer is made anew when one comes or goes, so it must keep its state elsewhere.
        """
        if make is None:
            self._layers.pop(layer, None)
        else:
            self._layers[layer] = make
        engine: Engine = self._engine
        for each in sorted(self._layers):
            engine = self._layers[each](engine)
        self.outermost = engine
        self._use(engine)
