"""range: each topic on its own is cut into contiguous pieces, the larger ones for the first members.

Topics with the same number of partitions and the same members are cut alike, so that equal indexes meet in
one member (Kafka class `RangeAssignor`, without the racks of KIP-881).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.assignors.members import in_order, subscribed_topics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.assignors.members import Assignment, Subscription


def assign(counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
    """Return every member's partitions; `counts` holds the number of partitions of each topic."""
    assignment: Assignment = {member_id: [] for member_id in members}
    ordered = in_order(members)
    for topic in subscribed_topics(counts, members):
        readers = [member_id for member_id in ordered if topic in members[member_id].topics]
        share, extra = divmod(counts[topic], len(readers))
        first = 0
        for position, member_id in enumerate(readers):
            behind = first + share + (position < extra)
            assignment[member_id] += [(topic, index) for index in range(first, behind)]
            first = behind
    return assignment
