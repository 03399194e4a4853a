"""Requests behind a pending response: which of them are handled; responses stay in order."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from kcli.broker.network import socket_server as listener
from kcli.broker.network.responses import MAX_WAITING
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.produce import ProduceRequest
from tests.broker.handlers.produce.test_produce import with_follower
from tests.broker.network.frames import all_metadata, frame
from tests.broker.records import batch, fetch_request, produce_request, produced
from tests.broker.single_node import connected, running_node
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

PRODUCE, METADATA = 0, 3
VERSION = 9


def writes(count: int, *, acks: int = -1, timeout_ms: int = 60_000, size: int = 1) -> list[ProduceRequest]:
    return [
        produce_request("t", batch(b"%d" % number * size), acks=acks, timeout_ms=timeout_ms)
        for number in range(count)
    ]


def frames(requests: list[ProduceRequest]) -> bytes:
    return b"".join(frame(request, VERSION, number) for number, request in enumerate(requests))


@pytest.mark.parametrize("with_reactor", [True, False])
@pytest.mark.parametrize("size", [1, 100_000])
async def test_writes_are_copied_together_and_answered_in_order(
    size: int, with_reactor: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_reactor:
        monkeypatch.setattr(listener, "new_reactor", lambda _gate: None)
    async with (
        running_node(tmp_path) as node,
        connected(node) as client,
        trio.open_nursery() as nursery,
    ):
        node.create_topic("t")
        partition = with_follower(node)
        nursery.start_soon(client.stream.send_all, frames(writes(5, size=size)))
        if with_reactor or size == 1:
            await until(lambda: partition.log.log_end_offset == 5)
            assert node.purgatory.parked == 5
        for end in range(1, 6):
            await until(lambda end=end: partition.log.log_end_offset >= end)  # type: ignore[misc]
            partition.follower_fetched(2, end)
        for number in range(5):
            correlation_id, response = await client.receive(PRODUCE, VERSION)
            assert (correlation_id, produced(response).base_offset) == (number, number)


async def test_an_answer_that_is_there_waits_for_those_before_it(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        partition = with_follower(node)
        await client.stream.send_all(frames([*writes(1), *writes(1, acks=0), *writes(2, acks=1)]))
        await until(lambda: partition.log.log_end_offset == 4)
        with trio.move_on_after(0.05) as scope:
            await client.receive_frame()
        assert scope.cancelled_caught
        partition.follower_fetched(2, 1)
        for correlation_id, offset in ((0, 0), (2, 2), (3, 3)):
            found, response = await client.receive(PRODUCE, VERSION)
            assert (found, produced(response).base_offset) == (correlation_id, offset)


async def test_other_requests_wait_behind_a_write(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        partition = with_follower(node)
        behind = frame(all_metadata(), 9, 1) + frame(writes(1)[0], VERSION, 2)
        await client.stream.send_all(frames(writes(1)) + behind)
        await until(lambda: node.purgatory.parked == 1)
        await client.stream.send_all(frame(fetch_request("t", 2, max_wait_ms=60_000), 11, 3))
        await trio.testing.wait_all_tasks_blocked()
        assert partition.log.log_end_offset == 1
        partition.follower_fetched(2, 1)
        assert (await client.receive(PRODUCE, VERSION))[0] == 0
        assert (await client.receive(METADATA, 9))[0] == 1
        await until(lambda: partition.log.log_end_offset == 2)
        partition.follower_fetched(2, 2)
        assert (await client.receive(PRODUCE, VERSION))[0] == 2
        await until(lambda: node.purgatory.parked == 1)  # the fetch


async def test_writes_of_an_idempotent_producer_wait_for_each_other(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        partition = with_follower(node)
        requests = [
            produce_request("t", batch(b"a", producer_id=7, producer_epoch=0, base_sequence=number), acks=-1)
            for number in range(3)
        ]
        await client.stream.send_all(frames([*writes(1), *requests]))
        # Whoever has no id lets the first of them pass.
        for number, end in ((0, 2), (1, 2), (2, 3), (3, 4)):
            await until(lambda end=end: partition.log.log_end_offset == end)  # type: ignore[misc]
            await trio.testing.wait_all_tasks_blocked()
            assert partition.log.log_end_offset == end
            partition.follower_fetched(2, number + 1)
            correlation_id, response = await client.receive(PRODUCE, VERSION)
            assert (correlation_id, produced(response).base_offset) == (number, number)


async def test_so_many_writes_are_carried_out_before_the_first_is_answered(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        partition = with_follower(node)
        count = 2 * MAX_WAITING + 10
        await client.stream.send_all(frames(writes(count)))
        answered = 0
        while answered < count:
            end = min(answered + MAX_WAITING, count)
            await until(lambda end=end: partition.log.log_end_offset == end)  # type: ignore[misc]
            await trio.testing.wait_all_tasks_blocked()
            assert partition.log.log_end_offset == end
            partition.follower_fetched(2, end)
            for number in range(answered, end):
                assert (await client.receive(PRODUCE, VERSION))[0] == number
            answered = end


async def test_what_is_late_is_told_in_its_place(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        with_follower(node)
        requests = [*writes(1, timeout_ms=60), *writes(1, timeout_ms=10), *writes(1, timeout_ms=0)]
        await client.stream.send_all(frames(requests))
        for number in range(3):
            correlation_id, response = await client.receive(PRODUCE, VERSION)
            assert (correlation_id, produced(response).error_code) == (number, ErrorCode.REQUEST_TIMED_OUT)


async def test_what_was_asked_before_nonsense_is_answered(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        partition = with_follower(node)
        nonsense = bytearray(frame(writes(1)[0], VERSION, 2))
        nonsense[-1] = 0xFF
        await client.stream.send_all(frames(writes(2)) + nonsense)
        await until(lambda: partition.log.log_end_offset == 2)
        partition.follower_fetched(2, 2)
        for number in range(2):
            assert (await client.receive(PRODUCE, VERSION))[0] == number
        assert await client.is_closed()


async def test_a_client_that_leaves_is_answered_first_if_it_only_stopped_sending(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        partition = with_follower(node)
        await client.stream.send_all(frames(writes(2)))
        await client.stream.send_eof()
        await until(lambda: partition.log.log_end_offset == 2)
        partition.follower_fetched(2, 2)
        for number in range(2):
            assert (await client.receive(PRODUCE, VERSION))[0] == number
        assert await client.is_closed()


async def test_closing_gives_up_what_waits(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        node.create_topic("t")
        with_follower(node)
        async with connected(node) as client:
            await client.stream.send_all(frames(writes(3)))
            await until(lambda: node.purgatory.parked == 3)
            (connection,) = node.server.connections  # type: ignore[attr-defined]
            connection.close()
            assert await client.is_closed()
        await until(lambda: not node.server.connections)  # type: ignore[attr-defined]
        assert (node.purgatory.parked, node.purgatory.watched_keys) == (0, 0)


async def test_a_client_that_closes_gives_up_what_waits(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        node.create_topic("t")
        partition = with_follower(node)
        async with connected(node) as client:
            await client.stream.send_all(frames(writes(3)))
            await until(lambda: node.purgatory.parked == 3)
        await trio.testing.wait_all_tasks_blocked()
        assert not node.server.connections  # type: ignore[attr-defined]
        assert (node.purgatory.parked, node.purgatory.watched_keys) == (0, 0)
        assert partition.log.log_end_offset == 3


async def test_closing_gives_up_what_is_behind_a_request_that_waits(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        node.create_topic("t")
        async with connected(node) as client:
            parked = [frame(fetch_request("t", max_wait_ms=60_000), 11, number) for number in range(2)]
            await client.stream.send_all(b"".join(parked))
            await until(lambda: node.purgatory.parked == 1)
            await trio.testing.wait_all_tasks_blocked()
            (connection,) = node.server.connections  # type: ignore[attr-defined]
            connection.close()
            assert await client.is_closed()
        await until(lambda: not node.server.connections)  # type: ignore[attr-defined]
        assert (node.purgatory.parked, node.purgatory.watched_keys) == (0, 0)


async def test_closing_gives_up_a_write_in_turns_that_has_not_begun(tmp_path: Path) -> None:
    async with running_node(tmp_path, {"message.max.bytes": "4000000"}) as node:
        node.create_topic("t")
        partition = with_follower(node)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            async with connected(node) as client:
                await client.stream.send_all(frames([*writes(1), *writes(1, size=2_000_000)]))
                (connection,) = node.server.connections  # type: ignore[attr-defined]
                await until(lambda: connection._stop is not None and connection._stop[0] is not None)
                connection.close()
                assert await client.is_closed()
            await until(lambda: not node.server.connections)  # type: ignore[attr-defined]
        assert [str(each.message) for each in warned] == []
        assert partition.log.log_end_offset == 1
