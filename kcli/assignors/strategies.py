"""The assignors that a member can offer, under the names of `partition.assignment.strategy`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kcli.assignors import range, sticky
from kcli.assignors.members import (
    NO_RACKS,
    Assignment,
    MemberSubscription,
    Partition,
    Racks,
    in_order,
    partitions_of,
    subscribed_topics,
)
from kcli.errors import UsageError

Assign = Callable[[Mapping[str, int], Mapping[str, MemberSubscription], Racks], Assignment]
"""Takes the partition counts of topics, the members, and the racks of partitions."""

JAVA_PACKAGE = "org.apache.kafka.clients.consumer."


def assign_round_robin(
    counts: Mapping[str, int], members: Mapping[str, MemberSubscription], racks: Racks = NO_RACKS
) -> Assignment:
    """Deal all partitions of all topics out one by one, skipping members that do not subscribe to the topic.

    The turn carries over from one topic to the next (Kafka class `RoundRobinAssignor`).
    """
    assignment: Assignment = {member_id: [] for member_id in members}
    ordered = in_order({member_id: member.instance_id for member_id, member in members.items()})
    turn = 0
    for partition in partitions_of(subscribed_topics(counts, members), counts):
        while partition[0] not in members[ordered[turn]].topics:
            turn = (turn + 1) % len(ordered)
        assignment[ordered[turn]].append(partition)
        turn = (turn + 1) % len(ordered)
    return assignment


def no_user_data(assigned: Iterable[Partition] | None, generation: int) -> bytes | None:
    return None


class Strategy(NamedTuple):
    """One assignor: `name` travels in the protocol, `java_name` is the class that Java clients configure.

    A cooperative one lets members keep what they own while they join.
    """

    name: str
    java_name: str
    assign: Assign
    user_data: Callable[[Iterable[Partition] | None, int], bytes | None] = no_user_data
    is_cooperative: bool = False


STRATEGIES = (
    Strategy("range", "RangeAssignor", range.assign),
    Strategy("roundrobin", "RoundRobinAssignor", assign_round_robin),
    Strategy("sticky", "StickyAssignor", sticky.assign, sticky.user_data),
    Strategy(
        "cooperative-sticky",
        "CooperativeStickyAssignor",
        sticky.assign_cooperatively,
        sticky.cooperative_user_data,
        is_cooperative=True,
    ),
)


def find_strategies(names: str) -> tuple[Strategy, ...]:
    """Return the assignors of a comma-separated list of short names or Java class names, each once."""
    known = {strategy.name: strategy for strategy in STRATEGIES}
    known.update((strategy.java_name, strategy) for strategy in STRATEGIES)
    found: list[Strategy] = []
    for name in filter(None, (part.strip() for part in names.split(","))):
        strategy = known.get(name.removeprefix(JAVA_PACKAGE))
        if strategy is None:
            raise UsageError(
                f"there is no assignor `{name}`", hint=", ".join(strategy.name for strategy in STRATEGIES)
            )
        if strategy in found:
            raise UsageError(f"`partition.assignment.strategy` names {strategy.name} twice")
        found.append(strategy)
    if not found:
        raise UsageError("`partition.assignment.strategy` must name an assignor")
    return tuple(found)
