"""The operation behind `kcli broker requests`: it measures how long nodes take for requests."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from kcli.broker.config.option_values import whole
from kcli.broker.process.control_server import LongOperation
from kcli.errors import KcliError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.broker.metering.meters import Meter
    from kcli.broker.metering.request_times import TimeHistogram
    from kcli.broker.process.cluster import Cluster
    from kcli.broker.process.control_server import Operation

MOST_SECONDS = 3600


async def measure_requests(cluster: Cluster, arguments: Mapping[str, Any]) -> LongOperation:
    """Measure the requests to one `node` or to all, for `seconds` or until the client leaves."""
    seconds = whole({"seconds": 0, **arguments}, "seconds", least=1)
    if seconds > MOST_SECONDS:
        raise UsageError(f"`seconds` is at most {MOST_SECONDS}, not {seconds}")
    return LongOperation(partial(_measure, cluster, node_id=_node(cluster, arguments), seconds=seconds))


def _node(cluster: Cluster, arguments: Mapping[str, Any]) -> int | None:
    """Return the node to measure, None for all. Raises `KcliError` if it does not run, or no node runs."""
    if arguments.get("node") is None:
        if not any(node.is_alive for node in cluster.nodes.values()):
            raise KcliError("no node runs", hint="`kcli broker node start` starts one")
        return None
    node_id = whole(arguments, "node")
    if not cluster.node(node_id).is_alive:
        raise KcliError(f"node {node_id} is not running", hint=f"`kcli broker node start {node_id}`")
    return node_id


async def _measure(
    cluster: Cluster, left: trio.Event, *, node_id: int | None, seconds: int
) -> dict[str, Any]:
    with cluster.meters.reading(node_id) as meter:
        with trio.move_on_after(seconds):
            await left.wait()
        measured_seconds = trio.current_time() - meter.since
    return _described(meter, measured_seconds)


def _described(meter: Meter, seconds: float) -> dict[str, Any]:
    rows = [
        {
            "node": node_id,
            "api": api,
            "requests": times.total.count,
            "per_second": round(times.total.count / seconds, 3) if seconds else 0.0,
            "local_ms": _milliseconds(times.local),
            "remote_ms": _milliseconds(times.remote),
            "total_ms": _milliseconds(times.total),
        }
        for node_id, node_times in sorted(meter.times.items())
        for api, times in node_times.by_api.items()
    ]
    return {"seconds": round(seconds, 3), "nodes": sorted(meter.times), "apis": rows}


def _milliseconds(times: TimeHistogram) -> dict[str, float]:
    found = {
        "mean": times.mean_ns,
        "p50": times.quantile_ns(0.5),
        "p99": times.quantile_ns(0.99),
        "max": times.largest_ns,
    }
    return {name: round(time_ns / 1e6, 4) for name, time_ns in found.items()}


METER_OPERATIONS: Mapping[str, Operation] = {"requests.measure": measure_requests}
