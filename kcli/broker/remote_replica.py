"""RemoteReplica: what a leader knows of one of its followers (class `Replica`).

A follower's fetch at an offset says that it has everything below. It was caught up at the time of a fetch
that reached the end of the leader's log, and at the time of the fetch before if this one reaches the end that
the log had then: otherwise nobody could ever join the in-sync replicas of a partition that is written all the
time. A fetch that waits on the leader for more counts as long as it waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.broker.fetch_data import FetchPartition
    from kcli.broker.follower_session import FollowerSession

UNKNOWN = -1
LONG_AGO_MS = -(2**62)
"""When a replica was caught up that never was."""


class RemoteReplica:
    """The replica on node `node_id`, as its fetches tell of it."""

    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "fetched_ms",
        "leader_end_when_fetched",
        "log_end_offset",
        "log_start_offset",
        "node_id",
        "row",
        "session",
    )

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.log_start_offset = UNKNOWN
        self.log_end_offset = UNKNOWN
        self.leader_end_when_fetched = UNKNOWN
        self.fetched_ms = LONG_AGO_MS
        self.caught_up_ms = LONG_AGO_MS
        self.broker_epoch = UNKNOWN
        self.session: FollowerSession | None = None
        """Where the follower waits for news of the partition, and as which row of it."""
        self.row: FetchPartition | None = None

    def begin_epoch(self, leader_end: int, *, is_new_leader: bool, in_sync: bool, now_ms: int) -> None:
        """Start over in another leader epoch: replicas that are in sync get time to show it."""
        self.caught_up_ms = self.fetched_ms = now_ms if in_sync else LONG_AGO_MS
        self.leader_end_when_fetched = leader_end
        if is_new_leader:
            self.log_start_offset = self.log_end_offset = self.leader_end_when_fetched = UNKNOWN
            self.fetched_ms = LONG_AGO_MS
            self.broker_epoch = UNKNOWN

    def fetched(
        self, offset: int, *, leader_end: int, now_ms: int, log_start_offset: int, broker_epoch: int
    ) -> None:
        """Take note of a fetch at `offset` while the leader's log ends at `leader_end`."""
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
        """Take note that a fetch which had reached the end waited there until now."""
        if self.log_end_offset == self.leader_end_when_fetched:
            self.fetched_ms = self.caught_up_ms = now_ms

    def is_caught_up(self, leader_end: int, now_ms: int, max_lag_ms: int) -> bool:
        """Whether the replica has everything, or had everything not long ago."""
        return self.log_end_offset == leader_end or now_ms - self.caught_up_ms <= max_lag_ms
