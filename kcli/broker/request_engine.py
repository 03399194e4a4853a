"""RequestEngine: one request in, its answer out; synchronous, knows no socket.

`feed` decodes a frame, calls the API's handler and encodes what it returns. A handler returns

* a response object, or the bytes of a response body: answered at once;
* None: there is nothing to answer (Produce with acks=0);
* a `DelayedOperation` it has parked: `finish` makes the answer when it has ended;
* a coroutine: whoever drives the engine awaits it and gets the answer.

A handler's `KafkaError`, or any other exception, becomes the API's error response. What the protocol has no
answer for raises `CloseConnection`: an unknown API or version, a body that cannot be read.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from struct import Struct
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from kcli.broker.handlers.api_versions import API_VERSIONS_KEY, unsupported_version_body
from kcli.broker.purgatory import DelayedOperation
from kcli.broker.request_context import CloseConnection
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.headers import parse_request_header, response_header_version
from kcli.protocol.schema import DecodeError, codec, message_info

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.broker.api import Api
    from kcli.broker.request_context import RequestContext

_log = logging.getLogger(__name__)

_HEADER = Struct(">hhih")
_HEADER_SIZE = _HEADER.size
_read_header = _HEADER.unpack_from
_FRAME = Struct(">ii")
_TAGGED_FRAME = Struct(">iix")
_MAX_CACHED_CLIENT_IDS = 10_000
_MAX_CACHED_CLIENT_ID_BYTES = 256

Answer = bytes | list[Any] | DelayedOperation | Coroutine[Any, Any, Any] | None
"""A whole frame as bytes, or in parts of which some are file slices; or not yet, or never."""


class _Version:
    """One API in one version: what decodes, handles and encodes it."""

    __slots__ = ("api", "decode", "direct", "encode", "flexible", "frame", "handler", "header_size")

    def __init__(self, api: Api, version: int) -> None:
        self.api = api
        self.handler = api.handler
        info = message_info(api.request)
        self.decode = api.decoder(version)
        self.direct = api.direct
        self.encode = codec(info.response, version).encode_parts
        self.flexible = info.is_flexible(version)
        tagged = response_header_version(api.key, version) == 1
        self.frame = _TAGGED_FRAME if tagged else _FRAME
        self.header_size = 5 if tagged else 4


class RequestEngine:
    """The APIs of one node, ready to be fed."""

    def __init__(self, apis: Iterable[Api]) -> None:
        self._apis = {api.key: api for api in apis}
        self._versions: dict[tuple[int, int], _Version] = {}
        self._client_ids: dict[bytes, str] = {}

    def feed(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> Answer:
        """Handle the request in `buffer[start:end]`. Raises `CloseConnection`."""
        if end - start < _HEADER_SIZE:
            raise CloseConnection(f"a request of {end - start} bytes has no header")
        key, version, correlation_id, client_id_size = _read_header(buffer, start)
        context.api_key = key
        context.api_version = version
        context.correlation_id = correlation_id
        entry = self._versions.get((key, version)) or self._find(key, version)
        if entry is None:
            body = self._unsupported(key, version)
            return _FRAME.pack(4 + len(body), correlation_id) + body
        position = start + _HEADER_SIZE
        if entry.direct is not None and client_id_size >= -1:
            behind = position + client_id_size if client_id_size > 0 else position
            result = self._answer_directly(entry, context, buffer, behind, end)
            if type(result) is bytes:
                return entry.frame.pack(entry.header_size + len(result), correlation_id) + result
            if result is not None:
                return self._encode(entry, correlation_id, result)
        if client_id_size > 0 and position + client_id_size <= end:
            raw = bytes(buffer[position : position + client_id_size])
            context.client_id = self._client_ids.get(raw) or self._client_id(raw)
            position += client_id_size
        elif client_id_size < -1 or client_id_size > 0:
            raise CloseConnection("the client id reaches past the request")
        else:
            context.client_id = ""
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
            if type(result) is CoroutineType:
                return self._finish_later(entry, request, context, result)
            return self._encode(entry, correlation_id, result)
        except CloseConnection:
            raise
        except Exception as error:
            return self._failure(entry, request, context, error)

    def _answer_directly(
        self, entry: _Version, context: RequestContext, buffer: memoryview, position: int, end: int
    ) -> object:
        """Handle a request of the API's common shape; None if it is not, or is malformed."""
        assert entry.direct is not None
        if entry.flexible:
            if position >= end or buffer[position]:
                return None
            position += 1
        try:
            return entry.direct(context, buffer, position, end)
        except Exception as error:
            _log.exception("%s from %s failed", entry.api.name, context.peer_address)
            raise CloseConnection(f"{entry.api.name} failed") from error

    def finish(self, context: RequestContext, operation: DelayedOperation) -> Answer:
        """Return the answer of a request whose operation has ended. Raises `CloseConnection`."""
        entry = self._versions[context.api_key, context.api_version]
        try:
            result = operation.finish()
            if type(result) is CoroutineType:
                return self._finish_delayed(entry, context, result)
            return self._encode(entry, context.correlation_id, result)
        except CloseConnection:
            raise
        except Exception as error:
            raise _unanswered(entry) from error

    async def _finish_delayed(
        self, entry: _Version, context: RequestContext, coroutine: Coroutine[Any, Any, Any]
    ) -> Answer:
        try:
            return self._encode(entry, context.correlation_id, await coroutine)
        except CloseConnection:
            raise
        except Exception as error:
            raise _unanswered(entry) from error

    async def _finish_later(
        self, entry: _Version, request: object, context: RequestContext, coroutine: Coroutine[Any, Any, Any]
    ) -> Answer:
        try:
            return self._encode(entry, context.correlation_id, await coroutine)
        except CloseConnection:
            raise
        except Exception as error:
            return self._failure(entry, request, context, error)

    def _encode(self, entry: _Version, correlation_id: int, result: object) -> Answer:
        if result is None or isinstance(result, DelayedOperation):
            return result
        if type(result) is bytes:
            return entry.frame.pack(entry.header_size + len(result), correlation_id) + result
        parts = entry.encode(result)
        size = entry.header_size + sum(map(len, parts))
        parts.insert(0, entry.frame.pack(size, correlation_id))
        return parts if entry.api.sends_files else b"".join(parts)

    def _failure(self, entry: _Version, request: object, context: RequestContext, error: Exception) -> Answer:
        """Return the error response for what a handler raised."""
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

    def _find(self, key: int, version: int) -> _Version | None:
        api = self._apis.get(key)
        if api is None or not api.min_version <= version <= api.max_version:
            return None
        entry = self._versions[key, version] = _Version(api, version)
        return entry

    def _unsupported(self, key: int, version: int) -> bytes:
        if key == API_VERSIONS_KEY:
            return unsupported_version_body(self._apis[key])
        name = self._apis[key].name if key in self._apis else f"API {key}"
        raise CloseConnection(f"{name} version {version} is not supported")

    def _client_id(self, raw: bytes) -> str:
        try:
            client_id = raw.decode()
        except UnicodeDecodeError as error:
            raise CloseConnection("the client id is not UTF-8") from error
        if len(raw) <= _MAX_CACHED_CLIENT_ID_BYTES:
            if len(self._client_ids) >= _MAX_CACHED_CLIENT_IDS:
                self._client_ids.clear()
            self._client_ids[raw] = client_id
        return client_id


def _unanswered(entry: _Version) -> CloseConnection:
    _log.exception("%s: the answer could not be made", entry.api.name)
    return CloseConnection(f"the answer to {entry.api.name} could not be made")


def _skip_header_tags(frame: memoryview) -> int:
    """Return where the body starts in a request whose header has tagged fields."""
    try:
        return parse_request_header(frame)[1]
    except DecodeError as error:
        raise CloseConnection(error.message) from error
