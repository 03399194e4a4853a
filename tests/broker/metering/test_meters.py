"""Meters, and how long the engines of the nodes have a layer for them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio

from kcli.broker.metering.meters import Meters, TimingEngine
from kcli.broker.network.request_context import RequestContext
from kcli.broker.network.request_engine import EngineLayers, Layer

if TYPE_CHECKING:
    from kcli.broker.network.request_engine import Engine
    from kcli.broker.node.broker import Broker

FRAME = memoryview(bytearray(b"\x00\x0c\x00\x04"))
"""The first bytes of a Heartbeat, which tell its API."""


class Plain:
    """The engine of every node."""

    def feed(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> tuple[bytes]:
        return (b"done",)


class Nodes:
    """Nodes with nothing but layers, and the engine that connections of each feed."""

    def __init__(self, *node_ids: int) -> None:
        self.plain = Plain()
        self.fed: dict[int, Engine] = {}
        self.brokers: list[Broker] = [self.made(node_id) for node_id in node_ids]

    def made(self, node_id: int) -> Broker:
        def use(engine: Engine) -> None:
            self.fed[node_id] = engine

        use(cast("Engine", self.plain))
        layers = EngineLayers(cast("Any", self.plain), use)
        return cast("Broker", SimpleNamespace(node_id=node_id, engine=self.plain, engine_layers=layers))

    def ask(self, node_id: int, times: int = 1) -> None:
        context = RequestContext(cast("Any", None), "PLAINTEXT", "test")
        for _ in range(times):
            assert self.fed[node_id].feed(context, FRAME, 0, len(FRAME)) == (b"done",)

    def measured(self) -> list[int]:
        return [node_id for node_id, engine in self.fed.items() if isinstance(engine, TimingEngine)]


def counts(meter: Any) -> dict[int, int]:
    """The number of requests to each node."""
    return {
        node_id: sum(each.total.count for each in times.by_api.values())
        for node_id, times in meter.times.items()
    }


async def test_the_layer_is_there_as_long_as_somebody_measures() -> None:
    nodes = Nodes(1, 2)
    meters = Meters(nodes)
    assert nodes.measured() == []
    with meters.reading():
        assert nodes.measured() == [1, 2]
        with meters.reading(2):
            assert nodes.measured() == [1, 2]
        assert nodes.measured() == [1, 2]
    assert nodes.measured() == []
    assert [nodes.fed[node_id] for node_id in (1, 2)] == [nodes.plain, nodes.plain]


async def test_of_one_node_only_that_one_has_the_layer() -> None:
    nodes = Nodes(1, 2)
    with Meters(nodes).reading(2) as meter:
        assert nodes.measured() == [2]
        nodes.ask(1)
        nodes.ask(2, times=3)
    assert counts(meter) == {2: 3}


async def test_it_goes_when_whoever_measures_fails_or_is_cancelled() -> None:
    nodes = Nodes(1)
    meters = Meters(nodes)
    with pytest.raises(ZeroDivisionError), meters.reading():
        raise ZeroDivisionError
    assert nodes.measured() == []
    with trio.CancelScope() as scope, meters.reading():
        scope.cancel()
        await trio.sleep_forever()
    assert nodes.measured() == []


async def test_two_at_once_count_each_for_themselves() -> None:
    nodes = Nodes(1, 2)
    meters = Meters(nodes)
    with meters.reading() as first:
        nodes.ask(1)
        with meters.reading(1) as second:
            nodes.ask(1, times=2)
            nodes.ask(2)
        nodes.ask(1)
    nodes.ask(1)
    assert counts(first) == {1: 4, 2: 1}
    assert counts(second) == {1: 2}


async def test_they_may_end_in_the_order_in_which_they_began() -> None:
    nodes = Nodes(1)
    meters = Meters(nodes)
    one, other = meters.reading(), meters.reading()
    first, second = one.__enter__(), other.__enter__()
    nodes.ask(1)
    one.__exit__(None, None, None)
    assert nodes.measured() == [1]
    nodes.ask(1, times=2)
    other.__exit__(None, None, None)
    assert nodes.measured() == []
    assert (counts(first), counts(second)) == ({1: 1}, {1: 3})


async def test_a_node_that_starts_again_goes_on_with_its_numbers_and_a_new_one_begins() -> None:
    nodes = Nodes(1)
    meters = Meters(nodes)
    with meters.reading() as meter:
        nodes.ask(1)
        for node_id in (1, 2):
            broker = nodes.made(node_id)
            nodes.brokers = [each for each in nodes.brokers if each.node_id != node_id] + [broker]
            meters.attend(broker)
            nodes.ask(node_id)
    assert counts(meter) == {1: 2, 2: 1}
    assert nodes.measured() == []


async def test_other_layers_come_and_go_behind_it() -> None:
    nodes = Nodes(1)
    with Meters(nodes).reading() as meter:
        nodes.ask(1)
        nodes.brokers[0].engine_layers.put(Layer.FAULTS, lambda engine: engine)
        nodes.ask(1)
        nodes.brokers[0].engine_layers.put(Layer.FAULTS, None)
        nodes.ask(1)
    assert counts(meter) == {1: 3}
