"""The balance of the sticky assignors: members keep what they own as far as nobody has too much.

If all want the same topics, every member gets P // M of the P partitions and P % M of the M members one more.
Otherwise no member has two partitions more than another one that could read any of them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kcli.assignors.members import java_order, partitions_of, subscribed_topics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kcli.assignors.members import Assignment, Partition, Subscription


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
