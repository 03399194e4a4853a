"""QuotaEngine: stands before a node's `RequestEngine` while clients have quotas of bytes (KIP-13, KIP-219).

A client that wrote too much is answered at once, told how long to pause, and its connection is mute for that
long: what it asks meanwhile, whatever that is, is not looked at before. Reading too much is found out where
the answer is made (`handlers.fetch`), for the fetch session has to know what was sent. A request that has to
wait is an operation like any other: it is dropped with its connection, and nothing behind it is handled.
"""

from __future__ import annotations

from functools import partial
from struct import Struct
from typing import TYPE_CHECKING

from kcli.broker.network.client_quotas import ClientQuotas
from kcli.broker.network.request_engine import Layer
from kcli.broker.network.responses import DelayedResponse, Later
from kcli.broker.waiting.purgatory import DelayedOperation
from kcli.broker.waiting.timer import monotonic_ms
from kcli.protocol.frames import decode_response, encode_response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.broker.config.broker_definitions import BrokerSettings
    from kcli.broker.metadata.metadata_image import QuotaEntity
    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.network.request_engine import Answer, Engine, EngineLayers

_HEADER = Struct(">hhih")
"""API key and version, correlation id, size of the client id."""
_PRODUCE_KEY, _FETCH_KEY = 0, 1
_SIZE_BYTES = 4
_TOLD_FROM = 1
"""Before this version of Produce an answer cannot tell of a pause."""


class HeldRequest(DelayedOperation):
    """A request that came on a mute connection, which `engine` is fed when that may speak again."""

    __slots__ = ("_context", "_engine", "_frame")

    def __init__(self, context: RequestContext, frame: bytearray, *, engine: Engine) -> None:
        super().__init__()
        self._context = context
        self._frame = frame
        self._engine = engine
        self.reply_to = None

    def finish(self) -> Later:
        return Later(self._handle())

    async def _handle(self) -> Answer:
        """Handle it, unless the node has been paused meanwhile: then later."""
        await self._context.node.until_awake()
        return self._engine.feed(self._context, memoryview(self._frame), 0, len(self._frame))


class QuotaEngine:
    """What connections of one node feed while `quotas` limit its clients; requests go to `engine`."""

    def __init__(self, engine: Engine, *, quotas: ClientQuotas) -> None:
        self._engine = engine
        self._quotas = quotas

    def feed(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> Answer:
        """Handle the request in `buffer[start:end]`, or hold it back. Raises `CloseConnection`."""
        now_ms = monotonic_ms()
        if context.mute_until_ms > now_ms:
            held = HeldRequest(context, bytearray(buffer[start:end]), engine=self)
            context.node.purgatory.park(held, (), context.mute_until_ms - now_ms)
            return held
        if end - start >= _HEADER.size:
            key, _, _, size = _HEADER.unpack_from(buffer, start)
            if key == _PRODUCE_KEY:
                return self._produce(context, buffer, start, end)
            if key == _FETCH_KEY:
                context.allowance = self._quotas.consumer(_client_id(buffer, start, size=size), now_ms)
                try:
                    return self._engine.feed(context, buffer, start, end)
                finally:
                    context.allowance = None
        return self._engine.feed(context, buffer, start, end)

    def finish(self, operation: DelayedOperation) -> Answer:
        """Return the answer of a request whose operation has ended."""
        return self._engine.finish(operation)

    def _produce(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> Answer:
        client_id = _client_id(buffer, start, size=_HEADER.unpack_from(buffer, start)[3])
        answer = self._engine.feed(context, buffer, start, end)
        now_ms = monotonic_ms()
        allowance = self._quotas.producer(client_id, now_ms)
        pause_ms = 0 if allowance is None else allowance.take(end - start, now_ms)
        if not pause_ms:
            return answer
        context.mute(pause_ms, now_ms)
        if context.api_version < _TOLD_FROM:
            return answer
        return _told(answer, version=context.api_version, pause_ms=pause_ms)


class QuotaLayer:
    """The quotas of one node: they stand before its engine while there are any of bytes."""

    def __init__(self, layers: EngineLayers, settings: BrokerSettings) -> None:
        self._layers = layers
        self._quotas = ClientQuotas(
            samples=settings.quota_window_num, sample_ms=settings.quota_window_size_seconds * 1000
        )

    @property
    def is_in_force(self) -> bool:
        """Whether anybody is limited."""
        return self._quotas.has_any

    def update(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Take over what is set."""
        was_in_force = self.is_in_force
        self._quotas.update(quotas)
        if self.is_in_force != was_in_force:
            make = partial(QuotaEngine, quotas=self._quotas) if self.is_in_force else None
            self._layers.put(Layer.QUOTAS, make)


def _client_id(buffer: memoryview, start: int, *, size: int) -> str:
    """Return the client id of a request; of one that is not well formed, none: it will be refused."""
    start += _HEADER.size
    return str(buffer[start : start + max(size, 0)], "utf-8", "replace")


def _told(answer: Answer, *, version: int, pause_ms: int) -> Answer:
    """Return the answer of a Produce, told of a pause."""
    if isinstance(answer, bytes | list):
        frame = memoryview(b"".join(answer) if isinstance(answer, list) else answer)[_SIZE_BYTES:]
        correlation_id, response = decode_response(_PRODUCE_KEY, version, frame)
        response.throttle_time_ms = pause_ms
        return encode_response(_PRODUCE_KEY, version, correlation_id, response)
    if isinstance(answer, DelayedResponse):
        answer.response.throttle_time_ms = pause_ms
    elif isinstance(answer, Later):
        return Later(answer, partial(_told_later, version=version, pause_ms=pause_ms))
    return answer


async def _told_later(answer: Later, *, version: int, pause_ms: int) -> Answer:
    return _told(await answer, version=version, pause_ms=pause_ms)
