"""RebalanceListener: what an application wants to know of the partitions that its group gives and takes.

Its methods run inside `poll`, `unsubscribe` and the end of the consumer's block, in the task of the caller,
and are not cancelled before `max.poll.interval.ms` is over; where the block as a whole is cancelled, not
before `close_seconds` are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.protocol.topics import TopicPartition


class RebalanceListener:
    """Does nothing; override what is of interest."""

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Learn which partitions were added, maybe none: seek here to begin elsewhere."""

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Learn which partitions are about to be given up: they can still be committed."""

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Learn which partitions others may read already: nothing can be committed any more."""
        await self.on_revoked(partitions)
