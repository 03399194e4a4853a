"""FaultyEngine: stands before a node's `RequestEngine` while requests to the node shall suffer.

Connections feed it instead of the engine as long as there is such a fault, and the engine itself when there
is none: without faults they cost nothing.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, NoReturn

import trio

from kcli.broker.faults.error_answers import error_answer, with_topic_errors
from kcli.broker.faults.request_topics import complete_fetch, topics_of
from kcli.broker.purgatory import DelayedOperation
from kcli.broker.request_context import CloseConnection
from kcli.protocol.headers import decode_response, encode_response, parse_request_header
from kcli.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kcli.protocol.schema import DecodeError, message_info

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from kcli.broker.api import Api
    from kcli.broker.faults.active_fault import ActiveFault
    from kcli.broker.request_context import RequestContext
    from kcli.broker.request_engine import Answer, RequestEngine

NEVER_MS = 7 * 24 * 3600 * 1000
"""How long a request that is never answered waits for its client to leave."""

_SIZE = Struct(">i")
_METADATA_KEY = message_info(MetadataRequest).key


class Unanswered(DelayedOperation):
    """A request whose answer never comes. Its connection ends when the client closes it."""

    __slots__ = ()

    def try_complete(self, key: object) -> bool:
        return False

    def finish(self) -> NoReturn:
        raise CloseConnection("a fault left a request without an answer")


class FaultyEngine:
    """What connections of one node feed while `faults`, in this order, concern its requests."""

    def __init__(self, engine: RequestEngine, apis: Iterable[Api], faults: list[ActiveFault]) -> None:
        self._engine = engine
        self._apis = {api.key: api for api in apis}
        self.faults = faults

    def feed(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> Answer:
        """Handle the request in `buffer[start:end]`, or do what a fault wants. Raises `CloseConnection`."""
        active = self._find(context, buffer, start, end)
        if active is None:
            return self._engine.feed(context, buffer, start, end)
        fault = active.request_fault
        if fault.code is not None and context.api_key == _METADATA_KEY:
            return self._metadata_error(active, context, buffer, start, end)
        if fault.after:
            refusal = self._refusal(active, context, buffer, start, end) if fault.code is not None else None
            return self._afterwards(active, context, self._engine.feed(context, buffer, start, end), refusal)
        match fault.kind:
            case "drop":
                return self._unanswered(context)
            case "disconnect":
                raise CloseConnection(f"fault {active.number}")
            case "delay":
                # The buffer is not ours any longer than this call.
                return self._delayed(context, bytearray(buffer[start:end]), fault.delay_ms)
            case _:
                return self._refusal(active, context, buffer, start, end)

    def finish(self, operation: DelayedOperation) -> Answer:
        """Return the answer of a request whose operation has ended."""
        return self._engine.finish(operation)

    # --- which fault ---------------------------------------------------------------------------------

    def _find(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> ActiveFault | None:
        """Return the fault that a request meets, counted as met."""
        try:
            header, _ = parse_request_header(buffer[start:end])
            api = self._apis.get(header.api_key)
            if api is None:
                return None
            client_id = header.client_id or ""
            candidates = [each for each in self.faults if each.request_fault.concerns(api.name, client_id)]
            if not candidates:
                return None
            read = self._engine.read(context, buffer, start, end)
            if read is None:
                return None
            topics: set[str] | None = None
            for active in candidates:
                if active.request_fault.topic is not None:
                    if topics is None:
                        topics = topics_of(complete_fetch(read[1], context.broker), context.broker)
                    if not active.request_fault.concerns_any(topics):
                        continue
                if active.strikes():
                    return active
        except DecodeError:
            pass  # The engine says what is wrong with it.
        return None

    # --- what it does --------------------------------------------------------------------------------

    def _unanswered(self, context: RequestContext) -> Unanswered:
        operation = Unanswered()
        context.broker.purgatory.park(operation, (), NEVER_MS)
        return operation

    async def _delayed(self, context: RequestContext, frame: bytearray, delay_ms: int) -> Answer:
        await trio.sleep(delay_ms / 1000)
        return self._engine.feed(context, memoryview(frame), 0, len(frame))

    def _refusal(
        self, active: ActiveFault, context: RequestContext, buffer: memoryview, start: int, end: int
    ) -> bytes:
        read = self._engine.read(context, buffer, start, end)
        code = active.request_fault.code
        assert read is not None
        assert code is not None
        api, request = read
        why = f"{code.description} (fault {active.number})"
        response = error_answer(
            api, context.api_version, complete_fetch(request, context.broker), code, why=why
        )
        if response is None:
            raise CloseConnection(f"fault {active.number}: {api.name} has no answer for {code.name}")
        return encode_response(context.api_key, context.api_version, context.correlation_id, response)

    async def _afterwards(
        self, active: ActiveFault, context: RequestContext, answer: Answer, refusal: bytes | None
    ) -> Answer:
        """Do harm to an answer, once it is there."""
        answer = await self._resolved(context, answer)
        fault = active.request_fault
        match fault.kind:
            case "drop":
                return self._unanswered(context)
            case "disconnect":
                raise CloseConnection(f"fault {active.number}")
            case "delay":
                await trio.sleep(fault.delay_ms / 1000)
                return answer
            case _:
                return refusal

    async def _resolved(self, context: RequestContext, answer: Answer) -> bytes | list[Any] | None:
        while answer is not None and not isinstance(answer, bytes | list):
            if isinstance(answer, DelayedOperation):
                await context.broker.purgatory.wait(answer)
                answer = self._engine.finish(answer)
            else:
                answer = await answer
        return answer

    def _metadata_error(
        self, active: ActiveFault, context: RequestContext, buffer: memoryview, start: int, end: int
    ) -> Coroutine[Any, Any, bytes]:
        answer = self._engine.feed(context, buffer, start, end)
        fault = active.request_fault
        assert fault.code is not None
        code = fault.code

        async def put_errors() -> bytes:
            parts = await self._resolved(context, answer)
            frame = b"".join(parts) if isinstance(parts, list) else parts or b""
            key, version = context.api_key, context.api_version
            correlation_id, response = decode_response(key, version, memoryview(frame)[_SIZE.size :])
            assert isinstance(response, MetadataResponse)
            with_topic_errors(response, code, lambda topic: fault.concerns_any((topic,)))
            return encode_response(key, version, correlation_id, response)

        return put_errors()
