"""QuotaEngine: stands before a node's `RequestEngine` while clients have byte quotas (KIP-13, KIP-219).

A client that wrote too much gets its response at once, with the pause in it, and its connection is mute for
that long: any request that comes meanwhile is held back. The Fetch handler checks the quota for reading,
because the fetch session has to know what was sent. A request that is held back is a parked operation: it is
dropped if the broker closes the connection, but not if the client does, as in Kafka.
"""

from __future__ import annotations

from functools import partial
from struct import Struct
from typing import TYPE_CHECKING

from kcli.broker.network.client_quotas import ClientQuotas
from kcli.broker.network.request_engine import Layer
from kcli.broker.network.responses import AwaitedResponse, HeldRequest, then
from kcli.broker.waiting.purgatory import DelayedOperation
from kcli.broker.waiting.timer import monotonic_ms
from kcli.protocol.frames import decode_response, encode_response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.broker.config.broker_definitions import BrokerSettings
    from kcli.broker.metadata.metadata_image import QuotaEntity
    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.network.request_engine import Engine, EngineLayers
    from kcli.broker.network.responses import Frame, Response

_HEADER = Struct(">hhih")
"""API key and version, correlation id, size of the client id."""
_PRODUCE_KEY, _FETCH_KEY = 0, 1
_SIZE_BYTES = 4
_THROTTLE_TIME_FROM = 1
"""The first version of Produce whose response has a throttle time."""


class QuotaEngine:
    """Applies `quotas` to the requests of one node, and passes them to `engine`."""

    def __init__(self, engine: Engine, *, quotas: ClientQuotas) -> None:
        self._engine = engine
        self._quotas = quotas

    def feed(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> Response:
        now_ms = monotonic_ms()
        if context.mute_until_ms > now_ms:
            return self._hold_back(context, bytearray(buffer[start:end]), context.mute_until_ms - now_ms)
        if end - start >= _HEADER.size:
            key, _, _, size = _HEADER.unpack_from(buffer, start)
            if key == _PRODUCE_KEY:
                return self._produce(context, buffer, start, end)
            if key == _FETCH_KEY:
                client_id = _client_id(buffer, start, size=size)
                context.allowance = self._quotas.consumer(client_id, now_ms, context.principal.name)
                try:
                    return self._engine.feed(context, buffer, start, end)
                finally:
                    context.allowance = None
        return self._engine.feed(context, buffer, start, end)

    def _hold_back(self, context: RequestContext, frame: bytearray, pause_ms: int) -> Response:
        """Return a response that is parked for the pause; the request is handled after it."""
        pause = DelayedOperation()
        context.node.purgatory.park(pause, (), pause_ms)
        return HeldRequest(pause, lambda: AwaitedResponse(frame, partial(self._feed_awake, context)))

    async def _feed_awake(self, context: RequestContext, frame: bytearray) -> Response:
        """Handle a request that was held back; a paused node handles it when it goes on."""
        await context.node.until_awake()
        return self.feed(context, memoryview(frame), 0, len(frame))

    def _produce(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> Response:
        client_id = _client_id(buffer, start, size=_HEADER.unpack_from(buffer, start)[3])
        response = self._engine.feed(context, buffer, start, end)
        now_ms = monotonic_ms()
        allowance = self._quotas.producer(client_id, now_ms, context.principal.name)
        pause_ms = 0 if allowance is None else allowance.take(end - start, now_ms)
        if not pause_ms:
            return response
        context.mute(pause_ms, now_ms)
        version = context.api_version
        if version < _THROTTLE_TIME_FROM:
            return response
        return then(response, partial(_with_throttle_time, version=version, pause_ms=pause_ms))


class QuotaLayer:
    """The quotas of one node; its `QuotaEngine` is a layer while any byte quota is set."""

    def __init__(self, layers: EngineLayers, settings: BrokerSettings) -> None:
        self._layers = layers
        self._quotas = ClientQuotas(
            samples=settings.quota_window_num, sample_ms=settings.quota_window_size_seconds * 1000
        )

    @property
    def is_in_force(self) -> bool:
        """Whether any byte quota is set."""
        return self._quotas.has_any

    def update(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Replace the quotas."""
        was_in_force = self.is_in_force
        self._quotas.update(quotas)
        if self.is_in_force != was_in_force:
            make = partial(QuotaEngine, quotas=self._quotas) if self.is_in_force else None
            self._layers.put(Layer.QUOTAS, make)


def _client_id(buffer: memoryview, start: int, *, size: int) -> str:
    """Return the client id of a request, or part of it if the request is malformed and will be refused."""
    start += _HEADER.size
    return str(buffer[start : start + max(size, 0)], "utf-8", "replace")


def _with_throttle_time(frame: Frame, *, version: int, pause_ms: int) -> Frame:
    if not frame:
        return frame
    correlation_id, response = decode_response(_PRODUCE_KEY, version, memoryview(frame[0])[_SIZE_BYTES:])
    response.throttle_time_ms = pause_ms
    return (encode_response(_PRODUCE_KEY, version, correlation_id, response),)
