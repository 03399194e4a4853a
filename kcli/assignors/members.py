"""What an assignor of the consumer protocol is given and what it returns: plain values, no wire formats.

Assignors make partitions as plain tuples and take TopicPartitions as well: ten thousand named tuples would
make an assignment up to half as slow again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.protocol.java import java_order

if TYPE_CHECKING:
    from collections.abc import Iterable

Partition = tuple[str, int]
Assignment = dict[str, list[Partition]]
"""The partitions of each member, by member id."""
Racks = Mapping[Partition, frozenset[str]]
"""The racks in which each partition has replicas."""

NO_RACKS: Racks = {}

NO_GENERATION = -1
"""The generation of a member that has not joined yet or did not send one."""


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """What the leader knows of one member.

    `owned` and `generation` are those of the consumer protocol's subscription; `user_data` is data of the
    chosen assignor.
    """

    topics: frozenset[str]
    owned: tuple[Partition, ...] = ()
    generation: int = NO_GENERATION
    instance_id: str | None = None
    user_data: bytes | None = None
    rack_id: str | None = None


def in_order(instance_ids: Mapping[str, str | None]) -> list[str]:
    """Return member ids in Kafka's order: static members by instance id, then the others by member id."""

    def key(member_id: str) -> tuple[bool, bytes]:
        instance_id = instance_ids[member_id]
        return (instance_id is None, java_order(member_id if instance_id is None else instance_id))

    return sorted(instance_ids, key=key)


def subscribed_topics(counts: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> list[str]:
    """Return, sorted, the topics with partitions that at least one member subscribes to."""
    wanted = {topic for member in members.values() for topic in member.topics}
    return sorted((topic for topic in wanted if counts.get(topic, 0) > 0), key=java_order)


def partitions_of(topics: Iterable[str], counts: Mapping[str, int]) -> list[Partition]:
    """Return every partition of topics, in their order."""
    return [(topic, index) for topic in topics for index in range(counts[topic])]
