"""The operation behind `kcli acls denials`: what the authorizers of the nodes have denied last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.broker.config.option_values import whole
from kcli.errors import KcliError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.broker.process.cluster import Cluster
    from kcli.broker.process.control_server import Operation


async def denials(cluster: Cluster, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the last denials of one `node` or of all, the oldest first.

    A denial has a number on its node; `after` has the last known number of each node, by node id as text, and
    leaves older ones out. A node that starts again counts from 1, so a number above its own counts for none.
    Raises `KcliError` if no node has an authorizer.
    """
    nodes = dict(sorted(cluster.nodes.items()))
    if arguments.get("node") is not None:
        wanted = whole(arguments, "node")
        if wanted not in nodes:
            raise KcliError(f"there is no node {wanted}")
        nodes = {wanted: nodes[wanted]}
    audits = {node_id: node.broker.audit for node_id, node in nodes.items() if node.broker.audit is not None}
    if not audits:
        raise KcliError(
            "no node has an authorizer, so nothing is denied",
            hint="`kcli broker start --acls` starts one with it",
        )
    known: Mapping[str, Any] = arguments.get("after") or {}
    rows = []
    for node_id, audit in audits.items():
        last = whole({str(node_id): 0, **known}, str(node_id))
        if audit.denials and audit.denials[-1].number < last:
            last = 0
        rows += [{"node": node_id, **each.to_json()} for each in audit.denials if each.number > last]
    return sorted(rows, key=lambda row: (row["time_ms"], row["node"], row["number"]))


ACL_OPERATIONS: Mapping[str, Operation] = {"acls.denials": denials}
