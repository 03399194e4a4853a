"""What `consume` does as a member of a group: subscribes, and keeps track of what it is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from kcli.client.consumer.consumer import Consumer
from kcli.client.groups.rebalance_listener import RebalanceListener
from kcli.protocol.topics import TopicPartition

Ends = Callable[[Sequence[TopicPartition]], Awaitable[dict[TopicPartition, int] | None]]

CLOSE_SECONDS = 5.0
"""How long an interrupted member may take to commit and to leave."""


class GroupReading(RebalanceListener):
    """The partitions of one member: where each ends, if there is such a bound, and a note of each change.

    `find_ends` tells the ends of partitions that were added; `ends` is what it told of those there are.
    """

    def __init__(self, consumer: Consumer, find_ends: Ends | None, note: Callable[[str], None]) -> None:
        self.ends: dict[TopicPartition, int] = {}
        self._consumer = consumer
        self._find_ends = find_ends
        self._note = note

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Note what was added."""
        self._note(f"assigned: {names(partitions)}")
        if self._find_ends is not None:
            self.ends.update(await self._find_ends(partitions) or {})

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Note what is given up."""
        self._drop("revoked", partitions)

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Note what others may read already."""
        self._drop("lost", partitions)

    def _drop(self, what: str, partitions: Sequence[TopicPartition]) -> None:
        self._note(f"{what}: {names(partitions)}")
        for partition in partitions:
            self.ends.pop(partition, None)


def names(partitions: Sequence[TopicPartition]) -> str:
    """Return partitions as a list for people."""
    return " ".join(map(str, partitions)) or "nothing"
