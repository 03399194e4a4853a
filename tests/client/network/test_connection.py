"""A connection answers in order, survives cancelled callers, and closes when a response is late or wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio
from trio.testing import memory_stream_pair

from kcli.client.config import ClientConfig
from kcli.client.network.connection import (
    Connection,
    Disconnected,
    HungUp,
    NotKafka,
    RequestTimedOut,
    UnsupportedVersion,
)
from kcli.errors import KcliError
from kcli.protocol.frames import FrameReader, encode_response, parse_request_header
from kcli.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kcli.protocol.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

API_KEYS = [
    ApiVersion(api_key=22, min_version=0, max_version=4),
    ApiVersion(api_key=18, min_version=0, max_version=4),
]
REQUEST = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)


class Peer:
    """The broker's end of one connection: it negotiates, then the test answers each request."""

    def __init__(self) -> None:
        self.ours, self.theirs = memory_stream_pair()
        self.reader = FrameReader(10**6)
        self.connection = Connection(self.ours, "peer:9092", ClientConfig(request_timeout_ms=10_000))

    async def next_request(self) -> tuple[int, int, int]:
        """Return (api key, version, correlation id) of the next request."""
        while True:
            for frame in self.reader:
                header, _ = parse_request_header(frame)
                return header.api_key, header.api_version, header.correlation_id
            self.reader.feed(await self.theirs.receive_some())

    async def answer(self, correlation_id: int, producer_id: int, throttle_ms: int = 0) -> None:
        response = InitProducerIdResponse(
            producer_id=producer_id, producer_epoch=0, throttle_time_ms=throttle_ms
        )
        await self.theirs.send_all(encode_response(22, 4, correlation_id, response))

    async def negotiate(self) -> None:
        key, version, correlation_id = await self.next_request()
        assert (key, version) == (18, 4)
        response = ApiVersionsResponse(api_keys=API_KEYS)
        await self.theirs.send_all(encode_response(18, version, correlation_id, response))


async def with_peer(test: Callable[[Peer], Awaitable[None]]) -> None:
    """Run a test against a negotiated connection."""
    peer = Peer()
    ready = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(peer.connection.run, ready.set)
        await peer.negotiate()
        await ready.wait()
        await test(peer)
        nursery.cancel_scope.cancel()


async def call(peer: Peer, results: list[Any], name: Any) -> None:
    try:
        response = await peer.connection.request(REQUEST, 4)
        results.append((name, response.producer_id))
    except KcliError as error:
        results.append((name, type(error)))


async def test_five_pipelined_requests_are_answered_in_order(autojump_clock: trio.testing.MockClock) -> None:
    async def test(peer: Peer) -> None:
        results: list[Any] = []
        async with trio.open_nursery() as nursery:
            for name in range(5):
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(call, peer, results, name)
            sent = [await peer.next_request() for _ in range(5)]
            for number, (_, _, correlation_id) in enumerate(sent):
                await peer.answer(correlation_id, 100 + number)
        assert sorted(results) == [(name, 100 + name) for name in range(5)]

    await with_peer(test)


async def test_no_more_than_five_are_in_flight(autojump_clock: trio.testing.MockClock) -> None:
    async def test(peer: Peer) -> None:
        results: list[Any] = []
        async with trio.open_nursery() as nursery:
            for name in range(6):
                nursery.start_soon(call, peer, results, name)
            sent = [await peer.next_request() for _ in range(5)]
            with trio.move_on_after(5) as scope:
                await peer.next_request()
            assert scope.cancelled_caught
            await peer.answer(sent[0][2], 7)
            sent.append(await peer.next_request())
            for _, _, correlation_id in sent[1:]:
                await peer.answer(correlation_id, 7)
        assert len(results) == 6

    await with_peer(test)


async def test_a_cancelled_caller_leaves_the_connection_usable(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def test(peer: Peer) -> None:
        results: list[Any] = []
        with trio.move_on_after(1):
            await peer.connection.request(REQUEST, 4)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, peer, results, "next")
            first = await peer.next_request()
            second = await peer.next_request()
            await peer.answer(first[2], 1)
            await peer.answer(second[2], 2)
        assert results == [("next", 2)]

    await with_peer(test)


async def test_a_late_response_fails_all_in_flight_and_queued(autojump_clock: trio.testing.MockClock) -> None:
    async def test(peer: Peer) -> None:
        results: list[Any] = []
        start = trio.current_time()
        async with trio.open_nursery() as nursery:
            for name in range(7):
                nursery.start_soon(call, peer, results, name)
        assert trio.current_time() - start == pytest.approx(10)
        assert sorted(results) == [(name, RequestTimedOut) for name in range(7)]
        with pytest.raises(RequestTimedOut):
            await peer.connection.request(REQUEST, 4)

    await with_peer(test)


async def test_a_lost_connection_fails_all_in_flight() -> None:
    async def test(peer: Peer) -> None:
        results: list[Any] = []
        async with trio.open_nursery() as nursery:
            for name in range(3):
                nursery.start_soon(call, peer, results, name)
            for _ in range(3):
                await peer.next_request()
            await peer.theirs.aclose()
        assert sorted(results) == [(name, HungUp) for name in range(3)]

    await with_peer(test)


@pytest.mark.parametrize("what", ["out of order", "unasked", "garbage", "oversized"])
async def test_wrong_responses_close_the_connection(what: str) -> None:
    async def test(peer: Peer) -> None:
        results: list[Any] = []
        async with trio.open_nursery() as nursery:
            if what != "unasked":
                nursery.start_soon(call, peer, results, what)
                _, _, correlation_id = await peer.next_request()
            match what:
                case "out of order":
                    await peer.answer(correlation_id + 1, 1)
                case "unasked":
                    await peer.answer(99, 1)
                case "garbage":
                    await peer.theirs.send_all(b"\0\0\0\x05" + correlation_id.to_bytes(4, "big") + b"\0")
                case "oversized":
                    await peer.theirs.send_all(b"\x7f\xff\xff\xff")
        with trio.fail_after(30):
            while not peer.connection.is_closed:
                await trio.lowlevel.checkpoint()
        assert results == ([] if what == "unasked" else [(what, Disconnected)])

    await with_peer(test)


async def test_a_throttle_time_holds_the_next_request_back(autojump_clock: trio.testing.MockClock) -> None:
    async def test(peer: Peer) -> None:
        results: list[Any] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, peer, results, "first")
            await peer.answer((await peer.next_request())[2], 1, throttle_ms=3000)
            await trio.testing.wait_all_tasks_blocked()
            start = trio.current_time()
            nursery.start_soon(call, peer, results, "second")
            request = await peer.next_request()
            assert trio.current_time() - start == pytest.approx(3)
            await peer.answer(request[2], 2)

    await with_peer(test)


async def test_an_idle_connection_closes(autojump_clock: trio.testing.MockClock) -> None:
    async def test(peer: Peer) -> None:
        await trio.sleep(539)
        assert not peer.connection.is_closed
        await trio.sleep(2)
        assert peer.connection.is_closed

    await with_peer(test)


async def test_an_unsupported_version_is_told_without_sending() -> None:
    async def test(peer: Peer) -> None:
        with pytest.raises(UnsupportedVersion, match="does not support Metadata"):
            peer.connection.versions.choose(MetadataRequest)
        with pytest.raises(UnsupportedVersion, match="the broker has 0 to 4, needed is 5 to 5"):
            peer.connection.versions.choose(InitProducerIdRequest, min_version=5)
        assert peer.connection.versions.choose(InitProducerIdRequest) == 4

    await with_peer(test)


@pytest.mark.parametrize(("offered", "expected"), [([(18, 0, 2)], 2), ([], 0)])
async def test_error_35_is_read_as_version_0_and_asked_again(
    offered: list[tuple[int, int, int]], expected: int
) -> None:
    peer = Peer()
    ready = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(peer.connection.run, ready.set)
        _, _, correlation_id = await peer.next_request()
        keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in offered]
        refusal = ApiVersionsResponse(error_code=35, api_keys=keys)
        await peer.theirs.send_all(encode_response(18, 0, correlation_id, refusal))
        _, version, correlation_id = await peer.next_request()
        assert version == expected
        response = ApiVersionsResponse(api_keys=API_KEYS)
        await peer.theirs.send_all(encode_response(18, version, correlation_id, response))
        await ready.wait()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("received", "error", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", NotKafka, "does not speak the Kafka protocol"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", NotKafka, "does not speak the Kafka protocol"),
        (b"\x15\x03\x01\x00\x02\x02\x46", NotKafka, "does not speak the Kafka protocol"),
        (b"\0\0\0\x08\0\0\0\x01\0\0\xff\xff", NotKafka, "does not speak the Kafka protocol"),
        (b"", Disconnected, "closed the connection without answering"),
    ],
)
async def test_what_is_not_a_broker_is_called_so(
    received: bytes, error: type[KcliError], message: str
) -> None:
    peer = Peer()

    async def answer() -> None:
        await peer.next_request()
        await peer.theirs.send_all(received)
        await peer.theirs.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        with pytest.raises(error, match=message) as raised:
            await peer.connection.run(lambda: None)
    assert raised.value.hint
    assert ("TLS" in raised.value.hint) == received.startswith(b"\x15")
