"""What an assignor of the consumer protocol is given and what it gives: plain values, no wire formats.

Partitions are (topic, index) tuples, so that every room's own named tuples will do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Partition = tuple[str, int]
Assignment = dict[str, list[Partition]]
Racks = Mapping[Partition, frozenset[str]]
"""The racks in which each partition has replicas."""

NO_RACKS: Racks = {}

NO_GENERATION = -1
"""The generation of a member that has not joined, or that did not say."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one member tells the leader.

    `owned` and `generation` are those of the consumer protocol's subscription; `user_data` is the chosen
    assignor's own.
    """

    topics: frozenset[str]
    owned: tuple[Partition, ...] = ()
    generation: int = NO_GENERATION
    instance_id: str | None = None
    user_data: bytes | None = None
    rack_id: str | None = None


def java_order(text: str) -> bytes:
    """Return the sort key under which texts stand as Java compares them: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def in_order(members: Mapping[str, Subscription]) -> list[str]:
    """Return member ids in Kafka's order: static members by instance id, then the others by member id."""

    def key(member_id: str) -> tuple[bool, bytes]:
        instance_id = members[member_id].instance_id
        return (instance_id is None, java_order(member_id if instance_id is None else instance_id))

    return sorted(members, key=key)


def subscribed_topics(counts: Mapping[str, int], members: Mapping[str, Subscription]) -> list[str]:
    """Return, sorted, the topics that some member wants and that have partitions."""
    wanted = {topic for member in members.values() for topic in member.topics}
    return sorted((topic for topic in wanted if counts.get(topic, 0) > 0), key=java_order)


def partitions_of(topics: Iterable[str], counts: Mapping[str, int]) -> list[Partition]:
    """Return every partition of topics, in their order."""
    return [(topic, index) for topic in topics for index in range(counts[topic])]
