"""The times that are counted of a request, on a clock that the tests move."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio

from kcli.broker.metering.meters import TimingEngine
from kcli.broker.metering.request_times import RequestTimes
from kcli.broker.network.apis import APIS
from kcli.broker.network.request_context import CloseConnection, RequestContext
from kcli.broker.network.request_engine import RequestEngine
from kcli.broker.network.responses import AwaitedResponse, ParkedResponse
from kcli.broker.waiting.purgatory import DelayedOperation, Purgatory
from kcli.broker.waiting.timer import Timer
from kcli.protocol.frames import RequestHeader, encode_request
from kcli.protocol.messages.fetch import FetchRequest, ReplicaState
from kcli.protocol.messages.heartbeat import HeartbeatRequest
from kcli.protocol.schema.declaration import message_info

if TYPE_CHECKING:
    from collections.abc import Callable

    from trio.testing import MockClock

    from kcli.broker.network.responses import Response

HANDLED_MS = 3
CONTEXT = RequestContext(cast("Any", None), "PLAINTEXT", "test")
READER = RequestEngine(APIS)
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


class Waiting(DelayedOperation):
    """An operation that waits for its time."""


def late() -> Response:
    return (b"late",)


class Handler:
    """An engine that takes three milliseconds and gives the response it was made with."""

    def __init__(self, clock: MockClock, answer: Callable[[], Response]) -> None:
        self._clock = clock
        self._answer = answer

    def feed(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> Response:
        self._clock.jump(HANDLED_MS / 1000)
        return self._answer()


def frame_of(request: object, version: int, client_id: str | None = "test") -> memoryview:
    header = RequestHeader(message_info(type(request)).key, version, 1, client_id)
    return memoryview(bytearray(encode_request(header, request)))[4:]


def fed(engine: TimingEngine, frame: memoryview | None = None) -> Response:
    frame = frame_of(HEARTBEAT, 4) if frame is None else frame
    return engine.feed(CONTEXT, frame, 0, len(frame))


def engine_for(
    clock: MockClock, answer: Callable[[], Response], *times: RequestTimes, reader: RequestEngine = READER
) -> TimingEngine:
    return TimingEngine(Handler(clock, answer), reader=reader, times=times)


def read(times: RequestTimes) -> dict[str, tuple[int, int, int, int]]:
    """The number of requests of each API, and the sums of their times in ms: local, remote, total."""
    return {
        api: (each.total.count, *(round(kind.sum_ns / 1e6) for kind in each))
        for api, each in times.by_api.items()
    }


def begun() -> RequestTimes:
    return RequestTimes(trio.current_time())


async def raise_later(_: object) -> Response:
    await trio.sleep(0.2)
    raise CloseConnection("no")


async def answer_later(answer: Response) -> Response:
    await trio.sleep(0.2)
    return answer


def raise_now() -> Response:
    raise CloseConnection("no")


def later(answer: Response) -> Response:
    return AwaitedResponse(answer, answer_later)


@pytest.mark.parametrize("answer", [(b"done",), (b"in", b"parts"), ()])
async def test_what_is_answered_at_once_or_never_has_a_local_time_only(
    answer: Response, autojump_clock: MockClock
) -> None:
    times = begun()
    engine = engine_for(autojump_clock, lambda: answer, times)
    assert fed(engine) is answer
    assert read(times) == {"Heartbeat": (1, HANDLED_MS, 0, HANDLED_MS)}


async def test_a_response_that_is_there_at_once_has_no_remote_time(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter(range(10))
    monkeypatch.setattr("kcli.broker.metering.meters.current_time", lambda: next(looks) / 1000)
    times = RequestTimes(0.0)

    class AtOnce:
        def feed(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> Response:
            return (b"now",)

    fed(TimingEngine(AtOnce(), reader=READER, times=[times]))
    assert read(times) == {"Heartbeat": (1, 1, 0, 1)}


async def test_what_is_answered_behind_the_end_of_a_measurement_does_not_count(
    autojump_clock: MockClock,
) -> None:
    times = RequestTimes(trio.current_time())
    response = fed(engine_for(autojump_clock, lambda: ParkedResponse(Waiting(), late), times))
    times.is_complete = True
    assert isinstance(response, ParkedResponse)
    assert response.finish() == (b"late",)
    assert read(times) == {}


async def test_an_operation_is_remote_from_when_it_was_handled_to_its_end(autojump_clock: MockClock) -> None:
    times, timer = begun(), Timer()
    purgatory = Purgatory(timer)
    engine = engine_for(autojump_clock, lambda: parked(purgatory, 500), times)
    async with trio.open_nursery() as nursery:
        await nursery.start(timer.run)
        response = fed(engine)
        assert isinstance(response, ParkedResponse)
        assert read(times) == {}
        await purgatory.wait(response.operation)
        assert response.finish() == (b"late",)
        nursery.cancel_scope.cancel()
    assert read(times) == {"Heartbeat": (1, HANDLED_MS, 500, 503)}


def parked(purgatory: Purgatory, timeout_ms: int) -> ParkedResponse:
    operation = Waiting()
    purgatory.park(operation, ("key",), timeout_ms)
    return ParkedResponse(operation, late)


async def test_a_coroutine_is_remote_until_it_has_answered(autojump_clock: MockClock) -> None:
    times = begun()
    answer = fed(engine_for(autojump_clock, lambda: later((b"done",)), times))
    assert await cast("Any", answer) == (b"done",)
    assert read(times) == {"Heartbeat": (1, HANDLED_MS, 200, 203)}


async def test_a_coroutine_that_ends_with_an_operation_counts_once_that_has_ended(
    autojump_clock: MockClock,
) -> None:
    times, operation = begun(), Waiting()
    engine = engine_for(autojump_clock, lambda: later(ParkedResponse(operation, late)), times)
    response = await cast("Any", fed(engine))
    assert response.operation is operation
    assert read(times) == {}
    await trio.sleep(0.3)
    assert response.finish() == (b"late",)
    assert read(times) == {"Heartbeat": (1, HANDLED_MS, 500, 503)}


async def test_an_operation_that_ends_with_a_coroutine_counts_once_that_has_answered(
    autojump_clock: MockClock,
) -> None:
    times = begun()
    engine = engine_for(autojump_clock, lambda: ParkedResponse(Waiting(), lambda: later((b"read",))), times)
    response = fed(engine)
    await trio.sleep(0.3)
    answer = cast("ParkedResponse", response).finish()
    assert read(times) == {}
    assert await cast("Any", answer) == (b"read",)
    assert read(times) == {"Heartbeat": (1, HANDLED_MS, 500, 503)}


async def test_a_request_that_ends_its_connection_is_counted(autojump_clock: MockClock) -> None:
    times = begun()
    with pytest.raises(CloseConnection):
        fed(engine_for(autojump_clock, raise_now, times))
    assert read(times) == {"Heartbeat": (1, HANDLED_MS, 0, HANDLED_MS)}


async def test_one_that_ends_it_later_is_counted_too(autojump_clock: MockClock) -> None:
    times = begun()
    with pytest.raises(CloseConnection):
        await cast("Any", fed(engine_for(autojump_clock, lambda: AwaitedResponse(None, raise_later), times)))
    engine = engine_for(autojump_clock, lambda: ParkedResponse(Waiting(), raise_now), times)
    response = fed(engine)
    await trio.sleep(0.2)
    with pytest.raises(CloseConnection):
        cast("ParkedResponse", response).finish()
    assert read(times) == {"Heartbeat": (2, 2 * HANDLED_MS, 400, 406)}


async def test_what_a_bug_ends_is_raised_and_not_counted(autojump_clock: MockClock) -> None:
    async def fail_later(_: object) -> Response:
        raise LookupError

    def fail_now() -> Response:
        raise LookupError

    times = begun()
    with pytest.raises(LookupError):
        fed(engine_for(autojump_clock, fail_now, times))
    with pytest.raises(LookupError):
        await cast("Any", fed(engine_for(autojump_clock, lambda: AwaitedResponse(None, fail_later), times)))
    assert read(times) == {}


async def test_what_was_parked_before_anybody_measured_is_answered_and_not_counted(
    autojump_clock: MockClock,
) -> None:
    response = ParkedResponse(Waiting(), late)
    times = begun()
    fed(engine_for(autojump_clock, lambda: (b"other",), times))
    assert response.finish() == (b"late",)
    assert read(times) == {"Heartbeat": (1, HANDLED_MS, 0, HANDLED_MS)}


async def test_each_who_measures_counts_what_came_since_and_all_of_it(autojump_clock: MockClock) -> None:
    def parked_one() -> Response:
        return ParkedResponse(Waiting(), late)

    first = begun()
    responses = [fed(engine_for(autojump_clock, parked_one, first))]
    second = begun()
    # The layer is made anew when a second meter starts; the first response keeps what it was given.
    responses.append(fed(engine_for(autojump_clock, parked_one, first, second)))
    await trio.sleep(0.1)
    for response in responses:
        cast("ParkedResponse", response).finish()
    assert read(first) == {"Heartbeat": (2, 2 * HANDLED_MS, 203, 209)}
    assert read(second) == {"Heartbeat": (1, HANDLED_MS, 100, 103)}


async def test_nothing_is_kept_of_a_request_whose_client_has_left(autojump_clock: MockClock) -> None:
    times, timer = begun(), Timer()
    purgatory = Purgatory(timer)
    engine = engine_for(autojump_clock, lambda: parked(purgatory, 500), times)
    response = cast("ParkedResponse", fed(engine))
    kept = weakref.ref(response.operation)
    response.give_up(purgatory)
    del response
    gc.collect()
    assert kept() is None
    assert read(times) == {}


# --- names ---------------------------------------------------------------------------------------------


def fetch(version: int, replica_id: int, rack_id: str = "") -> FetchRequest:
    if version < 15:
        return FetchRequest(replica_id=replica_id, max_wait_ms=1, min_bytes=1, topics=[], rack_id=rack_id)
    state = ReplicaState(replica_id=replica_id, replica_epoch=7)
    return FetchRequest(replica_state=state, max_wait_ms=1, min_bytes=1, topics=[], rack_id=rack_id)


@pytest.mark.parametrize("client_id", ["test", "", None])
@pytest.mark.parametrize(("replica_id", "kind"), [(-1, "FetchConsumer"), (2, "FetchFollower")])
@pytest.mark.parametrize("version", range(19))
async def test_a_fetch_counts_as_that_of_who_sent_it(
    version: int, replica_id: int, kind: str, client_id: str | None, autojump_clock: MockClock
) -> None:
    times = begun()
    fed(
        engine_for(autojump_clock, lambda: (b"",), times),
        frame_of(fetch(version, replica_id), version, client_id),
    )
    one = (1, HANDLED_MS, 0, HANDLED_MS)
    assert read(times) == {"Fetch": one, kind: one}


async def test_a_consumer_whose_rack_looks_like_the_number_of_a_replica_is_one(
    autojump_clock: MockClock,
) -> None:
    times = begun()
    frame = frame_of(fetch(17, -1, rack_id="\x01\x0d" + 12 * "r"), 17)
    fed(engine_for(autojump_clock, lambda: (b"",), times), frame)
    assert "FetchConsumer" in read(times)


async def test_all_fetches_together_are_those_of_consumers_and_followers(autojump_clock: MockClock) -> None:
    times = begun()
    engine = engine_for(autojump_clock, lambda: (b"",), times)
    for replica_id in (-1, 2, -1):
        fed(engine, frame_of(fetch(17, replica_id), 17))
    assert {api: count for api, (count, *_) in read(times).items()} == {
        "Fetch": 3,
        "FetchConsumer": 2,
        "FetchFollower": 1,
    }


@pytest.mark.parametrize(
    ("frame", "api"),
    [
        pytest.param(b"", "unknown", id="nothing"),
        pytest.param(b"\x00", "unknown", id="half a key"),
        pytest.param(b"\x7f\xff\x00\x00\x00\x00\x00\x01\xff\xff", "unknown", id="an API that there is not"),
        pytest.param(b"\x00\x12\x7f\xff\x00\x00\x00\x01\xff\xff", "ApiVersions", id="a version to come"),
        pytest.param(b"\x00\x01", "FetchConsumer", id="a fetch cut off in its header"),
        pytest.param(b"\x00\x01\x00\x04\x00\x00\x00\x01\xff\xff\x00", "FetchConsumer", id="or behind it"),
        pytest.param(
            b"\x00\x01\x00\x11\x00\x00\x00\x01\xff\xff\x00" + b"\x01\x0d" + 13 * b"\x00",
            "FetchConsumer",
            id="or with the end of a follower's",
        ),
    ],
)
async def test_what_cannot_be_read_is_counted_nevertheless(
    frame: bytes, api: str, autojump_clock: MockClock
) -> None:
    times = begun()
    engine = engine_for(autojump_clock, raise_now, times)
    with pytest.raises(CloseConnection):
        fed(engine, memoryview(bytearray(frame)))
    assert read(times)[api] == (1, HANDLED_MS, 0, HANDLED_MS)
