"""Mute connections: their requests wait, and are handled as usual after the pause."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from kcli.broker.network.quota_engine import QuotaEngine
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.list_groups import ListGroupsRequest
from kcli.protocol.messages.metadata import MetadataRequest
from tests.broker.network.limited_node import (
    LARGE_REQUESTS,
    LIMIT,
    METADATA_KEY,
    VALUE,
    frame_of,
    has_no_answer,
    held,
    lagging,
    limited_node,
    mute,
    pause_of,
    set_quotas,
    until,
)
from tests.broker.records import batch, produce_request, produced
from tests.broker.single_node import connected, running_node

if TYPE_CHECKING:
    from pathlib import Path


PRODUCE_KEY = 0


async def test_every_request_behind_a_pause_waits_in_its_order(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with limited_node(tmp_path, producer_byte_rate=LIMIT) as node, connected(node) as client:
        first = await client.send(produce_request("t", batch(VALUE)), 7)
        groups = await client.send(ListGroupsRequest(), 1)
        second = await client.send(produce_request("t", batch(b"v")), 7)
        metadata = await client.send(MetadataRequest(topics=[]), 4)
        correlation_id, response = await client.receive(PRODUCE_KEY, 7)
        assert correlation_id == first
        await held(node)
        assert await has_no_answer(client)
        clock.jump(pause_of(response) / 1000)
        assert (await client.receive(16, 1))[0] == groups
        correlation_id, response = await client.receive(PRODUCE_KEY, 7)
        assert correlation_id == second
        clock.jump(pause_of(response) / 1000 + 0.001)
        assert (await client.receive(METADATA_KEY, 4))[0] == metadata


async def test_a_node_without_quotas_has_nothing_before_its_engine(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        await client.ask(MetadataRequest(topics=[]), 4)
        (connection,) = node.server.connections  # type: ignore[attr-defined]
        assert not isinstance(connection._engine, QuotaEngine)
        set_quotas(node, producer_byte_rate=1)
        assert isinstance(connection._engine, QuotaEngine)
        assert pause_of(await client.ask(produce_request("t", batch(b"v")), 7)) > 0
        set_quotas(node, producer_byte_rate=None)
        assert not isinstance(connection._engine, QuotaEngine)
        await client.ask(MetadataRequest(topics=[]), 4)


async def test_what_waits_is_heard_in_its_time_when_all_quotas_are_gone(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with limited_node(tmp_path, producer_byte_rate=LIMIT) as node, connected(node) as client:
        pause_seconds = await mute(client, node)
        set_quotas(node, producer_byte_rate=None)
        clock.jump(pause_seconds + 0.001)
        await client.receive(METADATA_KEY, 4)


async def test_a_connection_that_is_closed_takes_what_waits_with_it(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with limited_node(tmp_path, producer_byte_rate=1) as node, connected(node) as client:
        await mute(client, node)
        (connection,) = node.server.connections  # type: ignore[attr-defined]
        connection.close()
        await until(lambda: not node.server.connections)  # type: ignore[attr-defined]
        assert node.timer.count == 0
        assert await client.is_closed()


async def test_a_broker_that_stops_waits_for_no_pause(tmp_path: Path, clock: trio.testing.MockClock) -> None:
    before = trio.current_time()
    async with limited_node(tmp_path, producer_byte_rate=1) as node, connected(node) as client:
        await mute(client, node)
    # The node is stopped by now, while the client still waited.
    assert trio.current_time() == before
    assert node.timer.count == 0


async def test_the_sweep_of_idle_connections_spares_those_that_have_to_pause(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with limited_node(tmp_path, producer_byte_rate=1) as node, connected(node) as client:
        response = await client.ask(produce_request("t", batch(VALUE)), 7)
        server = node.server  # type: ignore[attr-defined]
        for _ in range(pause_of(response) // 600_000 - 1):
            clock.jump(599)
            await server.sweep_once(trio.current_time())
        (connection,) = server.connections
        assert not connection.is_closing
        await client.send(MetadataRequest(topics=[]), 4)
        await held(node)
        await server.sweep_once(trio.current_time())
        assert not connection.is_closing
        clock.jump(1300)
        await client.receive(METADATA_KEY, 4)
        # Then it is as idle as any other.
        for seconds in (1, 601):
            clock.jump(seconds)
            await server.sweep_once(trio.current_time())
        assert await client.is_closed()


@pytest.mark.parametrize("sent", [3, 9])
@pytest.mark.parametrize("value", [b"small", VALUE], ids=["small", "larger"])
async def test_what_came_of_the_request_behind_a_held_one_is_not_lost(
    tmp_path: Path, clock: trio.testing.MockClock, value: bytes, sent: int
) -> None:
    async with limited_node(tmp_path, producer_byte_rate=LIMIT) as node, connected(node) as client:
        response = await client.ask(produce_request("t", batch(VALUE)), 7)
        begun = frame_of(produce_request("t", batch(value)), 7, 102)
        await client.stream.send_all(frame_of(MetadataRequest(topics=[]), 4, 101) + begun[:sent])
        await held(node)
        clock.jump(pause_of(response) / 1000 + 0.001)
        assert (await client.receive(METADATA_KEY, 4))[0] == 101
        await client.stream.send_all(begun[sent:])
        correlation_id, response = await client.receive(PRODUCE_KEY, 7)
        assert (correlation_id, produced(response).base_offset) == (102, 1)


async def test_a_held_write_in_turns_that_waits_for_replicas_is_answered_once(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with (
        limited_node(tmp_path, LARGE_REQUESTS, producer_byte_rate=100_000) as node,
        connected(node) as client,
    ):
        response = await client.ask(produce_request("t", batch(bytes(1_200_000)), acks=1), 9)
        partition = lagging(node)
        large = produce_request("t", batch(bytes(2_000_000)), acks=-1, timeout_ms=500)
        sent = await client.send(large, 9)
        await held(node)
        assert partition.log.log_end_offset == 1
        clock.jump(pause_of(response) / 1000 + 0.001)
        await until(lambda: partition.log.log_end_offset == 2)
        await held(node)
        clock.jump(0.501)
        correlation_id, response = await client.receive(PRODUCE_KEY, 9)
        assert (correlation_id, produced(response).error_code) == (sent, ErrorCode.REQUEST_TIMED_OUT)
        assert pause_of(response) > 0
        metadata = await client.send(MetadataRequest(topics=[]), 4)
        clock.jump(pause_of(response) / 1000 + 0.001)
        assert (await client.receive(METADATA_KEY, 4))[0] == metadata
        assert await has_no_answer(client)


@pytest.mark.parametrize("how", ["closed", "reset"])
async def test_what_waits_for_the_end_of_a_pause_is_carried_out_though_the_client_has_left(
    tmp_path: Path, clock: trio.testing.MockClock, how: str
) -> None:
    async with limited_node(tmp_path, producer_byte_rate=LIMIT) as node:
        server = node.server  # type: ignore[attr-defined]
        async with connected(node) as client:
            response = await client.ask(produce_request("t", batch(VALUE)), 7)
            await client.stream.send_all(
                frame_of(produce_request("t", batch(b"v"), acks=0), 7, 101)
                + frame_of(produce_request("t", batch(b"w")), 7, 102)
            )
            await held(node)
            if how == "reset":
                client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        log = node.replica_manager.partition("t", 0).log
        await server.sweep_once(trio.current_time())
        await trio.testing.wait_all_tasks_blocked()
        assert (log.log_end_offset, len(server.connections)) == (1, 1)
        for _ in range(2):
            clock.jump(pause_of(response) / 1000 + 0.001)
            await trio.testing.wait_all_tasks_blocked()
        assert (log.log_end_offset, node.timer.count, len(server.connections)) == (3, 0, 0)
