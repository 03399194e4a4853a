"""Who owns what before a sticky assignment, judged from what members say of themselves.

Of a partition that several members claim, the one with the newest generation keeps it: the others missed a
rebalance. Claimed twice in one generation it belongs to nobody (Kafka class `AbstractStickyAssignor`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.assignors.members import java_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kcli.assignors.members import Assignment, Partition, Subscription


class Claim(NamedTuple):
    """What one member says it owns, and the generation in which it got that."""

    partitions: Sequence[Partition]
    generation: int


def settle(
    counts: Mapping[str, int], members: Mapping[str, Subscription], claims: Mapping[str, Claim]
) -> Assignment:
    """Return the claims that count, by member in order of their ids.

    None does of a partition that is gone, no longer wanted, or claimed twice for the same generation.
    """
    best: dict[Partition, list[str]] = {}
    for member_id in sorted(members, key=java_order):
        topics = members[member_id].topics
        partitions, generation = claims[member_id]
        for partition in dict.fromkeys(partitions):
            topic, index = partition
            if topic not in topics or not 0 <= index < counts.get(topic, 0):
                continue
            owners = best.setdefault(partition, [])
            known = claims[owners[0]].generation if owners else generation
            if generation > known:
                best[partition] = [member_id]
            elif generation == known:
                owners.append(member_id)
    owned: Assignment = {member_id: [] for member_id in sorted(members, key=java_order)}
    for partition, owners in best.items():
        if len(owners) == 1:
            owned[owners[0]].append(partition)
    return owned
