"""Quotas for writing: a client above its quota gets its response and pause at once, and is then mute."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.messages.produce import ProduceRequest
from tests.broker.network.limited_node import (
    LARGE_REQUESTS,
    LIMIT,
    METADATA_KEY,
    VALUE,
    expected_pause,
    has_no_answer,
    held,
    lagging,
    limited_node,
    pause_of,
    set_quotas,
    size_of,
    until,
)
from tests.broker.records import batch, produce_request, produced
from tests.broker.single_node import connected

if TYPE_CHECKING:
    from pathlib import Path


PRODUCE_KEY = 0


@pytest.mark.parametrize("version", [3, 7, 8, 9, 12])
@pytest.mark.parametrize("acks", [1, -1])
async def test_who_writes_too_much_is_answered_at_once_and_heard_later(
    tmp_path: Path, clock: trio.testing.MockClock, version: int, acks: int
) -> None:
    async with limited_node(tmp_path, producer_byte_rate=LIMIT) as node, connected(node) as client:
        request = produce_request("t", batch(VALUE), acks=acks)
        response = await client.ask(request, version)
        assert produced(response).error_code == 0
        pause_ms = pause_of(response)
        assert pause_ms == expected_pause(size_of(request, version))
        await client.send(MetadataRequest(topics=[]), 4)
        await held(node)
        clock.jump((pause_ms - 1) / 1000)
        assert await has_no_answer(client)
        clock.jump(0.002)
        await client.receive(METADATA_KEY, 4)
        # By now the rate is within its limit, and little more is.
        response = await client.ask(produce_request("t", batch(b"small"), acks=acks), version)
        assert produced(response).base_offset == 1


@pytest.mark.parametrize("acks", [1, -1])
async def test_a_large_request_that_is_handled_in_turns_is_told_of_its_pause(
    tmp_path: Path, clock: trio.testing.MockClock, acks: int
) -> None:
    async with (
        limited_node(tmp_path, LARGE_REQUESTS, producer_byte_rate=100_000) as node,
        connected(node) as client,
    ):
        request = produce_request("t", batch(bytes(2_000_000)), acks=acks)
        response = await client.ask(request, 9)
        assert produced(response).error_code == 0
        assert pause_of(response) == expected_pause(size_of(request, 9), 100_000)
        await client.send(MetadataRequest(topics=[]), 4)
        await held(node)


async def test_a_write_that_fails_counts_as_well(tmp_path: Path, clock: trio.testing.MockClock) -> None:
    async with limited_node(tmp_path, producer_byte_rate=LIMIT) as node, connected(node) as client:
        request = produce_request("missing", batch(VALUE))
        response = await client.ask(request, 9)
        assert produced(response).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert pause_of(response) == expected_pause(size_of(request, 9))


async def test_the_oldest_producers_cannot_be_told_but_have_to_wait_too(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with limited_node(tmp_path, producer_byte_rate=LIMIT) as node, connected(node) as client:
        request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=produce_request("t", b"").topic_data)
        await client.ask(request, 0)
        set_quotas(node, producer_byte_rate=1)
        await client.ask(request, 0)
        await client.send(MetadataRequest(topics=[]), 4)
        await held(node)
        clock.jump(600)
        await client.receive(METADATA_KEY, 4)


async def test_without_an_answer_there_is_a_pause_and_nothing_is_lost(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with limited_node(tmp_path, producer_byte_rate=LIMIT) as node, connected(node) as client:
        request = produce_request("t", batch(VALUE), acks=0)
        for _ in range(3):
            await client.send(request, 7)
        await client.stream.send_eof()
        log = node.replica_manager.partition("t", 0).log
        await held(node)
        for count in (1, 2):
            assert log.log_end_offset == count
            await held(node)
            # The next is counted when it is heard, a window after the first was sent.
            clock.jump(13)
            await until(lambda count=count: log.log_end_offset > count)
        assert await client.is_closed()
        assert log.log_end_offset == 3


async def test_what_others_send_is_heard_and_other_connections_of_the_client_are_not_mute(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with limited_node(tmp_path, producer_byte_rate=LIMIT) as node, connected(node) as client:
        request = produce_request("t", batch(VALUE))
        assert pause_of(await client.ask(request, 7)) > 0
        async with connected(node) as other:
            assert pause_of(await other.ask(request, 7, client_id="another")) == 0
            await other.ask(MetadataRequest(topics=[]), 4)
            # But what they write counts.
            assert pause_of(await other.ask(produce_request("t", batch(b"v")), 7)) > 0


async def test_a_write_that_waits_for_replicas_tells_of_the_pause_when_it_is_answered(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with limited_node(tmp_path, producer_byte_rate=LIMIT) as node, connected(node) as client:
        partition = lagging(node)
        await client.send(produce_request("t", batch(VALUE), acks=-1, timeout_ms=500), 7)
        await held(node)
        assert partition.log.log_end_offset == 1
        clock.jump(0.501)
        _, response = await client.receive(PRODUCE_KEY, 7)
        assert produced(response).error_code == ErrorCode.REQUEST_TIMED_OUT
        assert pause_of(response) == expected_pause(size_of(produce_request("t", batch(VALUE)), 7))
