"""Meters: who measures the requests to the nodes of a cluster, each for a time of its own.

    with cluster.meters.reading(node_id=1) as meter:
        ...
    meter.times[1].by_api

Only meanwhile a `TimingEngine` stands before the nodes' engines: nobody who does not ask pays for it.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol

import trio

from kcli.broker.engine_layers import Layer
from kcli.broker.metering.request_times import RequestTimes
from kcli.broker.metering.timing_engine import TimingEngine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kcli.broker.node.broker import Broker


class Nodes(Protocol):
    """The nodes whose requests are measured."""

    @property
    def brokers(self) -> Sequence[Broker]: ...


class Meter:
    """What one who measures has read: the times of one node, or of all. A node that starts again goes on."""

    def __init__(self, node_id: int | None) -> None:
        self._node_id = node_id
        self.since = trio.current_time()
        self.times: dict[int, RequestTimes] = {}
        """By node."""

    def of(self, node_id: int) -> RequestTimes | None:
        """Return what the requests to a node are added to; None if nobody wants to know."""
        if self._node_id not in (None, node_id):
            return None
        return self.times.setdefault(node_id, RequestTimes(self.since))


class Meters:
    """The meters of one cluster that are running."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._running: list[Meter] = []

    @property
    def running(self) -> int:
        """How many measure at this moment."""
        return len(self._running)

    @contextmanager
    def reading(self, node_id: int | None = None) -> Iterator[Meter]:
        """Measure the requests to a node, or to all, until the end of the block."""
        meter = Meter(node_id)
        self._running.append(meter)
        self._take_effect()
        try:
            yield meter
        finally:
            self._running.remove(meter)
            self._take_effect()

    def attend(self, broker: Broker) -> None:
        """Measure a node that was just made, if anybody wants it."""
        found = [meter.of(broker.node_id) for meter in self._running]
        times = [each for each in found if each is not None]
        make = partial(TimingEngine, reader=broker.engine, times=times) if times else None
        broker.engine_layers.put(Layer.TIMES, make)

    def _take_effect(self) -> None:
        for broker in self._nodes.brokers:
            self.attend(broker)
