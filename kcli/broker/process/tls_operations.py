"""The operation behind `kcli tls reload`: nodes load the key and trust stores of their listeners again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.broker.process.cluster import Cluster
    from kcli.broker.process.control_server import Operation
    from kcli.broker.security.tls_contexts import Reloaded


async def reload(cluster: Cluster, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one object per listener with TLS of each node that runs. Raises `UsageError` without any."""
    rows = []
    for node_id, node in sorted(cluster.nodes.items()):
        broker = node.broker
        if broker.tls is not None and broker.is_working:
            rows += [_row(node_id, found) for found in broker.tls.reload(broker.config, again=True)]
    if not rows:
        raise UsageError("no listener has TLS", hint="`kcli broker start --tls auto` starts some with it")
    return rows


def _row(node_id: int, found: Reloaded) -> dict[str, Any]:
    return {
        "node": node_id,
        "listener": found.listener,
        "subject": found.certificate.subject,
        "names": list(found.certificate.names),
        "not_after": found.certificate.not_after.isoformat(),
        "error": None if found.error is None else found.error.message,
        "hint": None if found.error is None else found.error.hint,
    }


TLS_OPERATIONS: Mapping[str, Operation] = {"tls.reload": reload}
