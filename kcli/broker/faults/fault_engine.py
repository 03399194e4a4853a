"""FaultEngine: stands before a node's `RequestEngine` while a fault for its requests is active."""

from __future__ import annotations

from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any

import trio

from kcli.broker.faults.error_responses import (
    TopicErrors,
    clear_other_topics,
    complete_fetch,
    error_response,
    topics_of,
    with_topic_errors,
)
from kcli.broker.network.request_context import CloseConnection
from kcli.broker.network.responses import AwaitedResponse, ParkedResponse, frame_of
from kcli.broker.waiting.purgatory import DelayedOperation
from kcli.protocol.frames import (
    RequestHeader,
    decode_response,
    encode_request,
    encode_response,
    parse_request_header,
)
from kcli.protocol.messages.fetch import FetchResponse
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.schema.declaration import DecodeError, message_info

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kcli.broker.faults.fault import ActiveFault
    from kcli.broker.network.apis import Api
    from kcli.broker.network.client_quotas import Allowance
    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.network.request_engine import Engine, RequestEngine
    from kcli.broker.network.responses import Frame, Response

NEVER_MS = 7 * 24 * 3600 * 1000
"""How long a request without a response waits for its client to leave."""

_SIZE = Struct(">i")
_METADATA_KEY = message_info(MetadataRequest).key


class FaultEngine:
    """Applies the first of `faults` that fits to each request of one node.

    Other requests go to `engine`; `reader` decodes a request without handling it.
    """

    def __init__(
        self, engine: Engine, *, reader: RequestEngine, apis: Iterable[Api], faults: list[ActiveFault]
    ) -> None:
        self._engine = engine
        self._reader = reader
        self._apis = {api.key: api for api in apis}
        self.faults = faults

    def feed(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> Response:
        active = self._find(context, buffer, start, end)
        if active is None:
            return self._engine.feed(context, buffer, start, end)
        fault = active.request_fault
        if fault.kind == "error":
            return self._refuse(active, context, buffer, start, end)
        if fault.after:
            response = self._engine.feed(context, buffer, start, end)
            return AwaitedResponse(response, partial(self._afterwards, active, context))
        match fault.kind:
            case "drop":
                return self._unanswered(context)
            case "disconnect":
                raise CloseConnection(f"fault {active.number}")
            case _:
                # The buffer is valid only during this call.
                frame = bytearray(buffer[start:end])
                delay_ms, allowance = fault.delay_ms, context.allowance
                return AwaitedResponse(
                    frame, partial(self._delayed, context, delay_ms=delay_ms, allowance=allowance)
                )

    def _find(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> ActiveFault | None:
        """Return the fault that a request meets, and count the hit."""
        try:
            header, _ = parse_request_header(buffer[start:end])
            api = self._apis.get(header.api_key)
            if api is None:
                return None
            client_id = header.client_id or ""
            candidates = [each for each in self.faults if each.request_fault.concerns(api.name, client_id)]
            if not candidates:
                return None
            read = self._reader.read(context, buffer, start, end)
            if read is None:
                return None
            topics: set[str] | None = None
            for active in candidates:
                if active.request_fault.topic is not None:
                    if topics is None:
                        topics = topics_of(complete_fetch(read[1], context.node), context.node)
                    if not active.request_fault.concerns_any(topics):
                        continue
                if active.strikes():
                    return active
        except DecodeError:
            pass  # The engine refuses it.
        return None

    def _unanswered(self, context: RequestContext) -> Response:
        """Return a response that never comes; its connection ends when the client closes it."""
        operation = DelayedOperation()
        context.node.purgatory.park(operation, (), NEVER_MS)
        return ParkedResponse(operation, _close)

    async def _delayed(
        self, context: RequestContext, frame: bytearray, *, delay_ms: int, allowance: Allowance | None
    ) -> Response:
        """Feed a request later, with the quota that the context holds only while it is fed."""
        await trio.sleep(delay_ms / 1000)
        context.allowance = allowance
        try:
            return self._engine.feed(context, memoryview(frame), 0, len(frame))
        finally:
            context.allowance = None

    async def _afterwards(self, active: ActiveFault, context: RequestContext, response: Response) -> Response:
        """Apply a fault to a response once its frame is there."""
        frame = await frame_of(response, context.node.purgatory)
        fault = active.request_fault
        match fault.kind:
            case "drop":
                return self._unanswered(context)
            case "disconnect":
                raise CloseConnection(f"fault {active.number}")
            case _:
                await trio.sleep(fault.delay_ms / 1000)
                return frame

    def _refuse(
        self, active: ActiveFault, context: RequestContext, buffer: memoryview, start: int, end: int
    ) -> Response:
        """Answer with an error for the whole request, or for those of its topics that the fault concerns."""
        fault, code = active.request_fault, active.request_fault.code
        assert code is not None
        read = self._reader.read(context, buffer, start, end)
        assert read is not None
        api, request = read
        reply_to = (api.key, context.api_version, context.correlation_id)
        why = f"{code.description} (fault {active.number})"

        def concerns(topic: str) -> bool:
            return fault.concerns_any((topic,))

        if api.key == _METADATA_KEY:
            response = self._engine.feed(context, buffer, start, end)
            change = partial(with_topic_errors, code=code, concerns=concerns)
            return _held_back(response, context, partial(_changed, reply_to=reply_to, change=change))
        some = TopicErrors(api, context.api_version, request=request, concerns=concerns, broker=context.node)
        if some.strike_some:
            served = buffer[start:end] if fault.after else self._frame(context, some.request_of_others())
            response = self._engine.feed(context, served, 0, len(served))
            change = partial(some.response, code=code, why=why)
            return _held_back(response, context, partial(_changed, reply_to=reply_to, change=change))
        request = complete_fetch(request, context.node)
        refusal = error_response(api, context.api_version, request=request, code=code, why=why)
        if refusal is None:
            raise CloseConnection(f"fault {active.number}: {api.name} has no response for {code.name}")
        if isinstance(refusal, FetchResponse):
            clear_other_topics(refusal, concerns, context.node)
        frame = (encode_response(*reply_to, refusal),)
        if not fault.after:
            return frame
        return _held_back(self._engine.feed(context, buffer, start, end), context, lambda _: frame)

    def _frame(self, context: RequestContext, request: object) -> memoryview:
        """Return a request encoded with the header of the context."""
        header = RequestHeader(
            context.api_key, context.api_version, context.correlation_id, context.client_id
        )
        return memoryview(bytearray(encode_request(header, request)))[_SIZE.size :]


def _held_back(response: Response, context: RequestContext, step: Callable[[Frame], Frame]) -> Response:
    """Return what `step` makes of a response; until it is there the connection handles no other request."""

    async def changed(pending: Response) -> Response:
        return step(await frame_of(pending, context.node.purgatory))

    return step(response) if isinstance(response, tuple) else AwaitedResponse(response, changed)


def _close() -> Response:
    raise CloseConnection("a fault left a request without a response")


def _changed(frame: Frame, *, reply_to: tuple[int, int, int], change: Callable[[Any], object]) -> Frame:
    _, response = decode_response(*reply_to[:2], memoryview(b"".join(frame))[_SIZE.size :])
    return (encode_response(*reply_to, change(response)),)
