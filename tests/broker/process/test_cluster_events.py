"""What the broker's log says of nodes and partitions."""

from __future__ import annotations

import logging

import pytest

from kcli.broker.controller.controller import Controller
from kcli.broker.controller.election_control import ElectionType
from kcli.broker.controller.heartbeat_control import Heartbeat
from kcli.broker.controller.replication_control import NewTopic, TopicDefaults
from kcli.broker.process.cluster_events import ClusterEvents
from tests.support.metadata import running_controller


class World:
    """A controller of three nodes whose events are logged."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "kcli.broker.process.cluster_events")
        self._caplog = caplog
        self.controller: Controller = running_controller(3)
        self.controller.publisher.observe(ClusterEvents(self.controller.image).follow)

    def create(self, name: str, replicas: list[int], partitions: int = 1) -> None:
        topic = NewTopic(name, assignments=[(index, replicas) for index in range(partitions)])
        self.controller.create_topics([topic], defaults=TopicDefaults())

    def fence(self, node_id: int) -> None:
        self.controller.fence_broker(node_id=node_id, epoch=self.controller.image.brokers[node_id].epoch)

    def unfence(self, node_id: int) -> None:
        self.controller.unfence_broker(node_id=node_id, epoch=self.controller.image.brokers[node_id].epoch)

    def said(self) -> list[str]:
        """Return the lines since the last call, warnings marked."""
        lines = [
            ("! " if record.levelno >= logging.WARNING else "") + record.getMessage()
            for record in self._caplog.records
        ]
        self._caplog.clear()
        return lines


def test_a_node_that_falls_silent_and_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    world = World(caplog)
    world.create("a", [1, 2])
    assert world.said() == []
    world.fence(1)
    assert world.said() == ["! node 1 is fenced: others lead until it is back"]
    world.unfence(1)
    assert world.said() == ["node 1 is unfenced"]


def test_partitions_that_nobody_leads_are_named_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    world = World(caplog)
    world.create("a", [3], 7)
    world.create("b", [1])
    world.fence(3)
    assert world.said() == [
        "! node 3 is fenced: others lead until it is back",
        "! without a leader: a-0, a-1, a-2, a-3, a-4 and 2 more",
    ]
    world.unfence(3)
    assert world.said() == ["node 3 is unfenced", "led again: a-0, a-1, a-2, a-3, a-4 and 2 more"]


def test_a_leader_that_was_not_in_sync_is_told(caplog: pytest.LogCaptureFixture) -> None:
    world = World(caplog)
    world.create("a", [1, 2])
    for node_id in (2, 1):
        world.fence(node_id)
    world.unfence(2)
    world.said()
    world.controller.elect_leaders([("a", 0)], type=ElectionType.UNCLEAN)
    assert world.said() == ["! unclean leaders, records may be lost: a-0 (node 2)"]


def test_a_node_that_stops_in_order_and_one_that_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    world = World(caplog)
    world.create("a", [1, 2])
    for node_id, stops in ((1, True), (2, False), (3, False), (1, True)):
        epoch = world.controller.image.brokers[node_id].epoch
        world.controller.heartbeat(
            Heartbeat(node_id, epoch, applied_offset=100, want_shutdown=stops), now_ms=0
        )
    assert world.said() == ["node 1 has handed over its partitions, and stops"]
    world.controller.unregister_broker(node_id=1)
    assert world.said() == ["node 1 is unregistered"]
