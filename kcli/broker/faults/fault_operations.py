"""What `kcli broker fault` asks of a running process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.broker.config.option_values import text, whole
from kcli.broker.faults.actions import perform
from kcli.broker.faults.fault import RequestFault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from kcli.broker.faults.active_fault import ActiveFault
    from kcli.broker.process.cluster import Cluster

    Operation = Callable[[Cluster, Mapping[str, Any]], Awaitable[object]]


async def list_faults(cluster: Cluster, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the active faults, oldest first."""
    return [_described(active) for active in cluster.faults.active]


async def add_fault(cluster: Cluster, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Begin the fault `kind` with the other arguments as its options."""
    options = {name: value for name, value in arguments.items() if name != "kind"}
    return _described(cluster.faults.add(text({"kind": "", **arguments}, "kind"), **options))


async def clear_faults(cluster: Cluster, arguments: Mapping[str, Any]) -> int:
    """Clear the faults `numbers`, or without them every one; return how many."""
    numbers = arguments.get("numbers")
    if not numbers:
        return cluster.faults.clear_all()
    known = [cluster.faults.active_fault(whole({"number": each}, "number", least=1)) for each in numbers]
    for active in dict.fromkeys(known):
        cluster.faults.clear(active.number)
    return len(set(known))


def _moving(action: str) -> Operation:
    async def move(cluster: Cluster, arguments: Mapping[str, Any]) -> None:
        await perform(cluster, action, arguments)

    return move


def _described(active: ActiveFault) -> dict[str, Any]:
    fault = active.fault
    is_request = isinstance(fault, RequestFault)
    return {
        "number": active.number,
        "kind": fault.kind,
        "fault": str(fault),
        "hits": active.hits if is_request else None,
        "left": active.left if is_request else None,
    }


FAULT_OPERATIONS: Mapping[str, Operation] = {
    "fault.list": list_faults,
    "fault.add": add_fault,
    "fault.clear": clear_faults,
    "fault.move-leader": _moving("move-leader"),
    "fault.move-coordinator": _moving("move-coordinator"),
    "fault.move-controller": _moving("move-controller"),
}
