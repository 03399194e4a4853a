"""Responses that are given up before they are awaited: their sources end with them, through every layer."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio

from kcli.broker.faults.fault import ActiveFault, RequestFault
from kcli.broker.faults.fault_engine import FaultEngine
from kcli.broker.metadata.metadata_image import PRODUCER_BYTE_RATE
from kcli.broker.metering.meters import TimingEngine
from kcli.broker.metering.request_times import RequestTimes
from kcli.broker.network.apis import APIS
from kcli.broker.network.client_quotas import ClientQuotas
from kcli.broker.network.quota_engine import QuotaEngine
from kcli.broker.network.request_context import RequestContext
from kcli.broker.network.request_engine import RequestEngine
from kcli.broker.network.responses import AwaitedResponse, ParkedResponse
from kcli.broker.waiting.purgatory import DelayedOperation, Purgatory
from kcli.broker.waiting.timer import Timer
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.produce import TopicProduceData
from tests.broker.network.frames import frame
from tests.broker.records import batch, produce_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.broker.network.request_engine import Engine
    from kcli.broker.network.responses import Response

    Wrap = Callable[[Engine], Engine]

VERSION = 9
READER = RequestEngine(APIS)


class Handler:
    """An engine with one response to every request."""

    def __init__(self, answer: Response) -> None:
        self._answer = answer

    def feed(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> Response:
        return self._answer


def timed(engine: Engine) -> Engine:
    return TimingEngine(engine, reader=READER, times=[RequestTimes(0.0)])


def limited(engine: Engine) -> Engine:
    quotas = ClientQuotas(samples=11, sample_ms=1000)
    quotas.update({(("client-id", "test"),): {PRODUCER_BYTE_RATE: 1.0}})
    return QuotaEngine(engine, quotas=quotas)


def faulty(engine: Engine, **fault: Any) -> Engine:
    active = ActiveFault(1, RequestFault(**fault), seed=0, spent=lambda _: None)
    return FaultEngine(engine, reader=READER, apis=APIS, faults=[active])


DELAYED = partial(faulty, kind="delay", delay_ms=100, after=True)
REFUSED = partial(faulty, kind="error", code=ErrorCode.REQUEST_TIMED_OUT, after=True)
REFUSED_IN_PART = partial(faulty, kind="error", code=ErrorCode.REQUEST_TIMED_OUT, topic="other", after=True)
LAYERS: dict[str, tuple[Wrap, ...]] = {
    "none": (),
    "times": (timed,),
    "quotas": (limited,),
    "a fault that delays": (DELAYED,),
    "a fault that refuses": (REFUSED,),
    "a fault that refuses a topic": (REFUSED_IN_PART,),
    "all": (DELAYED, limited, timed),
}


def fed(answer: Response, layers: tuple[Wrap, ...]) -> Response:
    """Feed a write to topics `t` and `other` to layers before an engine with this response."""
    engine: Engine = Handler(answer)
    for wrap in layers:
        engine = wrap(engine)
    request = produce_request("t", batch(b"value"))
    request.topic_data.append(
        TopicProduceData(name="other", partition_data=request.topic_data[0].partition_data)
    )
    buffer = memoryview(bytearray(frame(request, VERSION)))
    context = RequestContext(cast("Any", None), "PLAINTEXT", "test")
    context.api_version = VERSION
    return engine.feed(context, buffer, 4, len(buffer))


async def to_come() -> bytes:
    await trio.sleep_forever()
    return b""


async def made_of(coroutine: Any) -> Response:
    return (await coroutine,)


def never() -> Response:
    raise AssertionError("no operation ends here")


@pytest.mark.parametrize("layers", LAYERS.values(), ids=LAYERS)
async def test_what_a_handler_has_made_ends_with_an_answer_that_nobody_awaits(
    layers: tuple[Wrap, ...],
) -> None:
    coroutine = to_come()
    answer = fed(AwaitedResponse(coroutine, made_of), layers)
    assert isinstance(answer, AwaitedResponse)
    assert (answer.source is not coroutine) == bool(layers)
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED
    answer.give_up(Purgatory(Timer()))
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


async def test_an_operation_is_dropped_with_the_answer_that_is_made_of_it() -> None:
    purgatory = Purgatory(Timer())
    operation = DelayedOperation()
    purgatory.park(operation, ("key",), 1000)
    answer = fed(ParkedResponse(operation, never), (DELAYED,))
    assert isinstance(answer, AwaitedResponse)
    assert purgatory.parked == 1
    answer.give_up(purgatory)
    assert (purgatory.parked, operation.ended) == (0, True)
