"""sticky: balanced, and every member keeps as much of what it had as it can (KIP-54).

The protocol is the eager one: members give everything up before they join, and tell what they had in the user
data of their subscription, all integers big-endian:

    array of {topic string, array of int32}   what the last assignment gave
    int32                                     its generation; older members leave this out (KIP-341)

Arrays begin with an int32 count, a string with an int16 length in bytes.

Who owns what before a sticky assignment, judged from what members say of themselves.

Of a partition that several members claim, the one with the newest generation keeps it: the others missed a
rebalance. Claimed twice in one generation it belongs to nobody (Kafka class `AbstractStickyAssignor`).

The balance of the sticky assignors: members keep what they own as far as nobody has too much.

If all want the same topics, every member gets P // M of the P partitions and P % M of the M members one more.
Otherwise no member has two partitions more than another one that could read any of them.

cooperative-sticky: as sticky, but a partition changes hands in two rebalances (KIP-429).

Members keep what they own while they join, and say so in their subscription. A partition that somebody else
still owns is withheld from its new member: the owner gives it up, which starts the second rebalance. User
data is the int32 generation, of use only from members whose subscription has no field for it yet.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from kcli.assignors.members import NO_GENERATION, java_order, partitions_of, subscribed_topics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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


def balanced(counts: Mapping[str, int], members: Mapping[str, Subscription], owned: Assignment) -> Assignment:
    """Return every member's partitions, near to what each owns.

    `owned` names all members, in the order in which they take turns, and no partition twice.
    """
    topics = subscribed_topics(counts, members)
    if len({member.topics for member in members.values()}) <= 1:
        return _even(partitions_of(topics, counts), owned)
    return _uneven(topics, counts, members, owned)


def _even(partitions: Sequence[Partition], owned: Assignment) -> Assignment:
    """Give all members the same share: first of their own, then of the rest, dealt out in turns."""
    share, larger = divmod(len(partitions), max(1, len(owned)))
    assignment: Assignment = {}
    for member_id, mine in owned.items():
        room = share + (larger > 0 and len(mine) > share)
        larger -= room - share
        assignment[member_id] = sorted(mine, key=lambda partition: (partition[1], partition[0]))[:room]
    kept = {partition for mine in assignment.values() for partition in mine}
    rest = deque(partition for partition in partitions if partition not in kept)
    below = deque(member_id for member_id, mine in assignment.items() if len(mine) < share)
    satisfied = [member_id for member_id, mine in assignment.items() if len(mine) == share]
    while below:
        member_id = below.popleft()
        assignment[member_id].append(rest.popleft())
        (below if len(assignment[member_id]) < share else satisfied).append(member_id)
    for member_id, partition in zip(satisfied, rest, strict=False):
        assignment[member_id].append(partition)
    return assignment


def _uneven(
    topics: Sequence[str], counts: Mapping[str, int], members: Mapping[str, Subscription], owned: Assignment
) -> Assignment:
    readers = {topic: [one for one in owned if topic in members[one].topics] for topic in topics}
    assignment = {member_id: list(mine) for member_id, mine in owned.items()}
    holders = {partition: member_id for member_id, mine in owned.items() for partition in mine}
    # What few can read is given away first: the others even it out.
    by_choice = sorted(topics, key=lambda topic: (len(readers[topic]), java_order(topic)))
    new = [partition for partition in partitions_of(by_choice, counts) if partition not in holders]
    for partition in new:
        holders[partition] = _least(readers[partition[0]], assignment)
        assignment[holders[partition]].append(partition)
    old = [partition for mine in owned.values() for partition in mine]

    def moves(partitions: Sequence[Partition]) -> bool:
        return [_move(partition, readers, assignment, holders) for partition in partitions].count(True) > 0

    # What nobody owned moves before anything is taken away. Each move lessens the sum of squares.
    while moves(new) or moves(old):
        pass
    return assignment


def _least(readers: Sequence[str], assignment: Assignment) -> str:
    return min(readers, key=lambda member_id: len(assignment[member_id]))


def _move(
    partition: Partition,
    readers: Mapping[str, Sequence[str]],
    assignment: Assignment,
    holders: dict[Partition, str],
) -> bool:
    """Move a partition to who has least, if its holder has two more; return whether it moved."""
    holder, target = holders[partition], _least(readers[partition[0]], assignment)
    if len(assignment[holder]) < len(assignment[target]) + 2:
        return False
    assignment[holder].remove(partition)
    assignment[target].append(partition)
    holders[partition] = target
    return True


def assign(counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
    """Return every member's partitions; `counts` holds the number of partitions of each topic."""
    claims = {member_id: decode_user_data(member.user_data) for member_id, member in members.items()}
    return balanced(counts, members, settle(counts, members, claims))


def user_data(assigned: Iterable[Partition] | None, generation: int) -> bytes | None:
    """Return what a member tells of its last assignment; None before the first."""
    if assigned is None:
        return None
    topics: dict[str, list[int]] = {}
    for topic, index in assigned:
        topics.setdefault(topic, []).append(index)
    parts = [struct.pack(">i", len(topics))]
    for topic, indexes in topics.items():
        name = topic.encode()
        parts.append(struct.pack(f">h{len(name)}si{len(indexes)}i", len(name), name, len(indexes), *indexes))
    return b"".join((*parts, struct.pack(">i", generation)))


def decode_user_data(data: bytes | None) -> Claim:
    """Return what a member had; nothing if it tells nothing that can be read."""
    if not data:
        return Claim((), NO_GENERATION)
    try:
        partitions, end = _decode_partitions(data)
    except (struct.error, UnicodeDecodeError, ValueError):
        return Claim((), NO_GENERATION)
    has_generation = len(data) >= end + 4
    generation = struct.unpack_from(">i", data, end)[0] if has_generation else NO_GENERATION
    return Claim(partitions, generation)


def _decode_partitions(data: bytes) -> tuple[list[Partition], int]:
    partitions: list[Partition] = []
    (count,) = struct.unpack_from(">i", data, 0)
    position = 4
    for _ in range(count):
        (size,) = struct.unpack_from(">h", data, position)
        name = data[position + 2 : position + 2 + size]
        if len(name) != size:
            raise ValueError("cut short")
        topic = name.decode()
        (indexes,) = struct.unpack_from(">i", data, position + 2 + size)
        position += 6 + size
        if not 0 <= indexes <= (len(data) - position) // 4:
            raise ValueError("cut short")
        partitions += ((topic, index) for index in struct.unpack_from(f">{indexes}i", data, position))
        position += 4 * indexes
    return partitions, position


def assign_cooperatively(counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
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


def cooperative_user_data(assigned: Iterable[Partition] | None, generation: int) -> bytes:
    """Return the generation of a member's last assignment."""
    return struct.pack(">i", generation)


def _generation(member: Subscription) -> int:
    if member.generation != NO_GENERATION or member.user_data is None or len(member.user_data) < 4:
        return member.generation
    generation: int = struct.unpack_from(">i", member.user_data)[0]
    return generation
