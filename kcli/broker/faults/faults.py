"""Faults: the active faults of a cluster, each from the moment it is added until it is cleared.

    async with running_cluster(nodes=3) as cluster:
        cluster.faults.add("error", api="Produce", code="NOT_LEADER_OR_FOLLOWER", node=1, next=3)
        cut = cluster.faults.add("cut", **{"from": 1, "to": 3})
        ...
        cluster.faults.clear(cut.number)

The words are those of `kcli broker fault add` and of scenarios. Whenever a fault is added or cleared, the
state of links, engines and disks is computed anew from all active faults, so faults may overlap and be
cleared in any order. With the same seed, the same requests in the same order meet the same faults.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kcli.broker.faults.fault import (
    ActiveFault,
    LinkFault,
    MarkerFault,
    NodeFault,
    RequestFault,
    fault_of,
)
from kcli.broker.faults.fault_engine import FaultEngine
from kcli.broker.network.apis import APIS
from kcli.broker.network.request_engine import Layer
from kcli.errors import KcliError
from kcli.storage import disk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.broker.faults.fault import Fault
    from kcli.broker.node.broker import Broker
    from kcli.broker.replication.leader_endpoint import LeaderEndPoints

_log = logging.getLogger(__name__)


class Nodes(Protocol):
    """The nodes of a cluster and the links between them."""

    @property
    def brokers(self) -> Sequence[Broker]: ...

    @property
    def peers(self) -> LeaderEndPoints: ...


class ActiveMarkerFaults:
    """The active faults of markers, for a `MarkerSender`."""

    def __init__(self, faults: Sequence[ActiveFault]) -> None:
        self._hold = [active for active in faults if active.fault.kind == "hold-markers"]
        self._hang = [active for active in faults if active.fault.kind == "hang-transactions"]

    def holds(self, topic: str, *, is_new: bool = True) -> bool:
        # All are asked, so that each counts the markers that it would hold alone.
        return bool(sum(active.holds_marker(topic, is_new=is_new) for active in self._hold))

    def swallows(self, topic: str) -> bool:
        return any(active.strikes_marker(topic) for active in self._hang)


class Faults:
    """The active faults of one cluster."""

    def __init__(self, nodes: Nodes, *, seed: int = 0) -> None:
        self.seed = seed
        """The seed of faults with a probability that are added from now on."""
        self._nodes = nodes
        self._active: dict[int, ActiveFault] = {}
        self._last_number = 0
        self._links: set[tuple[int, int]] = set()
        """The links that a fault has changed."""

    @property
    def active(self) -> list[ActiveFault]:
        """The active faults, oldest first."""
        return list(self._active.values())

    def add(self, kind: str, **options: Any) -> ActiveFault:  # noqa: ANN401 - as `fault_of` checks them
        """Begin a fault, given as for `fault_of`. Raises `UsageError` and `KcliError`."""
        return self.begin(fault_of(kind, options))

    def begin(self, fault: Fault) -> ActiveFault:
        """Begin a fault. Raises `KcliError` if it names an unknown node."""
        self._check_nodes(fault)
        self._last_number += 1
        active = ActiveFault(self._last_number, fault, seed=self.seed, spent=self._spent)
        self._active[active.number] = active
        _log.info("fault %d begins: %s", active.number, fault)
        if isinstance(fault, LinkFault) and fault.kind == "lose":
            for link in fault.links:
                self._nodes.peers.between(*link).drop_next += fault.next
        self._take_effect()
        return active

    def active_fault(self, number: int) -> ActiveFault:
        """Return an active fault by its number. Raises `KcliError`."""
        active = self._active.get(number)
        if active is None:
            raise KcliError(f"there is no fault {number}", hint="`kcli broker fault list` shows all")
        return active

    def clear(self, number: int) -> None:
        """End a fault. Raises `KcliError` if it is not active."""
        active = self.active_fault(number)
        del self._active[number]
        _log.info("fault %d is cleared: %s", number, active.fault)
        self._end(active)
        self._take_effect()

    def clear_all(self) -> int:
        """End every fault; return their number."""
        cleared = self.active
        self._active.clear()
        for active in cleared:
            self._end(active)
        if cleared:
            _log.info("faults cleared: %d", len(cleared))
        self._take_effect()
        return len(cleared)

    def _check_nodes(self, fault: Fault) -> None:
        known = {broker.node_id for broker in self._nodes.brokers}
        named: set[int | None] = set()
        if isinstance(fault, LinkFault):
            named = {fault.source, fault.target}
        elif not isinstance(fault, MarkerFault):
            named = {fault.node}
        for node in sorted(node for node in named if node is not None):
            if node not in known:
                raise KcliError(
                    f"there is no node {node}", hint=f"the nodes are {', '.join(map(str, sorted(known)))}"
                )

    def _spent(self, active: ActiveFault) -> None:
        if self._active.pop(active.number, None) is not None:
            _log.info("fault %d is over: %s", active.number, active.fault)
            self._take_effect()

    def _end(self, active: ActiveFault) -> None:
        if isinstance(active.fault, LinkFault) and active.fault.kind == "lose":
            for link in active.fault.links:
                self._nodes.peers.between(*link).drop_next = 0

    def _take_effect(self) -> None:
        for broker in self._nodes.brokers:
            self.attend(broker)
        self._set_links()

    def attend(self, broker: Broker) -> None:
        """Apply the active faults to a node."""
        own = [
            active
            for active in self._active.values()
            if isinstance(active.fault, RequestFault) and active.fault.node in (None, broker.node_id)
        ]
        make = partial(FaultEngine, apis=APIS, faults=own, reader=broker.engine) if own else None
        broker.engine_layers.put(Layer.FAULTS, make)
        of_markers = [each for each in self._active.values() if isinstance(each.fault, MarkerFault)]
        broker.set_marker_faults(ActiveMarkerFaults(of_markers) if of_markers else None)
        full = broker.node_id in self._nodes_with("fill-disk")
        for directory in broker.log_manager.directories:
            disk.set_full(directory.path, full=full)

    def _nodes_with(self, kind: str) -> set[int]:
        return {
            active.fault.node
            for active in self._active.values()
            if isinstance(active.fault, NodeFault) and active.fault.kind == kind
        }

    def _set_links(self) -> None:
        cut: set[tuple[int, int]] = set()
        delays: dict[tuple[int, int], int] = {}
        for active in self._active.values():
            fault = active.fault
            if isinstance(fault, LinkFault) and fault.kind == "cut":
                cut.update(fault.links)
            elif isinstance(fault, LinkFault) and fault.kind == "slow":
                for link in fault.links:
                    delays[link] = max(delays.get(link, 0), fault.delay_ms)
        ids = [broker.node_id for broker in self._nodes.brokers]
        isolated = self._nodes_with("isolate")
        cut.update((a, b) for a in ids for b in ids if a != b and (a in isolated or b in isolated))
        frozen_nodes = self._nodes_with("freeze")
        frozen = {(node, other) for node in frozen_nodes for other in ids if node != other}
        concerned = cut | delays.keys() | frozen
        for pair in self._links | concerned:
            way = self._nodes.peers.between(*pair)
            way.delay_ms = delays.get(pair, 0)
            way.is_frozen = pair in frozen
            if way.is_cut != (pair in cut):
                way.is_cut = pair in cut
        self._links = concerned
