"""Keeping the in-sync replicas of a partition, on its leader: who joins, who leaves, what the answer is.

| the controller's answer | what the leader does |
|---|---|
| yes | takes over the ISR of the answer, unless the metadata was faster |
| INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED | goes back to what was committed last |
| FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, NEW_LEADER_ELECTED, … | waits for the metadata to tell |
| anything else, and no answer | asks again |

(methods `maybeExpandIsr`, `maybeShrinkIsr` and `handleAlterPartitionUpdate` of class `Partition`)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kcli.broker.in_sync_replicas import is_eligible

if TYPE_CHECKING:
    from kcli.broker.partition import Partition
    from kcli.broker.remote_replica import RemoteReplica
    from kcli.protocol.messages.alter_partition import AlteredPartition

_log = logging.getLogger(__name__)


class IsrChange:
    """One change: the members asked for, with their broker epochs, and the partition's epochs then."""

    __slots__ = ("isr", "leader_epoch", "members", "partition", "partition_epoch")

    def __init__(self, partition: Partition, members: dict[int, int]) -> None:
        self.partition = partition
        self.members = members
        self.isr = frozenset(members)
        self.leader_epoch = partition.leader_epoch
        self.partition_epoch = partition.partition_epoch


def consider_expansion(partition: Partition, fetching: RemoteReplica | None = None) -> None:
    """Ask for followers that have caught up to count as in sync.

    Only who fetches may: the one that does so right now, and those that wait for more.
    """
    in_sync = partition.in_sync
    if in_sync is None or in_sync.pending is not None:
        return
    high_watermark, host = partition.log.high_watermark, partition.host
    joining = [
        node_id
        for node_id, remote in in_sync.remotes.items()
        if (remote is fetching or remote.session is not None)
        and in_sync.may_join(remote, high_watermark)
        and is_eligible(remote, host)
    ]
    if joining:
        _ask(partition, in_sync.committed.union(joining))


def shrink(partition: Partition) -> None:
    """Ask for members that have been behind for too long to be dropped."""
    in_sync, host = partition.in_sync, partition.host
    if in_sync is None or in_sync.pending is not None:
        return
    lagging = in_sync.lagging(partition.log.log_end_offset, host.clock_ms(), host.max_lag_ms)
    if lagging:
        _log.info("%s-%d: replicas lag behind: %s", *partition.key, sorted(lagging))
        _ask(partition, in_sync.committed - lagging)


def _ask(partition: Partition, isr: frozenset[int]) -> None:
    in_sync = partition.in_sync
    assert in_sync is not None
    members = {}
    for node_id in partition.replicas:
        if node_id in isr:
            remote = in_sync.remotes.get(node_id)
            members[node_id] = -1 if remote is None else remote.broker_epoch
    in_sync.ask(isr)
    partition.host.submit(IsrChange(partition, members))


def awaits(change: IsrChange) -> bool:
    """Whether a change is still the one that its partition waits for."""
    in_sync = change.partition.in_sync
    return (
        in_sync is not None
        and in_sync.pending == change.isr
        and change.partition.leader_epoch == change.leader_epoch
        and change.partition.partition_epoch == change.partition_epoch
    )


def accept(change: IsrChange, answer: AlteredPartition) -> None:
    """Take over what the controller has decided."""
    partition = change.partition
    if awaits(change) and answer.leader_epoch == partition.leader_epoch:
        assert partition.in_sync is not None
        partition.partition_epoch = answer.partition_epoch
        partition.in_sync.commit(partition.replicas, frozenset(answer.isr))
        partition.isr_moved()
        consider_expansion(partition)


def refuse(change: IsrChange) -> None:
    """Go back to what was committed last; the follower may have another try."""
    if awaits(change):
        assert change.partition.in_sync is not None
        change.partition.in_sync.settle()
        change.partition.isr_moved()
