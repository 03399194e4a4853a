"""Which replica a consumer should read from: one in its own rack, if there is one (KIP-392).

Only the leader says so, and only of in-sync replicas that hold what the consumer asks for; of several the one
that has come furthest wins (class `RackAwareReplicaSelector`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.replication_settings import RACK_AWARE_SELECTOR

if TYPE_CHECKING:
    from kcli.broker.partition import Partition
    from kcli.broker.replica_manager import ReplicaManager


def preferred_replica(
    manager: ReplicaManager, partition: Partition, fetch_offset: int, rack: str
) -> int | None:
    """Return the node that a consumer in `rack` should read from, None if it is this one."""
    in_sync, image = partition.in_sync, manager.image
    if in_sync is None or image is None or manager.config.replica_selector_class != RACK_AWARE_SELECTOR:
        return None
    own = image.brokers.get(manager.node_id)
    if own is not None and own.rack == rack:
        return None
    candidates = [
        remote
        for node_id, remote in in_sync.remotes.items()
        if node_id in in_sync.committed
        and (broker := image.brokers.get(node_id)) is not None
        and broker.rack == rack
        and not broker.fenced
        and remote.log_start_offset <= fetch_offset <= remote.log_end_offset
    ]
    if not candidates:
        return None
    return max(candidates, key=lambda each: (each.log_end_offset, each.caught_up_ms, each.node_id)).node_id
