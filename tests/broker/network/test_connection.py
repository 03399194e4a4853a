"""Connections: frames cut anywhere, responses in order, handlers that fail, hostile bytes."""

from __future__ import annotations

import contextlib
import gc
import logging
import random
import struct
from copy import copy
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcli.broker.handlers import metadata as metadata_handlers
from kcli.broker.network.apis import APIS, Api
from kcli.broker.network.connection import TURN_SECONDS, Connection
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kcli.protocol.schema.declaration import message_info
from tests.broker.network.frames import all_metadata, frame
from tests.broker.records import batch, fetch_request, fetched, produce_request, produced, values
from tests.broker.single_node import Client, connected, running_node
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kcli.broker.network.request_context import RequestContext


def mixed_requests(count: int) -> Iterator[tuple[object, int]]:
    choose = random.Random(1)
    for number in range(count):
        yield choose.choice(
            [
                (ApiVersionsRequest(client_software_name="a", client_software_version="1"), number % 5),
                (all_metadata(), 1 + number % 12),
                (produce_request("t", batch(b"%d" % number), acks=choose.choice([-1, 1])), 3 + number % 9),
                (fetch_request("t", 0, max_bytes=100_000), 4 + number % 8),
                (fetch_request("empty", 0, max_wait_ms=5), 4 + number % 8),
                (
                    ListOffsetsRequest(
                        replica_id=-1,
                        topics=[
                            ListOffsetsTopic(
                                name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)]
                            )
                        ],
                    ),
                    1 + number % 9,
                ),
            ]
        )


async def test_pipelined_requests_are_answered_in_order(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        node.create_topic("empty")
        requests = list(mixed_requests(100))
        await client.stream.send_all(
            b"".join(frame(request, version, number) for number, (request, version) in enumerate(requests))
        )
        for number, (request, version) in enumerate(requests):
            info = message_info(type(request))
            correlation_id, response = await client.receive(info.key, version)
            assert correlation_id == number
            assert type(response) is info.response


async def test_a_parked_request_holds_back_those_behind_it(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client, connected(node) as other:
        node.create_topic("t")
        await client.send(fetch_request("t", max_wait_ms=20_000), 12)
        await client.send(all_metadata(), 9)
        assert (await other.ask(all_metadata(), 9)).topics[0].name == "t"
        with trio.move_on_after(0.05) as scope:
            await client.receive_frame()
        assert scope.cancelled_caught
        await other.ask(produce_request("t", batch(b"wake up")), 9)
        assert values(fetched((await client.receive(1, 12))[1])) == [(0, b"wake up")]
        assert (await client.receive(3, 9))[0] == 2


async def test_what_the_socket_holds_behind_a_parked_request_is_read(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        # One receive leaves most of it in the socket, and the kernel does not tell of it again.
        node.buffers.scratch = memoryview(bytearray(8192))
        await client.ask(all_metadata(), 9)
        parked = frame(fetch_request("t", max_wait_ms=50), 11)
        behind = [frame(ApiVersionsRequest(), 0, number) for number in range(2, 1000)]
        await client.stream.send_all(parked + b"".join(behind))
        with trio.fail_after(30):
            for number in range(1, 1000):
                received = await client.receive_frame()
                assert int.from_bytes(received[:4], "big") == number


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 11, 100, 4096, 4099, 65_536])
async def test_frames_arrive_in_any_pieces(cut: int, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        sizes = [10, 5000, 70_000, 20, 300_000, 1] if cut >= 100 else [10, 600, 20]
        requests = [produce_request("t", batch(b"v" * size)) for size in sizes]
        data = b"".join(frame(request, 9, number) for number, request in enumerate(requests))
        async with trio.open_nursery() as nursery:

            async def send() -> None:
                for start in range(0, len(data), cut):
                    await client.stream.send_all(data[start : start + cut])
                    await trio.lowlevel.checkpoint()

            nursery.start_soon(send)
            for number in range(len(requests)):
                correlation_id, response = await client.receive(0, 9)
                assert correlation_id == number
                assert (produced(response).error_code, produced(response).base_offset) == (0, number)
        response = await client.ask(fetch_request("t", max_bytes=10 << 20), 12)
        assert [len(value or b"") for _, value in values(fetched(response))] == sizes


@pytest.mark.parametrize("size", [-1, -5, -(2**31), 104_857_601, 200_000_000, 2**31 - 1])
async def test_a_frame_of_impossible_size_closes_only_its_connection(
    size: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_node(tmp_path) as node, connected(node) as client, connected(node) as other:
        await client.stream.send_all(struct.pack(">i", size) + b"\x00" * 20)
        assert await client.is_closed()
        assert (await other.ask(all_metadata(), 9)).topics == []
    assert len(caplog.records) == 1
    assert f"announces {size} bytes" in caplog.text


async def test_the_limit_of_a_request_is_configured(tmp_path: Path) -> None:
    async with running_node(tmp_path, {"socket.request.max.bytes": "1000"}) as node:
        async with connected(node) as client:
            await client.stream.send_all(struct.pack(">i", 1001))
            assert await client.is_closed()
        async with connected(node) as client:
            await client.stream.send_all(struct.pack(">i", 1000))
            with trio.move_on_after(0.05) as scope:
                await client.is_closed()
            assert scope.cancelled_caught


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00\x03",
        struct.pack(">hhi", 3, 1, 1),
        struct.pack(">hhih", 3, 1, 1, 5) + b"ab",
        struct.pack(">hhih", 3, 1, 1, -2) + b"ab",
        struct.pack(">hhih", 3, 9, 1, -1),
        struct.pack(">hhih", 3, 9, 1, -1) + b"\x01\x05",
        struct.pack(">hhih", 3, 1, 1, -1) + struct.pack(">i", 2**31 - 1),
    ],
)
async def test_what_cannot_be_read_closes_only_its_connection(
    body: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_node(tmp_path) as node, connected(node) as client, connected(node) as other:
        await client.stream.send_all(struct.pack(">i", len(body)) + body)
        assert await client.is_closed()
        assert (await other.ask(all_metadata(), 9)).topics == []
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_a_client_id_that_is_not_utf_8_is_served_as_by_kafka(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        for client_id in (b"\xff", b"client \xc3(", b"client"):
            body = struct.pack(">hhih", 3, 1, 6, len(client_id)) + client_id + bytes(4)
            await client.stream.send_all(struct.pack(">i", len(body)) + body)
            correlation_id, response = await client.receive(3, 1)
            assert (correlation_id, response.topics) == (6, [])


async def test_tagged_fields_in_a_header_are_skipped(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        body = struct.pack(">hhih", 3, 9, 6, 1) + b"c" + b"\x01\x05\x03abc" + b"\x00\x01\x00\x00\x00"
        await client.stream.send_all(struct.pack(">i", len(body)) + body)
        assert (await client.receive(3, 9))[0] == 6


# --- handlers that fail --------------------------------------------------------------------------


def replaced(key: int, handler: Any, failed: Any = None) -> tuple[Api, ...]:
    """Return the API table with another handler for one API."""
    changed = copy(next(api for api in APIS if api.key == key))
    changed.handler, changed.failed = handler, failed
    return tuple(changed if api.key == key else api for api in APIS)


def raises_a_bug(request: object, context: object) -> None:
    raise RuntimeError("a bug")


async def raises_later(request: object, context: object) -> None:
    await trio.lowlevel.checkpoint()
    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)


async def test_a_bug_in_a_handler_becomes_an_error_response(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    apis = replaced(3, raises_a_bug, metadata_handlers.failed_metadata)
    async with running_node(tmp_path, apis=apis) as node, connected(node) as client:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        for _ in range(2):
            response = await client.ask(request, 9)
            assert response.topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert caplog.text.count("RuntimeError: a bug") == 2


async def test_a_bug_closes_the_connection_where_there_is_no_error_response(tmp_path: Path) -> None:
    async with running_node(tmp_path, apis=replaced(3, raises_a_bug)) as node:
        async with connected(node) as client:
            await client.send(all_metadata(), 9)
            assert await client.is_closed()
        async with connected(node) as client:
            request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
            assert (await client.ask(request, 3)).error_code == 0


async def test_an_async_handler_may_fail_later(tmp_path: Path) -> None:
    apis = replaced(3, raises_later, metadata_handlers.failed_metadata)
    async with running_node(tmp_path, apis=apis) as node, connected(node) as client:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        response = await client.ask(request, 9)
        assert response.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_one_that_asks_for_much_lets_others_run_after_each_long_request(tmp_path: Path) -> None:
    handled = 0

    def takes_long(request: object, context: RequestContext) -> MetadataResponse:
        nonlocal handled
        handled += 1
        ends = perf_counter() + 2 * TURN_SECONDS
        while perf_counter() < ends:
            pass
        return MetadataResponse(brokers=[], topics=[])

    apis = replaced(3, takes_long)
    async with running_node(tmp_path, apis=apis) as node, connected(node) as greedy, connected(node) as other:
        # Each receive has one request and a part of the next.
        node.buffers.scratch = memoryview(bytearray(8192))
        large = MetadataRequest(topics=[MetadataRequestTopic(name="t" * 200)] * 25)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(greedy.stream.send_all, frame(large, 9) * 60)
            await greedy.receive(3, 9)
            between = []
            while handled < 50:
                before = handled
                await other.ask(ApiVersionsRequest(), 0)
                between.append(handled - before)
        assert max(between) <= 5, between


async def test_unfinished_requests_hold_a_bounded_amount(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client, connected(node) as other:
        node.create_topic("t")
        node.buffers.held_limit = 3_000_000
        await client.stream.send_all(struct.pack(">i", 50_000_000) + bytes(2_000_000))
        await until(lambda: node.buffers.held_bytes == 2_000_004)
        assert produced(await other.ask(produce_request("t", batch(b"v" * 900_000)), 9)).error_code == 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_until_closed, other, struct.pack(">i", 50_000_000) + bytes(2_000_000))
            assert await other.is_closed()
        assert 0 < node.buffers.held_bytes <= 3_000_000
        await client.stream.aclose()
        await until(lambda: not node.server.connections)
        assert node.buffers.held_bytes == 0


async def send_until_closed(client: Client, data: bytes) -> None:
    with contextlib.suppress(trio.BrokenResourceError):
        await client.stream.send_all(data)


# --- hostile bytes -------------------------------------------------------------------------------


def damaged_frames() -> st.SearchStrategy[bytes]:
    good = [frame(request, version) for request, version in mixed_requests(40)]

    def damage(data: bytes, flips: list[tuple[int, int]], cut: int) -> bytes:
        body = bytearray(data[4:])
        for position, value in flips:
            body[position % len(body)] = value
        del body[len(body) - cut % (len(body) // 2 + 1) :]
        return struct.pack(">i", len(body)) + bytes(body)

    return st.builds(
        damage,
        st.sampled_from(good),
        st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=8),
        st.one_of(st.just(0), st.integers(0, 10_000)),
    )


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frames=st.lists(damaged_frames(), min_size=1, max_size=6), tail=st.binary(max_size=20))
def test_damaged_frames_harm_nobody_else(
    frames: list[bytes], tail: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def main() -> None:
        directory = tmp_path_factory.mktemp("node")
        async with running_node(directory) as node:
            node.create_topic("t")
            node.create_topic("empty")
            async with connected(node) as client:
                with contextlib.suppress(trio.BrokenResourceError):
                    await client.stream.send_all(b"".join(frames) + tail)
            async with connected(node) as other:
                assert produced(await other.ask(produce_request("t", batch(b"fine")), 9)).error_code == 0
            await until(lambda: not node.server.connections)
            assert node.purgatory.watched_keys == 0

    logging.getLogger("kcli").setLevel(logging.CRITICAL)
    try:
        trio.run(main)
    finally:
        logging.getLogger("kcli").setLevel(logging.NOTSET)


async def test_a_closed_connection_is_freed_without_the_garbage_collector(tmp_path: Path) -> None:
    """What a client sent of itself, its id above all, would stay for as long as that has no reason to run."""
    async with running_node(tmp_path) as node:
        gc.collect()
        gc.disable()
        try:
            for _ in range(3):
                async with connected(node) as client:
                    await client.ask(all_metadata(), 9)
                await until(lambda: not node.server.connections)
            async with connected(node) as client:
                await client.ask(all_metadata(), 9)
                assert sum(type(each) is Connection for each in gc.get_objects()) == 1
        finally:
            gc.enable()
