"""Happenings: the events of a schedule, done to a simulated cluster, and the repair afterwards."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from kcli.broker.controller.election_control import ElectionType
from kcli.broker.controller.reassignment_control import Reassignment
from kcli.broker.process.fault_operations import move_leader, perform
from kcli.errors import KcliError
from kcli.protocol.topics import TRANSACTION_STATE_TOPIC, TopicPartition
from tests.broker.schedules.clients import TOPIC
from tests.broker.schedules.schedule import NODES

if TYPE_CHECKING:
    from tests.broker.schedules.schedule import Event, Life
    from tests.broker.schedules.simulated_cluster import SimulatedCluster

PARTITIONS = 2


class Happenings:
    """What happens to one cluster; faults are known by the names that the schedule gives them."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    async def follow(self, cluster: SimulatedCluster, life: Life) -> None:
        """Do every event at its time."""
        started = trio.current_time()
        async with trio.open_nursery() as nursery:
            for event in life.events:
                await trio.sleep_until(started + event.at)
                nursery.start_soon(self._do, cluster, event)
            await trio.sleep_until(started + life.seconds)

    async def repair(self, cluster: SimulatedCluster) -> None:
        """End all faults, and have every node run."""
        cluster.cluster.faults.clear_all()
        self._numbers.clear()
        for node in NODES:
            for action in ("resume", "start"):
                with suppress(KcliError):  # It was not paused, or not dead.
                    await perform(cluster.cluster, action, {"node": node})

    async def _do(self, cluster: SimulatedCluster, event: Event) -> None:
        with suppress(KcliError):  # An event that is impossible now is refused; the schedule goes on.
            await self._perform(cluster, event)
        cluster.reset_connections()

    async def _perform(self, cluster: SimulatedCluster, event: Event) -> None:
        faults = cluster.cluster.faults
        match event.action, event.arguments:
            case ("kill" | "stop" | "start" | "pause" | "resume") as action, (node,):
                await perform(cluster.cluster, action, {"node": node})
            case "fault", (name, kind, *options):
                self._numbers[str(name)] = faults.add(str(kind), **dict(options)).number  # type: ignore[arg-type]
            case "clear", (name,):
                if name in self._numbers:
                    faults.clear(self._numbers.pop(str(name)))
            case "move", (int(partition), int(node)):
                move_leader(cluster.controller, TOPIC, partition=partition, node=node)
            case "move-coordinator", (int(node),):
                move_leader(cluster.controller, TRANSACTION_STATE_TOPIC, partition=0, node=node)
            case "elect", ():
                cluster.controller.elect_leaders(
                    [TopicPartition(TOPIC, index) for index in range(PARTITIONS)], type=ElectionType.PREFERRED
                )
            case "reassign", (int(partition), tuple(replicas)):
                cluster.controller.alter_reassignments([Reassignment(TOPIC, partition, replicas)])
            case "controller", (node,):
                await perform(cluster.cluster, "move-controller", {"to": node})
            case _:
                raise AssertionError(f"no event {event}")
