"""PeerLink: how one node of the process reaches another, and PeerLinks: all of them.

Every call from one node to another goes through the link for that direction, which looks the other node up
each time: it may have died, or been replaced. A call that fails raises `PeerUnreachable`, and whoever called
tries again after its own backoff.

Faults are plain attributes that anybody may set at any time:

| attribute | what calls do |
|---|---|
| `is_cut` | fail; one that waits for its answer fails at once, too |
| `delay_ms` | take so long to get there |
| `drop_next` | so many vanish: they fail after `replica.socket.timeout.ms` |
| `is_frozen` | are not made, as if the fetchers of this node stood still; what waits for its answer gets it |

A call to a node that is paused waits until it goes on, as long as the time-out lets it. Nothing is between
the answer and the caller: what `fetch` returns are slices of the leader's files, to be read before anything
else runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import trio

from kcli.errors import KcliError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcli.broker.fetch_data import FetchedPartition, FetchPartition
    from kcli.broker.follower_session import FollowerSession
    from kcli.broker.replica_manager import ReplicaManager

SOCKET_TIMEOUT_MS = 30_000
"""The default of `replica.socket.timeout.ms`."""


class PeerUnreachable(KcliError):
    """The other node does not answer, for now."""


class Peer(Protocol):
    """What a link finds at its other end."""

    @property
    def replica_manager(self) -> ReplicaManager: ...

    @property
    def is_paused(self) -> bool:
        """True while the node does nothing, though it is there."""
        ...

    async def until_awake(self) -> None:
        """Return once the node is not paused."""
        ...


class PeerLink:
    """The way from node `from_id` to node `to_id`; `find` returns a node that is there, or None."""

    __slots__ = (
        "_find",
        "_is_cut",
        "_thawed",
        "_waiting",
        "delay_ms",
        "drop_next",
        "from_id",
        "timeout_ms",
        "to_id",
    )

    def __init__(self, from_id: int, to_id: int, find: Callable[[int], Peer | None]) -> None:
        self.from_id = from_id
        self.to_id = to_id
        self.delay_ms = 0
        self.drop_next = 0
        self.timeout_ms = SOCKET_TIMEOUT_MS
        self._is_cut = False
        self._thawed: trio.Event | None = None
        self._find = find
        self._waiting: dict[FollowerSession, None] = {}

    @property
    def is_cut(self) -> bool:
        """Whether nothing gets through."""
        return self._is_cut

    @is_cut.setter
    def is_cut(self, is_cut: bool) -> None:
        self._is_cut = is_cut
        if is_cut:
            self.fail_waiting()

    @property
    def is_frozen(self) -> bool:
        """Whether fetchers stand still."""
        return self._thawed is not None

    @is_frozen.setter
    def is_frozen(self, is_frozen: bool) -> None:
        if is_frozen == self.is_frozen:
            return
        if self._thawed is not None:
            self._thawed.set()
        self._thawed = trio.Event() if is_frozen else None

    def fail_waiting(self) -> None:
        """Have every fetch that waits for its answer fail: the connection is gone."""
        waiting, self._waiting = self._waiting, {}
        for session in waiting:
            session.fail(self._unreachable())

    def reach(self) -> Peer:
        """Return the other node if a call would get there now. Raises `PeerUnreachable`."""
        peer = None if self._is_cut else self._find(self.to_id)
        if peer is None:
            raise self._unreachable()
        return peer

    async def open(self, *, broker_epoch: int) -> FollowerSession:
        """Open a fetch session on the other node, for a fetcher of this one. Raises `PeerUnreachable`."""
        peer = await self._call()
        return peer.replica_manager.open_session(self.from_id, broker_epoch)

    async def fetch(
        self, session: FollowerSession, moved: Callable[[], Sequence[FetchPartition]], *, max_bytes: int
    ) -> list[FetchedPartition]:
        """Say which positions have `moved`, and return what there is, waiting for it if need be.

        Asked when the call gets there: what is to be followed may be another thing by then, and whoever
        wakes the session finds it waiting.
        Raises `PeerUnreachable`, also when the other node does not know the session.
        """
        peer = await self._call()
        if not session.is_of(peer.replica_manager):
            raise self._unreachable()
        session.move(moved())
        if not session.is_due:
            self._waiting[session] = None
            try:
                await session.wait()
            finally:
                self._waiting.pop(session, None)
            if peer.is_paused:
                await self._await_resumption(peer)
        return session.read(max_bytes)

    async def log_range(self, topic: str, index: int, leader_epoch: int) -> tuple[int, int]:
        """Return the first and the next offset of a partition that the other node leads.

        Raises `PeerUnreachable`, and `KafkaError` if it does not lead it in this epoch.
        """
        peer = await self._call()
        log = peer.replica_manager.leader(topic, index, leader_epoch).log
        return log.log_start_offset, log.log_end_offset

    async def _call(self) -> Peer:
        """Return the other node, as late as the faults make it."""
        if self.drop_next or self.delay_ms or self._thawed is not None:
            await self._suffer()
        peer = self.reach()
        if peer.is_paused:
            await self._await_resumption(peer)
        return peer

    async def _suffer(self) -> None:
        while self._thawed is not None:
            await self._thawed.wait()
        if self.drop_next > 0:
            self.drop_next -= 1
            await trio.sleep(self.timeout_ms / 1000)
            raise self._unreachable()
        if self.delay_ms > 0:
            await trio.sleep(self.delay_ms / 1000)

    async def _await_resumption(self, peer: Peer) -> None:
        with trio.move_on_after(self.timeout_ms / 1000) as scope:
            await peer.until_awake()
        if scope.cancelled_caught or self.reach() is not peer:
            raise self._unreachable()

    def _unreachable(self) -> PeerUnreachable:
        return PeerUnreachable(f"node {self.from_id} cannot reach node {self.to_id}")


class PeerLinks:
    """The links between all nodes; each is made when it is first asked for, and stays.

    `find` returns a node that is there, None for one that is dead or was never there.
    """

    def __init__(self, find: Callable[[int], Peer | None]) -> None:
        self._find = find
        self._links: dict[tuple[int, int], PeerLink] = {}

    def between(self, from_id: int, to_id: int) -> PeerLink:
        """Return the link from one node to another."""
        link = self._links.get((from_id, to_id))
        if link is None:
            link = self._links[from_id, to_id] = PeerLink(from_id, to_id, self._find)
        return link

    def __getitem__(self, pair: tuple[int, int]) -> PeerLink:
        """Return the link from the first node of a pair to the second."""
        return self.between(*pair)

    def node_died(self, node_id: int) -> None:
        """Have the calls that wait for a node, or that it waits for, fail: its connections are reset."""
        for (from_id, to_id), link in self._links.items():
            if node_id in (from_id, to_id):
                link.fail_waiting()
