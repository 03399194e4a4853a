"""Faults of markers: which topics they concern, and how often they strike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kcli.broker.faults.fault import MarkerFault, fault_of
from kcli.broker.faults.faults import Faults
from kcli.errors import UsageError

if TYPE_CHECKING:
    from kcli.broker.transactions.marker_sender import MarkerFaults


class Node:
    """A node as far as faults concern it."""

    node_id = 1

    def __init__(self) -> None:
        self.log_manager: Any = type("Logs", (), {"directories": ()})
        self.engine_layers: Any = type("Layers", (), {"put": lambda *_: None})
        self.engine = None
        self.faults: MarkerFaults | None = None

    def set_marker_faults(self, faults: MarkerFaults | None) -> None:
        self.faults = faults


class Nodes:
    def __init__(self) -> None:
        self.brokers: list[Any] = [Node(), Node()]
        self.peers: Any = None


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


def test_without_a_fault_of_markers_there_is_nothing_on_their_way(nodes: Nodes) -> None:
    faults = Faults(nodes)
    faults.add("drop", api="Produce")
    assert [node.faults for node in nodes.brokers] == [None, None]
    number = faults.add("hold-markers").number
    assert all(node.faults.holds("any") and not node.faults.swallows("any") for node in nodes.brokers)
    faults.clear(number)
    assert [node.faults for node in nodes.brokers] == [None, None]


def test_a_topic_may_be_a_pattern(nodes: Nodes) -> None:
    faults = Faults(nodes)
    faults.add("hold-markers", topic="orders*")
    faults.add("hang-transactions", topic="__consumer_offsets")
    met: MarkerFaults = nodes.brokers[0].faults
    assert [met.holds(topic) for topic in ("orders", "orders-2", "my-orders")] == [True, True, False]
    assert [met.swallows(topic) for topic in ("orders", "__consumer_offsets")] == [False, True]


def test_held_markers_are_counted_once(nodes: Nodes) -> None:
    faults = Faults(nodes)
    some, every = faults.add("hold-markers", topic="t"), faults.add("hold-markers")
    one, other = (node.faults for node in nodes.brokers)
    assert [one.holds("t"), other.holds("u"), one.holds("t", is_new=False)] == [True, True, True]
    assert (some.hits, every.hits) == (1, 2)


def test_the_next_markers_of_all_nodes_are_counted_together(nodes: Nodes) -> None:
    faults = Faults(nodes)
    active = faults.add("hang-transactions", topic="t", next=3)
    one, other = (node.faults for node in nodes.brokers)
    assert [one.swallows("t"), one.swallows("u"), other.swallows("t")] == [True, False, True]
    assert (active.hits, active.left) == (2, 1)
    assert one.swallows("t")
    assert (faults.active, [node.faults for node in nodes.brokers]) == ([], [None, None])
    assert not other.swallows("t"), "what a sender still holds of a fault that is over"


def test_the_options_of_the_faults_of_markers() -> None:
    assert fault_of("hold-markers", {}) == MarkerFault(kind="hold-markers")
    fault = fault_of("hang-transactions", {"topic": "t", "next": 2})
    assert fault == MarkerFault(kind="hang-transactions", topic="t", next=2)
    assert (str(fault), str(fault_of("hold-markers", {}))) == ("hang-transactions topic t", "hold-markers")
    with pytest.raises(UsageError, match="`hold-markers` takes no `next`"):
        fault_of("hold-markers", {"next": 1})
