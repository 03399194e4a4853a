"""sticky and cooperative-sticky: balanced, and every member keeps as much of what it had as it can.

sticky (KIP-54) is eager: members give everything up before they join, and tell what they had in the user data
of their subscription, all integers big-endian:

    array of {topic string, array of int32}   what the last assignment gave
    int32                                     its generation; older members leave this out (KIP-341)

Arrays begin with an int32 count, a string with an int16 length in bytes.

cooperative-sticky (KIP-429) moves a partition in two rebalances: members keep what they own while they join,
and say so in their subscription. A partition that its owner has to give up is withheld from its new member;
the owner's revocation starts the second rebalance. User data is the int32 generation, needed only from
members whose subscription has no field for it yet.

The balance is that of Kafka's `AbstractStickyAssignor`. If all members subscribe to the same topics, each
gets P // M of the P partitions, and P % M of the M members get one more. Otherwise no member has two
partitions more than another one that could read any of them.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from kcli.assignors.members import NO_GENERATION, NO_RACKS, partitions_of, subscribed_topics
from kcli.protocol.java import java_order
from kcli.protocol.topics import by_topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kcli.assignors.members import Assignment, MemberSubscription, Partition, Racks


class PreviousAssignment(NamedTuple):
    """The partitions that one member claims to own, and the generation in which it got them."""

    partitions: Sequence[Partition]
    generation: int


def current_owners(
    counts: Mapping[str, int],
    members: Mapping[str, MemberSubscription],
    claims: Mapping[str, PreviousAssignment],
) -> Assignment:
    """Return the valid claims, by member in order of their ids.

    Of several members that claim a partition, the one with the newest generation owns it: the others missed a
    rebalance. A claim is void if the partition is gone, if its member no longer subscribes to the topic, or
    if another member claims the partition for the same generation.
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


def balanced(
    counts: Mapping[str, int], members: Mapping[str, MemberSubscription], owned: Assignment
) -> Assignment:
    """Return every member's partitions, close to what each owns.

    `owned` has all members, in the order in which they take turns, and no partition twice.
    """
    topics = subscribed_topics(counts, members)
    if len({member.topics for member in members.values()}) <= 1:
        return _even(partitions_of(topics, counts), owned)
    return _uneven(topics, counts, members, owned)


def _even(partitions: Sequence[Partition], owned: Assignment) -> Assignment:
    """Give all members the same share: first of what they own, then of the rest in turns."""
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
    topics: Sequence[str],
    counts: Mapping[str, int],
    members: Mapping[str, MemberSubscription],
    owned: Assignment,
) -> Assignment:
    readers = {topic: [one for one in owned if topic in members[one].topics] for topic in topics}
    assignment = {member_id: list(mine) for member_id, mine in owned.items()}
    holders = {partition: member_id for member_id, mine in owned.items() for partition in mine}
    # Topics with few readers go first: the other topics even out the loads.
    by_choice = sorted(topics, key=lambda topic: (len(readers[topic]), java_order(topic)))
    new = [partition for partition in partitions_of(by_choice, counts) if partition not in holders]
    for partition in new:
        holders[partition] = _least(readers[partition[0]], assignment)
        assignment[holders[partition]].append(partition)
    old = [partition for mine in owned.values() for partition in mine]

    def moves(partitions: Sequence[Partition]) -> bool:
        return [_move(partition, readers, assignment, holders) for partition in partitions].count(True) > 0

    # Partitions without an owner move before owned ones. Every move lowers the sum of squares, so this ends.
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
    """Move a partition to its least loaded reader, if its holder has two more; return whether it moved."""
    holder, target = holders[partition], _least(readers[partition[0]], assignment)
    if len(assignment[holder]) < len(assignment[target]) + 2:
        return False
    assignment[holder].remove(partition)
    assignment[target].append(partition)
    holders[partition] = target
    return True


def assign(
    counts: Mapping[str, int], members: Mapping[str, MemberSubscription], racks: Racks = NO_RACKS
) -> Assignment:
    """Return every member's partitions, wherever they are; `counts` has the partition counts of topics."""
    claims = {member_id: decode_user_data(member.user_data) for member_id, member in members.items()}
    return balanced(counts, members, current_owners(counts, members, claims))


def user_data(assigned: Iterable[Partition] | None, generation: int) -> bytes | None:
    """Return the user data for a member's last assignment, None before the first."""
    if assigned is None:
        return None
    topics = by_topic(assigned)
    parts = [struct.pack(">i", len(topics))]
    for topic, indexes in topics.items():
        name = topic.encode()
        parts.append(struct.pack(f">h{len(name)}si{len(indexes)}i", len(name), name, len(indexes), *indexes))
    return b"".join((*parts, struct.pack(">i", generation)))


def decode_user_data(data: bytes | None) -> PreviousAssignment:
    """Return what a member had: nothing if the data is missing or malformed."""
    if not data:
        return PreviousAssignment((), NO_GENERATION)
    try:
        partitions, end = _decode_partitions(data)
    except (struct.error, UnicodeDecodeError, ValueError):
        return PreviousAssignment((), NO_GENERATION)
    has_generation = len(data) >= end + 4
    generation = struct.unpack_from(">i", data, end)[0] if has_generation else NO_GENERATION
    return PreviousAssignment(partitions, generation)


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
        numbers = struct.unpack_from(f">{indexes}i", data, position)
        partitions += ((topic, index) for index in numbers)
        position += 4 * indexes
    return partitions, position


def assign_cooperatively(
    counts: Mapping[str, int], members: Mapping[str, MemberSubscription], racks: Racks = NO_RACKS
) -> Assignment:
    """Return every member's partitions of this rebalance; `counts` has the partition counts of topics."""
    claims = {
        member_id: PreviousAssignment(member.owned, _generation(member))
        for member_id, member in members.items()
    }
    owned = current_owners(counts, members, claims)
    target = balanced(counts, members, owned)
    # An owned partition stays where it is or is withheld.
    owner = {partition: member_id for member_id, mine in owned.items() for partition in mine}
    claimed = {partition for claim in claims.values() for partition in claim.partitions}
    return {
        member_id: [one for one in mine if one not in claimed or owner.get(one) == member_id]
        for member_id, mine in target.items()
    }


def cooperative_user_data(assigned: Iterable[Partition] | None, generation: int) -> bytes:
    """Return the user data for the generation of a member's last assignment."""
    return struct.pack(">i", generation)


def _generation(member: MemberSubscription) -> int:
    if member.generation != NO_GENERATION or member.user_data is None or len(member.user_data) < 4:
        return member.generation
    generation: int = struct.unpack_from(">i", member.user_data)[0]
    return generation
