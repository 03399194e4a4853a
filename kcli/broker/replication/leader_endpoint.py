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

FollowerSession: the partitions that a follower's fetcher watches on this node, the leader's side of it.

It lasts from call to call, as an incremental fetch session does (KIP-227): a call names only the positions
that moved and returns only partitions with news. Unlike a fetch of a client it is not parked anew each time:
partitions tell the session of appends themselves, so that a fetcher of a thousand idle partitions costs
nothing until one of them is written.

News are records, errors, and where logs part: they end the wait at once. A high watermark or log start that
moved ends it after `replica.fetch.wait.max.ms`, and travels with anything that leaves before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import trio

from kcli.broker.replication.fetch_data import FetchedPartition
from kcli.broker.replication.partition import diverging_epoch
from kcli.broker.waiting.pause_gate import Sleeper
from kcli.broker.waiting.timer import TimerTask, monotonic_ms
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.uuids import ZERO_UUID
from kcli.storage.log.log_read import Isolation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcli.broker.replication.fetch_data import FetchPartition
    from kcli.broker.replication.partition import Partition
    from kcli.broker.replication.replica_manager import ReplicaManager


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


class _Moment(TimerTask):
    """Something that is done to a session at its time, whatever happens until then."""

    __slots__ = ("_action",)

    def __init__(self, action: Callable[[], None]) -> None:
        super().__init__()
        self._action = action

    def fall_due(self) -> None:
        self._action()


class FollowerSession:
    """What node `follower_id`, registered with `broker_epoch`, watches through one of its fetchers."""

    __slots__ = (
        "_held",
        "_held_timer",
        "_manager",
        "_news",
        "_news_are_due",
        "_news_timer",
        "_ready",
        "_rows",
        "_sleeper",
        "broker_epoch",
        "follower_id",
        "has_waited",
    )

    def __init__(self, manager: ReplicaManager, follower_id: int, broker_epoch: int) -> None:
        self.follower_id = follower_id
        self.broker_epoch = broker_epoch
        self._manager = manager
        self._rows: dict[FetchPartition, Partition | None] = {}
        self._ready: dict[FetchPartition, None] = {}
        """What may have more for the follower, longest waiting first."""
        self._news: dict[FetchPartition, None] = {}
        self._news_are_due = False
        self._news_timer: _Moment | None = None
        self._held: dict[FetchPartition, None] = {}
        """What the throttle keeps back for a while."""
        self._held_timer: _Moment | None = None
        self.has_waited = False
        """Whether others could run during the last call."""
        self._sleeper = Sleeper()

    def is_of(self, manager: ReplicaManager) -> bool:
        """Whether the session is one of this manager, and not of one that was there before."""
        return self._manager is manager

    @property
    def is_due(self) -> bool:
        """Whether a call has an answer right now."""
        return bool(self._ready) or self._news_are_due

    # --- the follower's side ---------------------------------------------------------------------

    def move(self, rows: Sequence[FetchPartition]) -> None:
        """Take note of positions that are new or have moved on."""
        for row in rows:
            is_new = row not in self._rows
            self._rows.setdefault(row, None)
            if self._accept(row):
                self._ready[row] = None
                continue
            self._ready.pop(row, None)
            if is_new:
                # The high watermark may have moved while nobody told the follower.
                self.note_offsets(row)

    def forget(self, row: FetchPartition) -> None:
        """Watch a partition no more."""
        partition = self._rows.pop(row, None)
        self._ready.pop(row, None)
        self._held.pop(row, None)
        self._news.pop(row, None)
        if partition is not None and partition.in_sync is not None:
            partition.in_sync.unwatch(self.follower_id, self)

    def close(self) -> None:
        """Watch nothing any more."""
        for row in list(self._rows):
            self.forget(row)
        self._stop_timers()

    async def wait(self) -> None:
        """Return when there is something to tell, or `wake` was called. Raises what `fail` was given."""
        self.has_waited = not self.is_due
        if self.has_waited:
            await self._sleeper.sleep()

    def read(self, max_bytes: int) -> list[FetchedPartition]:
        """Return the partitions with news, the records among them within `max_bytes`, or one batch."""
        rows: list[FetchedPartition] = []
        for row in list(self._ready):
            if max_bytes <= 0:
                break
            if self._is_held_back(row):
                continue
            fetched = self._read(row, max_bytes, min_one=not rows)
            if fetched is None:
                break
            del self._ready[row]
            if fetched.size or fetched.error_code or fetched.diverging is not None:
                self._news.pop(row, None)
                rows.append(fetched)
                max_bytes -= fetched.size
                self._count(row, fetched.size)
        if self._news or self._news_are_due:
            rows.extend(self._read_news())
        return rows

    def wake(self) -> None:
        """End the wait: there is something to do for whoever waits."""
        self._sleeper.wake()

    def fail(self, error: Exception) -> None:
        """Raise an error in whoever waits."""
        if self._sleeper.task is not None:
            self._sleeper.fail(error)

    # --- the leader's side -----------------------------------------------------------------------

    def is_ready(self, row: FetchPartition) -> bool:
        """Whether the session knows already that there may be more of a partition."""
        return row in self._ready

    def note(self, row: FetchPartition) -> None:
        """There is something to read in a partition, or it is not led here any more."""
        self._ready[row] = None
        if self._sleeper.task is not None:
            self._sleeper.wake()

    def note_offsets(self, row: FetchPartition) -> None:
        """A partition's high watermark or log start has moved: that can wait a little."""
        self._news[row] = None
        if self._news_timer is None and not self._news_are_due:
            self._news_timer = self._later(self._manager.config.replica_fetch_wait_max_ms, self.news_fell_due)

    def news_fell_due(self) -> None:
        """Tell what can wait no longer."""
        if self._news_timer is not None:
            self._manager.purgatory.timer.cancel(self._news_timer)
            self._news_timer = None
        self._news_are_due = True
        self.wake()

    # --- inside ----------------------------------------------------------------------------------

    def _find(self, row: FetchPartition) -> Partition:
        """Return the partition that a row asks for. Raises `KafkaError`."""
        assert row.topic is not None
        partition = self._manager.leader(row.topic, row.index, row.current_leader_epoch)
        if row.topic_id not in (ZERO_UUID, partition.topic_id):
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, "a topic of the same name")
        partition.check_follower(self.follower_id, self.broker_epoch, row.current_leader_epoch)
        return partition

    def _accept(self, row: FetchPartition) -> bool:
        """Take note of the follower's position; return whether there is something to tell it."""
        try:
            partition = self._find(row)
            if diverging_epoch(partition, row) is not None:
                return True
            log = partition.log
            if not log.log_start_offset <= row.fetch_offset <= log.log_end_offset:
                return True
        except KafkaError:
            return True
        self._rows[row] = partition
        assert partition.in_sync is not None
        partition.in_sync.watch(self.follower_id, self, row)
        partition.follower_fetched(
            self.follower_id,
            row.fetch_offset,
            log_start_offset=row.log_start_offset,
            broker_epoch=self.broker_epoch,
        )
        return row.fetch_offset < log.log_end_offset

    def _read(self, row: FetchPartition, max_bytes: int, *, min_one: bool) -> FetchedPartition | None:
        """Return what there is of a partition, None if its next batch is larger than that."""
        try:
            partition = self._find(row)
            fetched = partition.read(
                row,
                isolation=Isolation.LOG_END,
                max_bytes=min(row.max_bytes, max_bytes),
                min_one=min_one,
            )
        except KafkaError as error:
            return FetchedPartition(row, error.code)
        if not fetched.size and fetched.diverging is None and row.fetch_offset < partition.log.log_end_offset:
            return None
        return fetched

    def _read_news(self) -> list[FetchedPartition]:
        rows = []
        for row in self._news:
            partition = self._rows.get(row)
            if partition is not None:
                fetched = FetchedPartition(row)
                fetched.high_watermark = partition.log.high_watermark
                fetched.log_start_offset = partition.log.log_start_offset
                rows.append(fetched)
        self._news.clear()
        self._news_are_due = False
        if self._news_timer is not None:
            self._manager.purgatory.timer.cancel(self._news_timer)
            self._news_timer = None
        return rows

    # --- the throttle ----------------------------------------------------------------------------

    def _is_held_back(self, row: FetchPartition) -> bool:
        """Keep a partition back for a while if the throttle wants that; return whether it does."""
        throttle, partition = self._manager.leader_throttle, self._rows.get(row)
        if partition is None or not throttle.is_throttled(partition.topic, partition.index):
            return False
        if self.follower_id in partition.isr:
            return False
        wait_ms = throttle.wait_ms(monotonic_ms())
        if wait_ms:
            del self._ready[row]
            self._held[row] = None
            if self._held_timer is None:
                self._held_timer = self._later(wait_ms, self._let_go)
        return wait_ms > 0

    def _let_go(self) -> None:
        self._held_timer = None
        self._ready.update(self._held)
        self._held.clear()
        self.wake()

    def _count(self, row: FetchPartition, size: int) -> None:
        throttle = self._manager.leader_throttle
        if size and row.topic is not None and throttle.is_throttled(row.topic, row.index):
            throttle.record(size, monotonic_ms())

    # --- timers ----------------------------------------------------------------------------------

    def _later(self, delay_ms: int, action: Callable[[], None]) -> _Moment:
        moment = _Moment(action)
        self._manager.purgatory.timer.add(moment, max(delay_ms, 1), monotonic_ms())
        return moment

    def _stop_timers(self) -> None:
        for moment in (self._news_timer, self._held_timer):
            if moment is not None:
                self._manager.purgatory.timer.cancel(moment)
        self._news_timer = self._held_timer = None
