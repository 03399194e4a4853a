"""range of KIP-848: each topic by itself is cut into contiguous pieces, the larger for the first members.

Members stand in the order of their instance ids, then those without one in the order of their member ids.
Nothing is kept for its own sake: the same members and topics always give the same pieces (Kafka class
`org.apache.kafka.coordinator.group.assignor.RangeAssignor`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.assignors.members import java_order

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.assignors.server_members import Partitions, ServerMember


def assign(counts: Mapping[bytes, int], members: Mapping[str, ServerMember]) -> dict[str, Partitions]:
    """Return every member's partitions; `counts` holds the number of partitions of each topic."""
    assignment: dict[str, Partitions] = {member_id: {} for member_id in members}
    readers: dict[bytes, list[str]] = {}
    for member_id in _in_order(members):
        for topic_id in members[member_id].topics:
            readers.setdefault(topic_id, []).append(member_id)
    for topic_id, member_ids in readers.items():
        share, extra = divmod(counts.get(topic_id, 0), len(member_ids))
        first = 0
        for position, member_id in enumerate(member_ids):
            behind = first + share + (position < extra)
            if behind > first:
                assignment[member_id][topic_id] = frozenset(range(first, behind))
            first = behind
    return assignment


def _in_order(members: Mapping[str, ServerMember]) -> list[str]:
    def key(member_id: str) -> tuple[bool, bytes]:
        instance_id = members[member_id].instance_id
        return (instance_id is None, java_order(member_id if instance_id is None else instance_id))

    return sorted(members, key=key)
