"""What an assignor of KIP-848, which runs in the broker, is given and what it gives.

Topics are the 16 bytes of their ids. A member's `assigned` is the target it had so far; an assignor keeps of
it what it can, since every partition that moves stops being read for a while.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Partitions = dict[bytes, frozenset[int]]
"""Partitions by topic id; a topic without any is left out."""


@dataclass(frozen=True, slots=True)
class ServerMember:
    """One member: the existing topics it subscribes to, and what it was to read so far."""

    topics: frozenset[bytes]
    assigned: Mapping[bytes, frozenset[int]] = field(default_factory=dict)
    instance_id: str | None = None


if TYPE_CHECKING:
    ServerAssignor = Callable[[Mapping[bytes, int], Mapping[str, ServerMember]], dict[str, Partitions]]


def subscribe_alike(members: Mapping[str, ServerMember]) -> bool:
    """True if all members subscribe to the same topics."""
    return len({member.topics for member in members.values()}) <= 1


def kept(member: ServerMember, counts: Mapping[bytes, int]) -> list[tuple[bytes, int]]:
    """Return, in order, the partitions a member had that exist and that it still wants."""
    return [
        (topic_id, partition)
        for topic_id in sorted(member.assigned.keys() & member.topics)
        for partition in sorted(member.assigned[topic_id])
        if partition < counts.get(topic_id, 0)
    ]


def by_topic(partitions: Iterable[tuple[bytes, int]]) -> Partitions:
    """Return single partitions gathered by topic."""
    gathered: dict[bytes, set[int]] = {}
    for topic_id, partition in partitions:
        gathered.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(numbers) for topic_id, numbers in gathered.items()}
