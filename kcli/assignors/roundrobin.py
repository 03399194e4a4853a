"""roundrobin: all partitions of all topics are dealt out one by one, past members that do not want them.

Whose turn it is carries over from one topic to the next (Kafka class `RoundRobinAssignor`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.assignors.members import in_order, partitions_of, subscribed_topics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.assignors.members import Assignment, Subscription


def assign(counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
    """Return every member's partitions; `counts` holds the number of partitions of each topic."""
    assignment: Assignment = {member_id: [] for member_id in members}
    ordered = in_order(members)
    turn = 0
    for partition in partitions_of(subscribed_topics(counts, members), counts):
        while partition[0] not in members[ordered[turn]].topics:
            turn = (turn + 1) % len(ordered)
        assignment[ordered[turn]].append(partition)
        turn = (turn + 1) % len(ordered)
    return assignment
