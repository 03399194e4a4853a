"""InSyncReplicas: the followers of a partition as its leader sees them, and which of them are in sync.

Only the controller changes the ISR; the leader asks for one change at a time. Until the answer the leader
assumes the worst: replicas that are to join or to leave both count for the high watermark (the *maximal* ISR;
class `PartitionState`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kcli.broker.replication.fetch_data import FetchPartition
    from kcli.broker.replication.ready_partitions import ReadyPartitions
    from kcli.protocol.topics import TopicPartition

UNKNOWN = -1
LONG_AGO_MS = -(2**62)
"""The caught-up time of a replica that never caught up."""


@dataclass(frozen=True, slots=True)
class ReplicaContext:
    """What partitions need of their node.

    `max_lag_ms` is `replica.lag.time.max.ms`, `clock_ms` a clock that never goes back, and `broker_epoch_of`
    returns the epoch of an active node, None for any other. `touch` tells the purgatory about a change.
    """

    node_id: int
    max_lag_ms: Callable[[], int]
    clock_ms: Callable[[], int]
    broker_epoch_of: Callable[[int], int | None]
    touch: Callable[[TopicPartition], None]


@dataclass(slots=True, eq=False)
class RemoteReplica:
    """The replica on node `node_id`, as its leader knows it (class `Replica`).

    A fetch at an offset says that the follower has everything below. The follower was caught up when it
    fetched at the end of the leader's log, and at its previous fetch if this one reaches the end that the log
    had then: otherwise no follower could join the ISR of a partition that is written all the time. A fetch
    that waits at the end counts as long as it waits.
    """

    node_id: int
    log_start_offset: int = UNKNOWN
    log_end_offset: int = UNKNOWN
    leader_end_when_fetched: int = UNKNOWN
    fetched_ms: int = LONG_AGO_MS
    caught_up_ms: int = LONG_AGO_MS
    broker_epoch: int = UNKNOWN
    ready: ReadyPartitions | None = None
    """The ready partitions of the session in which the follower waits, and its row there."""
    row: FetchPartition | None = None

    def begin_epoch(self, leader_end: int, *, is_new_leader: bool, in_sync: bool, now_ms: int) -> None:
        """Start over in another leader epoch; in-sync replicas get time to catch up."""
        self.caught_up_ms = self.fetched_ms = now_ms if in_sync else LONG_AGO_MS
        self.leader_end_when_fetched = leader_end
        if is_new_leader:
            self.log_start_offset = self.log_end_offset = self.leader_end_when_fetched = UNKNOWN
            self.fetched_ms = LONG_AGO_MS
            self.broker_epoch = UNKNOWN

    def fetched(
        self, offset: int, *, leader_end: int, now_ms: int, log_start_offset: int, broker_epoch: int
    ) -> None:
        """Note a fetch at `offset` while the leader's log ends at `leader_end`."""
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.leader_end_when_fetched >= 0:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_start_offset = log_start_offset
        self.log_end_offset = offset
        self.leader_end_when_fetched = leader_end
        self.fetched_ms = now_ms
        self.broker_epoch = max(broker_epoch, self.broker_epoch)

    def waited_until(self, now_ms: int) -> None:
        """Note that a fetch at the end waited until now."""
        if self.log_end_offset == self.leader_end_when_fetched:
            self.fetched_ms = self.caught_up_ms = now_ms

    def is_caught_up(self, leader_end: int, now_ms: int, max_lag_ms: int) -> bool:
        """Return whether the replica has everything, or had everything not long ago."""
        return self.log_end_offset == leader_end or now_ms - self.caught_up_ms <= max_lag_ms


NO_NODES: frozenset[int] = frozenset()


class InSyncReplicas:
    """The replicas that node `leader_id` leads; `committed` is the ISR of the controller."""

    __slots__ = ("_context", "committed", "epoch_start_offset", "leader_id", "maximal", "pending", "remotes")

    def __init__(self, context: ReplicaContext) -> None:
        self.leader_id = context.node_id
        self._context = context
        self.committed: frozenset[int] = NO_NODES
        self.pending: frozenset[int] | None = None
        """The ISR that the leader asked for, None if it did not ask."""
        self.maximal: frozenset[int] = NO_NODES
        """All replicas that may be in sync."""
        self.remotes: dict[int, RemoteReplica] = {}
        self.epoch_start_offset = 0

    def commit(self, replicas: Iterable[int], isr: frozenset[int]) -> None:
        """Take over the ISR of the controller; this settles any request."""
        others = [node_id for node_id in replicas if node_id != self.leader_id]
        for gone in [node_id for node_id in self.remotes if node_id not in others]:
            del self.remotes[gone]
        for node_id in others:
            if node_id not in self.remotes:
                self.remotes[node_id] = RemoteReplica(node_id)
        self.committed = isr
        self.settle()

    def begin_epoch(self, start_offset: int, *, is_new_leader: bool, now_ms: int) -> None:
        """Start over in another leader epoch, which begins at the end of the log."""
        self.epoch_start_offset = start_offset
        for remote in self.remotes.values():
            remote.begin_epoch(
                start_offset,
                is_new_leader=is_new_leader,
                in_sync=remote.node_id in self.committed,
                now_ms=now_ms,
            )

    def ask(self, isr: frozenset[int]) -> None:
        """Note that the controller was asked for an ISR."""
        self.pending = isr
        self.maximal = self.committed | isr

    def settle(self) -> None:
        """Note that no request is pending."""
        self.pending = None
        self.maximal = self.committed

    def lagging(self, leader_end: int, now_ms: int, max_lag_ms: int) -> frozenset[int]:
        """Return the members that have been behind for too long."""
        return frozenset(
            node_id
            for node_id in self.committed
            if node_id in self.remotes
            and not self.remotes[node_id].is_caught_up(leader_end, now_ms, max_lag_ms)
        )

    def may_join(self, remote: RemoteReplica, high_watermark: int) -> bool:
        """Return whether a follower has enough records to be in sync."""
        return remote.node_id not in self.maximal and remote.log_end_offset >= max(
            high_watermark, self.epoch_start_offset
        )

    def is_eligible(self, remote: RemoteReplica) -> bool:
        """Return whether a follower's node is active, in the broker epoch of its last fetch (KIP-903)."""
        epoch = self._context.broker_epoch_of(remote.node_id)
        return epoch is not None and remote.broker_epoch in {-1, epoch}

    def replicated_up_to(self, leader_end: int) -> int:
        """Return the lowest log end of all replicas that may be in sync, or are about to join.

        Otherwise the high watermark could stay ahead of a joining replica forever.
        """
        end, context = leader_end, self._context
        for remote in self.remotes.values():
            if remote.log_end_offset < end and (
                remote.node_id in self.maximal
                or (
                    remote.is_caught_up(leader_end, context.clock_ms(), context.max_lag_ms())
                    and self.is_eligible(remote)
                )
            ):
                end = remote.log_end_offset
        return end

    def watch(self, node_id: int, ready: ReadyPartitions, row: FetchPartition) -> None:
        """Tell a follower's session about changes here."""
        remote = self.remotes[node_id]
        remote.ready, remote.row = ready, row

    def unwatch(self, node_id: int, ready: ReadyPartitions) -> None:
        remote = self.remotes.get(node_id)
        if remote is not None and remote.ready is ready:
            remote.ready = remote.row = None

    def leader_appended(self, first_offset: int) -> None:
        """Tell the followers that there are records from `first_offset` on."""
        for remote in self.remotes.values():
            ready, row = remote.ready, remote.row
            if ready is not None and row is not None and row not in ready.rows:
                if remote.log_end_offset == first_offset:
                    remote.waited_until(self._context.clock_ms())
                ready.note(row)

    def tell_offsets(self, *, at_once: bool = False) -> None:
        """Tell the followers about the high watermark and the log start, soon or `at_once`."""
        for remote in self.remotes.values():
            if remote.ready is not None and remote.row is not None:
                remote.ready.note_offsets(remote.row)
                if at_once:
                    remote.ready.news_fell_due()

    def release(self) -> None:
        """Let every follower ask again, and so learn about the new epoch."""
        for remote in self.remotes.values():
            ready, row = remote.ready, remote.row
            remote.ready = remote.row = None
            if ready is not None and row is not None:
                ready.note(row)
