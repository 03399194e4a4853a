"""The one rule that picks a partition's next state.

Whatever happens to a partition (a broker comes or goes, its leader changes the in-sync replicas, someone
asks for an election) ends here: the wished-for state goes in, and out comes the change record that leads
there, with the leader elected. A replica may lead if it is acceptable, which the caller knows (registered,
not fenced, not shutting down), and in sync. The last in-sync replica is never taken away: it alone has
every committed record, so the partition waits for it without a leader (class `PartitionChangeBuilder`).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from kcli.broker.registrations import LeaderRecoveryState
from kcli.protocol.metadata_records import LEADER_UNCHANGED, NO_LEADER, PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcli.broker.metadata_image import PartitionRegistration


class Election(Enum):
    """How far an election may go to find a leader."""

    ONLINE = "keep the leader if it may lead, else take the first replica that may"
    PREFERRED = "take the first replica if it may lead"
    UNCLEAN = "if none in sync may lead, take the first acceptable one, and lose what it lacks"


def next_state(
    partition: PartitionRegistration,
    *,
    topic_id: bytes,
    partition_id: int,
    is_acceptable: Callable[[int], bool],
    election: Election = Election.ONLINE,
    isr: Sequence[int] | None = None,
) -> PartitionChangeRecord | None:
    """Return the change to a partition whose in-sync replicas should be `isr` (default: as they are).

    None if nothing changes.
    """
    wished = tuple(partition.isr if isr is None else isr) or partition.isr
    leader, is_unclean = elect(partition, wished, is_acceptable=is_acceptable, election=election)
    change = PartitionChangeRecord(topic_id=topic_id, partition_id=partition_id)
    if leader != partition.leader:
        change.leader = leader
    if is_unclean:
        wished = (leader,)
        if partition.recovery_state is not LeaderRecoveryState.RECOVERING:
            change.leader_recovery_state = LeaderRecoveryState.RECOVERING
    if wished != partition.isr:
        change.isr = list(wished)
    return None if _is_empty(change) else change


def elect(
    partition: PartitionRegistration,
    isr: Sequence[int],
    *,
    is_acceptable: Callable[[int], bool],
    election: Election,
) -> tuple[int, bool]:
    """Return the leader of a partition with these in-sync replicas, and whether the election is unclean."""
    order = list(partition.replicas)
    if partition.leader in order and election is not Election.PREFERRED:
        order.insert(0, partition.leader)
    elif partition.leader in order:
        order.insert(1, partition.leader)
    for replica in order:
        if replica in isr and is_acceptable(replica):
            return replica, False
    if election is Election.UNCLEAN:
        for replica in partition.replicas:
            if is_acceptable(replica):
                return replica, True
    return NO_LEADER, False


def _is_empty(change: PartitionChangeRecord) -> bool:
    return change.leader == LEADER_UNCHANGED and change.isr is None and change.leader_recovery_state < 0
