"""cooperative-sticky: as sticky, but a partition changes hands in two rebalances (KIP-429).

Members keep what they own while they join, and say so in their subscription. A partition that somebody else
still owns is withheld from its new member: the owner gives it up, which starts the second rebalance. User
data is the int32 generation, of use only from members whose subscription has no field for it yet.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kcli.assignors.balance import balanced
from kcli.assignors.claims import Claim, settle
from kcli.assignors.members import NO_GENERATION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kcli.assignors.members import Assignment, Partition, Subscription


def assign(counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
    """Return every member's partitions of this step; `counts` holds the partitions of each topic."""
    claims = {member_id: Claim(member.owned, _generation(member)) for member_id, member in members.items()}
    owned = settle(counts, members, claims)
    target = balanced(counts, members, owned)
    # What is owned at all may only stay where it is.
    owner = {partition: member_id for member_id, mine in owned.items() for partition in mine}
    claimed = {partition for claim in claims.values() for partition in claim.partitions}
    return {
        member_id: [one for one in mine if one not in claimed or owner.get(one) == member_id]
        for member_id, mine in target.items()
    }


def user_data(assigned: Iterable[Partition] | None, generation: int) -> bytes:
    """Return the generation of a member's last assignment."""
    return struct.pack(">i", generation)


def _generation(member: Subscription) -> int:
    if member.generation != NO_GENERATION or member.user_data is None or len(member.user_data) < 4:
        return member.generation
    generation: int = struct.unpack_from(">i", member.user_data)[0]
    return generation
