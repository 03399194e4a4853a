"""uniform of KIP-848: all members read about equally much, and partitions stay where they were if they can.

Members with equal subscriptions end within one partition of each other. Balance comes before stickiness, and
as few partitions move as balance allows: the larger shares go to members that had more already (Kafka class
`UniformHomogeneousAssignmentBuilder`, which leaves open who gets them). Different subscriptions are the work
of `server_uniform_mixed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.assignors import server_uniform_mixed
from kcli.assignors.server_members import by_topic, kept, subscribe_alike

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.assignors.server_members import Partitions, ServerMember


def assign(counts: Mapping[bytes, int], members: Mapping[str, ServerMember]) -> dict[str, Partitions]:
    """Return every member's partitions; `counts` holds the number of partitions of each topic."""
    if not members:
        return {}
    if not subscribe_alike(members):
        return server_uniform_mixed.assign(counts, members)
    had = _had(counts, members)
    topics = next(iter(members.values())).topics
    every = [(topic_id, index) for topic_id in sorted(topics) for index in range(counts.get(topic_id, 0))]
    shares = _shares(had, len(every))
    keeps = {member_id: partitions[: shares[member_id]] for member_id, partitions in had.items()}
    taken = {partition for partitions in keeps.values() for partition in partitions}
    free = iter([partition for partition in every if partition not in taken])
    assignment = {}
    for member_id in sorted(members):
        mine = keeps[member_id]
        more = [partition for _, partition in zip(range(shares[member_id] - len(mine)), free, strict=False)]
        assignment[member_id] = by_topic(mine + more)
    return assignment


def _had(
    counts: Mapping[bytes, int], members: Mapping[str, ServerMember]
) -> dict[str, list[tuple[bytes, int]]]:
    """Return what members had and may keep; of two that had the same partition, the first."""
    seen: set[tuple[bytes, int]] = set()
    had = {}
    for member_id, member in members.items():
        had[member_id] = [partition for partition in kept(member, counts) if partition not in seen]
        seen.update(had[member_id])
    return had


def _shares(had: Mapping[str, list[tuple[bytes, int]]], total: int) -> dict[str, int]:
    """Return how many partitions each member is to have."""
    share, extra = divmod(total, len(had))
    order = sorted(had, key=lambda member_id: (-len(had[member_id]), member_id))
    return {member_id: share + (position < extra) for position, member_id in enumerate(order)}
