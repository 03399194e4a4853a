"""LeaderEndPoint: calls between nodes, and the faults that they may meet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from kcli.broker.replication.leader_endpoint import LeaderEndPoints, PeerUnreachable
from kcli.broker.waiting.pause_gate import PauseGate
from kcli.protocol.error_codes import KafkaError


class Peer:
    """A node with one partition, which it leads in epoch 3, with the records 5 to 9."""

    def __init__(self) -> None:
        self.gate = PauseGate()
        self.replica_manager: Any = self
        self.calls: list[float] = []
        self.work_seconds = 0.0

    @property
    def is_paused(self) -> bool:
        return self.gate.is_closed

    async def until_awake(self) -> None:
        await self.gate.passed()

    def leader(self, topic: str, index: int, leader_epoch: int) -> Any:
        self.calls.append(trio.current_time())
        if leader_epoch != 3:
            raise KafkaError(74)
        return SimpleNamespace(log=SimpleNamespace(log_start_offset=5, log_end_offset=10))

    async def write_markers(self, request: object) -> tuple[str, object]:
        self.calls.append(trio.current_time())
        await trio.sleep(self.work_seconds)
        return "written", request

    async def add_partitions_to_txn(self, request: object) -> tuple[str, object]:
        return "added", request


@pytest.fixture
def nodes() -> dict[int, Peer]:
    return {2: Peer()}


@pytest.fixture
def links(nodes: dict[int, Peer]) -> LeaderEndPoints:
    return LeaderEndPoints(nodes.get)  # type: ignore[arg-type]


async def call(links: LeaderEndPoints, to_id: int = 2) -> tuple[int, int]:
    return await links[1, to_id].log_range("t", 0, 3)


async def test_a_call_reaches_the_other_node(links: LeaderEndPoints) -> None:
    assert await call(links) == (5, 10)
    assert links[1, 2] is links.between(1, 2) is not links.between(2, 1)


async def test_a_node_that_is_not_there_is_unreachable(
    links: LeaderEndPoints, nodes: dict[int, Peer]
) -> None:
    with pytest.raises(PeerUnreachable):
        await call(links, 3)
    del nodes[2]
    with pytest.raises(PeerUnreachable):
        await call(links)
    nodes[2] = Peer()  # Another one by now.
    assert await call(links) == (5, 10)


async def test_one_direction_is_cut(links: LeaderEndPoints, nodes: dict[int, Peer]) -> None:
    nodes[1] = Peer()
    links[1, 2].is_cut = True
    with pytest.raises(PeerUnreachable):
        await call(links)
    assert await links[2, 1].log_range("t", 0, 3) == (5, 10)
    links[1, 2].is_cut = False
    assert await call(links) == (5, 10)


async def test_a_delay_comes_before_the_call(
    links: LeaderEndPoints, nodes: dict[int, Peer], autojump_clock: trio.testing.MockClock
) -> None:
    links[1, 2].delay_ms = 250
    began = trio.current_time()
    await call(links)
    assert [round(at - began, 3) for at in nodes[2].calls] == [0.25]


async def test_calls_vanish(
    links: LeaderEndPoints, nodes: dict[int, Peer], autojump_clock: trio.testing.MockClock
) -> None:
    links[1, 2].drop_next = 2
    links[1, 2].timeout_ms = 700
    began = trio.current_time()
    for number in (1, 2):
        with pytest.raises(PeerUnreachable):
            await call(links)
        assert round(trio.current_time() - began, 3) == 0.7 * number
    assert nodes[2].calls == []
    assert await call(links) == (5, 10)


async def test_a_paused_node_answers_when_it_goes_on_or_not_in_time(
    links: LeaderEndPoints, nodes: dict[int, Peer], autojump_clock: trio.testing.MockClock
) -> None:
    links[1, 2].timeout_ms = 1000
    nodes[2].gate.close()
    began = trio.current_time()
    with pytest.raises(PeerUnreachable):
        await call(links)
    assert round(trio.current_time() - began, 3) == 1
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call, links)
        await trio.sleep(0.5)
        assert nodes[2].calls == []
        nodes[2].gate.open()
    assert round(nodes[2].calls[0] - began, 3) == 1.5


Asked = list[tuple[float, object]]
"""When requests ended, and their responses; None for an unreachable node."""


async def ask(links: LeaderEndPoints, asked: Asked) -> None:
    try:
        response = await links[1, 2].write_markers(lambda: "request")  # type: ignore[arg-type,return-value]
    except PeerUnreachable:
        asked.append((round(trio.current_time(), 3), None))
    else:
        asked.append((round(trio.current_time(), 3), response))


def cut(links: LeaderEndPoints, nodes: dict[int, Peer]) -> None:
    links[1, 2].is_cut = True


def cut_for_a_moment(links: LeaderEndPoints, nodes: dict[int, Peer]) -> None:
    links[1, 2].is_cut = True
    links[1, 2].is_cut = False


def die(links: LeaderEndPoints, nodes: dict[int, Peer]) -> None:
    del nodes[2]
    links.node_died(2)


def pause(links: LeaderEndPoints, nodes: dict[int, Peer]) -> None:
    nodes[2].gate.close()


WRITTEN = ("written", "request")

MISHAPS = {
    "nothing": (lambda links, nodes: None, 2.0, WRITTEN),
    "the link is cut": (cut, 1.0, None),
    "the link is cut for a moment": (cut_for_a_moment, 1.0, None),
    "the node dies": (die, 1.0, None),
    "the node is paused, for longer than the timeout": (pause, 5.0, None),
}
"""What happens a second after a request that takes two; when it ends then, and how."""


@pytest.mark.parametrize("what", MISHAPS)
async def test_a_request_under_way_meets_a_mishap(
    what: str, links: LeaderEndPoints, nodes: dict[int, Peer], autojump_clock: trio.testing.MockClock
) -> None:
    mishap, ends, response = MISHAPS[what]
    links[1, 2].timeout_ms = 3000
    nodes[2].work_seconds = 2
    asked: Asked = []
    async with trio.open_nursery() as nursery:
        began = trio.current_time()
        nursery.start_soon(ask, links, asked)
        await trio.sleep(1)
        mishap(links, nodes)
    assert asked == [(round(began + ends, 3), response)]


async def test_a_response_comes_when_the_paused_node_goes_on(
    links: LeaderEndPoints, nodes: dict[int, Peer], autojump_clock: trio.testing.MockClock
) -> None:
    nodes[2].work_seconds = 2
    asked: Asked = []
    async with trio.open_nursery() as nursery:
        began = trio.current_time()
        nursery.start_soon(ask, links, asked)
        await trio.sleep(1)
        nodes[2].gate.close()
        await trio.sleep(9)
        nodes[2].gate.open()
    assert asked == [(round(began + 10, 3), WRITTEN)]


async def test_a_request_takes_too_long(
    links: LeaderEndPoints, nodes: dict[int, Peer], autojump_clock: trio.testing.MockClock
) -> None:
    links[1, 2].timeout_ms = 3000
    nodes[2].work_seconds = 100
    asked: Asked = []
    began = trio.current_time()
    await ask(links, asked)
    assert asked == [(round(began + 3, 3), None)]


async def test_requests_meet_the_faults_that_come_before_a_call(
    links: LeaderEndPoints, nodes: dict[int, Peer], autojump_clock: trio.testing.MockClock
) -> None:
    link = links[1, 2]
    link.delay_ms, link.drop_next, link.timeout_ms = 250, 1, 700
    began = trio.current_time()
    asked: Asked = []
    await ask(links, asked)
    await ask(links, asked)
    assert asked == [(round(began + 0.7, 3), None), (round(began + 0.95, 3), WRITTEN)]
    assert len(nodes[2].calls) == 1
    link.is_cut = True
    with pytest.raises(PeerUnreachable):
        await link.add_partitions_to_txn("request")  # type: ignore[arg-type]
    link.is_cut = False
    assert await link.add_partitions_to_txn("request") == ("added", "request")  # type: ignore[arg-type,comparison-overlap]
