"""Which state of a partition, and of a replica, one decision of the controller makes of which: all pairs.

The states are Kafka's (classes `PartitionState` and `ReplicaState`). From a world in each state everything
happens that can happen; what is seen must be what the tables say, no pair more and none less. A decision may
hold several of Kafka's steps: a topic that is deleted is first offline. Partitions have a leader from the
beginning, so that none is seen to be New; what a node does to a replica that it deletes stands in no image.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from kcli.broker.controller.election_control import ElectionType
from kcli.broker.metadata.registrations import partition_state
from tests.broker.controller.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kcli.broker.metadata.metadata_image import MetadataImage

TOPIC = "a"
NON_EXISTENT, NEW, ONLINE, OFFLINE = "NonExistent", "New", "Online", "Offline"
NODE = 2
"""Whose replica is looked at."""

WORLDS: dict[str, list[tuple[Any, ...]]] = {
    "nothing": [],
    "led": [("create", TOPIC, 1, 3)],
    "led, the node is away": [("create", TOPIC, 1, 3), ("stop", NODE)],
    "led, the replica's directory is lost": [
        ("create", TOPIC, 1, 3),
        ("lose directory", NODE, 0),
        ("lose directory", NODE, 1),
    ],
    "led by others": [("create", TOPIC, 1, 3), ("move", TOPIC, [1, 3]), ("in sync", TOPIC, [1, 3])],
    "led by others, the node is away": [
        ("create", TOPIC, 1, 3),
        ("move", TOPIC, [1, 3]),
        ("in sync", TOPIC, [1, 3]),
        ("stop", NODE),
    ],
    "led, the replica is being filled": [
        ("create", TOPIC, 1, 3),
        ("move", TOPIC, [1]),
        ("in sync", TOPIC, [1]),
        ("move", TOPIC, [1, NODE]),
    ],
    "led by nobody": [("create", TOPIC, 1, 3), *[("restart", node, False) for node in (3, 2, 1)]],
    "everybody is away": [("create", TOPIC, 1, 3), *[("stop", node) for node in (1, 2, 3)]],
}
EVENTS: list[tuple[Any, ...]] = [
    ("create", TOPIC, 1, 3),
    ("delete", TOPIC),
    ("grow", TOPIC, 2),
    *[("config", TOPIC, "unclean", value) for value in (0, 1)],
    *[("restart", node, clean) for node in (1, 2, 3) for clean in (True, False)],
    *[(what, node) for what in ("stop", "unregister") for node in (1, 2, 3)],
    *[("beat", node, 0) for node in (1, 2, 3)],
    *[("lose directory", node, which) for node in (1, 2, 3) for which in (0, 1)],
    *[
        ("move", TOPIC, list(replicas))
        for count in (1, 2, 3)
        for replicas in itertools.combinations((1, 2, 3), count)
    ],
    ("move", TOPIC, None),
    *[("elect", TOPIC, kind) for kind in ElectionType],
    *[
        ("in sync", TOPIC, list(isr))
        for count in (1, 2, 3)
        for isr in itertools.combinations((1, 2, 3), count)
    ],
    ("time", 10_000),
    ("epoch",),
]

PARTITION_MOVES = """
NonExistent Online
Online Online
Online Offline
Online NonExistent
Offline Online
Offline Offline
Offline NonExistent
"""
REPLICA_MOVES = """
NonExistent New
NonExistent Online
NonExistent Offline
New New
New Online
New Offline
New NonExistent
Online Online
Online Offline
Online NonExistent
Offline New
Offline Online
Offline Offline
Offline NonExistent
"""


def state_of_partition(image: MetadataImage) -> str:
    if TOPIC not in image.topics:
        return NON_EXISTENT
    return partition_state(image.topics[TOPIC].partitions[0]).name.capitalize()


def state_of_replica(image: MetadataImage) -> str:
    topic = image.topics.get(TOPIC)
    partition = topic.partitions[0] if topic else None
    if partition is None or NODE not in partition.replicas:
        return NON_EXISTENT
    known = image.brokers.get(NODE)
    if known is None or known.fenced or not known.has_online(partition.directory_of(NODE)):
        return OFFLINE
    return NEW if NODE in partition.adding and NODE not in partition.isr else ONLINE


def moves(state: Callable[[MetadataImage], str]) -> Iterator[tuple[str, str]]:
    """Every step that a decision took, whatever happened in whatever world."""
    for history, event in itertools.product(WORLDS.values(), EVENTS):
        world = World()
        for operation in history:
            world.perform(operation)
        before = state(world.controller.image)
        seen: list[str] = []
        world.controller.publisher.observe(lambda image, _, seen=seen: seen.append(state(image)))
        world.perform(event)
        yield from itertools.pairwise([before, *seen])


@pytest.mark.parametrize(
    ("state", "table"), [(state_of_partition, PARTITION_MOVES), (state_of_replica, REPLICA_MOVES)]
)
def test_what_one_decision_makes_of_a_state(state: Callable[[MetadataImage], str], table: str) -> None:
    legal = {(before, after) for before, after in map(str.split, table.strip().splitlines())}
    seen = set(moves(state))
    seen.discard((NON_EXISTENT, NON_EXISTENT))  # Of what is not there nothing is decided.
    assert seen == legal
