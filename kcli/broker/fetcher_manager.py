"""FetcherManager: which fetcher of a node copies which partition (class `ReplicaFetcherManager`).

There are up to `num.replica.fetchers` fetchers to each leader; a partition's name decides which is its own.
Fetchers are made when they get their first partition and stay until the node stops: one without partitions
rests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from kcli.broker.replica_fetcher import ReplicaFetcher
from kcli.protocol.topics import string_hash

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.broker.partition import Partition, PartitionId
    from kcli.broker.peer_link import PeerLink
    from kcli.broker.replica_manager import ReplicaManager


def fetcher_number(topic: str, index: int, count: int) -> int:
    """Return which of `count` fetchers to its leader copies a partition."""
    hashed = (31 * string_hash(topic) + index) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed & 0x80000000 else hashed
    return abs(signed) % count


class FetcherManager:
    """The fetchers of one node; `link_to` gives the way to a leader."""

    def __init__(self, manager: ReplicaManager, link_to: Callable[[int], PeerLink]) -> None:
        self.fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._owners: dict[PartitionId, ReplicaFetcher] = {}
        self._manager = manager
        self._link_to = link_to
        self._nursery: trio.Nursery | None = None

    def follow(self, partition: Partition) -> None:
        """Copy a partition from its leader, beginning anew if that has been done already."""
        self.stop(partition.key)
        number = self._number_of(partition)
        fetcher = self.fetchers.get((partition.leader, number))
        if fetcher is None:
            fetcher = ReplicaFetcher(self._manager, self._link_to(partition.leader), number)
            self.fetchers[partition.leader, number] = fetcher
            if self._nursery is not None:
                self._nursery.start_soon(fetcher.run)
        self._owners[partition.key] = fetcher
        fetcher.add(partition)

    def stop(self, key: PartitionId) -> None:
        """Copy a partition no more."""
        fetcher = self._owners.pop(key, None)
        if fetcher is not None:
            fetcher.remove(key)

    def resize(self) -> None:
        """Go over to as many fetchers to each leader as are configured now."""
        for fetcher in list(self.fetchers.values()):
            for state in list(fetcher.states.values()):
                if self._number_of(state.partition) != fetcher.number:
                    self.follow(state.partition)

    def _number_of(self, partition: Partition) -> int:
        return fetcher_number(partition.topic, partition.index, self.per_leader)

    @property
    def per_leader(self) -> int:
        """How many fetchers there are to each leader at most."""
        return self._manager.config.num_replica_fetchers

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the fetchers that there are and that come, for ever."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                for fetcher in self.fetchers.values():
                    nursery.start_soon(fetcher.run)
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None
