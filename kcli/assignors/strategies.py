"""The assignors that a member can offer, under the names of `partition.assignment.strategy`.

roundrobin: all partitions of all topics are dealt out one by one, past members that do not want them.

Whose turn it is carries over from one topic to the next (Kafka class `RoundRobinAssignor`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kcli.assignors import range, sticky
from kcli.assignors import sticky as cooperative_sticky
from kcli.assignors.members import NO_RACKS, in_order, partitions_of, subscribed_topics
from kcli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kcli.assignors.members import Assignment, Partition, Racks, Subscription


def assign_round_robin(counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
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


JAVA_PACKAGE = "org.apache.kafka.clients.consumer."


def no_user_data(assigned: Iterable[Partition] | None, generation: int) -> bytes | None:
    """Say nothing of a member's last assignment."""
    return None


class Assign(Protocol):
    """Says who gets what of topics with so many partitions, as far as the assignor minds it by rack."""

    def __call__(
        self, counts: Mapping[str, int], members: Mapping[str, Subscription], racks: Racks = NO_RACKS
    ) -> Assignment: ...


def wherever(assign: Callable[[Mapping[str, int], Mapping[str, Subscription]], Assignment]) -> Assign:
    """Return an assignor that does not mind racks."""

    def assign_wherever(
        counts: Mapping[str, int], members: Mapping[str, Subscription], racks: Racks = NO_RACKS
    ) -> Assignment:
        return assign(counts, members)

    return assign_wherever


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
    Strategy("roundrobin", "RoundRobinAssignor", wherever(assign_round_robin)),
    Strategy("sticky", "StickyAssignor", wherever(sticky.assign), sticky.user_data),
    Strategy(
        "cooperative-sticky",
        "CooperativeStickyAssignor",
        wherever(cooperative_sticky.assign_cooperatively),
        cooperative_sticky.cooperative_user_data,
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
