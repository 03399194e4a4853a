"""PartitionState: what an image says of a partition, in Kafka's words (class `PartitionState`).

Nobody keeps the state: it follows from the leader. A partition that never had one has the leader epoch 0.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.broker.registrations import PartitionRegistration


class PartitionState(Enum):
    """What a partition is."""

    NEW = "it has replicas and never had a leader"
    ONLINE = "it has a leader"
    OFFLINE = "it has lost its leader"


def partition_state(partition: PartitionRegistration) -> PartitionState:
    """Return the state of a partition."""
    if partition.leader >= 0:
        return PartitionState.ONLINE
    return PartitionState.OFFLINE if partition.leader_epoch > 0 else PartitionState.NEW
