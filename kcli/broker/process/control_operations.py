"""The operations of the control socket by name: functions of the cluster and the arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.broker.process.acl_operations import ACL_OPERATIONS
from kcli.broker.process.compact_operations import COMPACT_OPERATIONS
from kcli.broker.process.fault_operations import FAULT_OPERATIONS
from kcli.broker.process.meter_operations import METER_OPERATIONS
from kcli.broker.process.node_operations import NODE_OPERATIONS
from kcli.broker.process.tls_operations import TLS_OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.broker.process.cluster import Cluster
    from kcli.broker.process.control_server import Operation


async def file_descriptors(cluster: Cluster, arguments: Mapping[str, Any]) -> dict[str, int]:
    return cluster.descriptors.counts()._asdict()


OPERATIONS: Mapping[str, Operation] = {
    **NODE_OPERATIONS,
    **FAULT_OPERATIONS,
    **METER_OPERATIONS,
    **COMPACT_OPERATIONS,
    **TLS_OPERATIONS,
    **ACL_OPERATIONS,
    "process.file-descriptors": file_descriptors,
}
