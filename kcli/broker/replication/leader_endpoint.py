"""LeaderEndPoint: how one node of the process reaches another. FollowerFetchSession: what it watches there.

Every call looks the other node up anew, because it may have died or been replaced. A failed call raises
`PeerUnreachable`, and the caller tries again after its own backoff. Attributes inject faults:

| attribute | effect |
|---|---|
| `is_cut` | calls fail, and so do those that wait for an answer |
| `delay_ms` | calls arrive later by this time |
| `drop_next` | so many calls get lost: they fail after `replica.socket.timeout.ms` |
| `is_frozen` | no call starts; those that wait still get their answer |

A call to a paused node waits for it, at most `replica.socket.timeout.ms`. `fetch` returns slices of the
leader's files: the caller reads them before any other task runs. The requests of transactions run in the
caller's task, and one whose call fails meanwhile may still have been carried out.

A session lasts from call to call, as in KIP-227: a call names only the positions that moved and returns only
partitions with news. It is not parked for each call; partitions mark themselves in `ReadyPartitions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

import trio

from kcli.broker.config.broker_definitions import BrokerSettings
from kcli.broker.replication.fetch_data import FetchedPartition
from kcli.broker.replication.ready_partitions import ReadyPartitions
from kcli.broker.waiting.timer import TimerCallback, monotonic_ms
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.uuids import ZERO_UUID
from kcli.storage.log.log_read import Isolation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from kcli.broker.replication.fetch_data import FetchPartition
    from kcli.broker.replication.hosted_partitions import HostedPartitions
    from kcli.broker.replication.partition import Partition
    from kcli.protocol.messages.add_partitions_to_txn import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnResponse,
    )
    from kcli.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

R = TypeVar("R")


class PeerUnreachable(KcliError):
    """The other node does not answer now."""


class Peer(Protocol):
    """The node at the other end of a link."""

    @property
    def replica_manager(self) -> HostedPartitions: ...

    @property
    def is_paused(self) -> bool:
        """Whether the node is alive but does nothing."""

    async def until_awake(self) -> None:
        """Return once the node is not paused."""

    async def write_markers(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        """Write the ends of transactions to partitions that the node leads."""

    async def add_partitions_to_txn(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        """Add partitions to transactions that the node coordinates, or verify that they were added."""


class LeaderEndPoint:
    """The link from node `from_id` to node `to_id`; `find` returns a running node, or None."""

    def __init__(self, from_id: int, to_id: int, find: Callable[[int], Peer | None]) -> None:
        self.from_id = from_id
        self.to_id = to_id
        self.delay_ms = 0
        self.drop_next = 0
        self.timeout_ms = BrokerSettings.replica_socket_timeout_ms.default
        self._is_cut = False
        self._thawed: trio.Event | None = None
        self._find = find
        self._waiting: dict[FollowerFetchSession, None] = {}
        self._calls: dict[trio.CancelScope, None] = {}
        """The requests that are being carried out."""

    @property
    def is_cut(self) -> bool:
        return self._is_cut

    @is_cut.setter
    def is_cut(self, is_cut: bool) -> None:
        self._is_cut = is_cut
        if is_cut:
            self.fail_waiting()

    @property
    def is_frozen(self) -> bool:
        return self._thawed is not None

    @is_frozen.setter
    def is_frozen(self, is_frozen: bool) -> None:
        if is_frozen == self.is_frozen:
            return
        if self._thawed is not None:
            self._thawed.set()
        self._thawed = trio.Event() if is_frozen else None

    def fail_waiting(self) -> None:
        """Fail every call that waits for its answer: the connection is gone."""
        waiting, self._waiting = self._waiting, {}
        for session in waiting:
            session.ready.fail(self._unreachable())
        for scope in self._calls:
            scope.cancel()

    def reach(self) -> Peer:
        """Return the other node if a call would arrive now. Raises `PeerUnreachable`."""
        peer = None if self._is_cut else self._find(self.to_id)
        if peer is None:
            raise self._unreachable()
        return peer

    async def open(self, *, broker_epoch: int) -> FollowerFetchSession:
        """Open a fetch session on the other node. Raises `PeerUnreachable`."""
        peer = await self._call()
        return FollowerFetchSession(peer.replica_manager, self.from_id, broker_epoch)

    async def fetch(
        self, session: FollowerFetchSession, moved: Callable[[], Sequence[FetchPartition]], *, max_bytes: int
    ) -> list[FetchedPartition]:
        """Send the positions that `moved`, wait if nothing is new, and return the partitions with news.

        `moved` is called when the call arrives: the positions may change on the way. Raises
        `PeerUnreachable`, also if the other node does not know the session.
        """
        peer = await self._call()
        if not session.is_of(peer.replica_manager):
            raise self._unreachable()
        session.move(moved())
        if not session.ready.is_due:
            self._waiting[session] = None
            try:
                await session.ready.wait()
            finally:
                self._waiting.pop(session, None)
            if peer.is_paused:
                await self._await_resumption(peer)
        return session.read(max_bytes)

    async def log_range(self, topic: str, index: int, leader_epoch: int) -> tuple[int, int]:
        """Return (log start, log end) of a partition. Raises `KafkaError` if the node does not lead it."""
        peer = await self._call()
        log = peer.replica_manager.leader(topic, index, leader_epoch).log
        return log.log_start_offset, log.log_end_offset

    async def write_markers(self, request: Callable[[], WriteTxnMarkersRequest]) -> WriteTxnMarkersResponse:
        """Let the other node write the ends of transactions. Raises `PeerUnreachable`.

        `request` is called when the call arrives: markers that come another way meanwhile are not written.
        """
        return await self._request(lambda peer: peer.write_markers(request()))

    async def add_partitions_to_txn(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        """Ask a coordinator on the other node, as with version 5 of the API. Raises `PeerUnreachable`."""
        return await self._request(lambda peer: peer.add_partitions_to_txn(request))

    async def _request(self, send: Callable[[Peer], Awaitable[R]]) -> R:
        """Return the other node's response if it comes within `timeout_ms`."""
        peer = await self._call()
        with trio.move_on_after(self.timeout_ms / 1000) as scope:
            self._calls[scope] = None
            try:
                response = await send(peer)
            finally:
                del self._calls[scope]
        if scope.cancel_called:
            raise self._unreachable()
        if peer.is_paused:
            await self._await_resumption(peer)
        return response

    async def _call(self) -> Peer:
        """Return the other node, after the delays of the faults."""
        if self.drop_next or self.delay_ms or self._thawed is not None:
            await self._apply_faults()
        peer = self.reach()
        if peer.is_paused:
            await self._await_resumption(peer)
        return peer

    async def _apply_faults(self) -> None:
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


class LeaderEndPoints:
    """The links between all nodes, made on first use. `find` returns a running node, None for any other."""

    def __init__(self, find: Callable[[int], Peer | None]) -> None:
        self._find = find
        self._links: dict[tuple[int, int], LeaderEndPoint] = {}

    def between(self, from_id: int, to_id: int) -> LeaderEndPoint:
        link = self._links.get((from_id, to_id))
        if link is None:
            link = self._links[from_id, to_id] = LeaderEndPoint(from_id, to_id, self._find)
        return link

    def __getitem__(self, pair: tuple[int, int]) -> LeaderEndPoint:
        return self.between(*pair)

    def node_died(self, node_id: int) -> None:
        """Fail all calls from and to a node: its connections are reset."""
        for (from_id, to_id), link in self._links.items():
            if node_id in (from_id, to_id):
                link.fail_waiting()


class FollowerFetchSession:
    """The partitions that node `follower_id`, registered with `broker_epoch`, watches with one fetcher."""

    __slots__ = ("_held", "_held_timer", "_hosted", "_rows", "broker_epoch", "follower_id", "ready")

    def __init__(self, hosted: HostedPartitions, follower_id: int, broker_epoch: int) -> None:
        self.follower_id = follower_id
        self.broker_epoch = broker_epoch
        self.ready = ReadyPartitions(hosted.timer, lambda: hosted.config.replica_fetch_wait_max_ms)
        self._hosted = hosted
        self._rows: dict[FetchPartition, Partition | None] = {}
        self._held: dict[FetchPartition, None] = {}
        """The partitions that the throttle holds back."""
        self._held_timer: TimerCallback | None = None

    def is_of(self, hosted: HostedPartitions) -> bool:
        """Return whether the session belongs to these replicas, not to a former broker of the node."""
        return self._hosted is hosted

    def move(self, rows: Sequence[FetchPartition]) -> None:
        ready = self.ready
        for row in rows:
            is_new = row not in self._rows
            self._rows.setdefault(row, None)
            if self._accept(row):
                ready.rows[row] = None
                continue
            ready.rows.pop(row, None)
            if is_new:
                # The high watermark may have moved before the follower watched the partition.
                ready.note_offsets(row)

    def forget(self, row: FetchPartition) -> None:
        partition = self._rows.pop(row, None)
        self.ready.forget(row)
        self._held.pop(row, None)
        if partition is not None and partition.in_sync is not None:
            partition.in_sync.unwatch(self.follower_id, self.ready)

    def close(self) -> None:
        for row in list(self._rows):
            self.forget(row)
        self.ready.close()
        if self._held_timer is not None:
            self._hosted.timer.cancel(self._held_timer)
            self._held_timer = None

    def read(self, max_bytes: int) -> list[FetchedPartition]:
        """Return the partitions with news; their records fit in `max_bytes`, or are one batch."""
        rows: list[FetchedPartition] = []
        ready = self.ready.rows
        for row in list(ready):
            if max_bytes <= 0:
                break
            if self._is_held_back(row):
                continue
            fetched = self._read(row, max_bytes, min_one=not rows)
            if fetched is None:
                break
            del ready[row]
            if fetched.size or fetched.error_code or fetched.diverging is not None:
                self.ready.offsets_told(row)
                rows.append(fetched)
                max_bytes -= fetched.size
                self._count(row, fetched.size)
        for row in self.ready.take_news():
            partition = self._rows.get(row)
            if partition is not None:
                fetched = FetchedPartition(row)
                fetched.high_watermark = partition.log.high_watermark
                fetched.log_start_offset = partition.log.log_start_offset
                rows.append(fetched)
        return rows

    def _find(self, row: FetchPartition) -> Partition:
        """Return the partition that a row asks for. Raises `KafkaError`."""
        assert row.topic is not None
        partition = self._hosted.leader(row.topic, row.index, row.current_leader_epoch)
        if row.topic_id not in (ZERO_UUID, partition.topic_id):
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, "a topic of the same name")
        partition.check_follower(self.follower_id, self.broker_epoch, row.current_leader_epoch)
        return partition

    def _accept(self, row: FetchPartition) -> bool:
        """Note the follower's position; return whether there is something to send."""
        try:
            partition = self._find(row)
            if partition.diverging_epoch(row) is not None:
                return True
            log = partition.log
            if not log.log_start_offset <= row.fetch_offset <= log.log_end_offset:
                return True
        except KafkaError:
            return True
        self._rows[row] = partition
        assert partition.in_sync is not None
        partition.in_sync.watch(self.follower_id, self.ready, row)
        partition.follower_fetched(
            self.follower_id,
            row.fetch_offset,
            log_start_offset=row.log_start_offset,
            broker_epoch=self.broker_epoch,
        )
        return row.fetch_offset < log.log_end_offset

    def _read(self, row: FetchPartition, max_bytes: int, *, min_one: bool) -> FetchedPartition | None:
        """Return what a partition has, None if its next batch does not fit."""
        try:
            partition = self._find(row)
            fetched = partition.read(
                row, isolation=Isolation.LOG_END, max_bytes=min(row.max_bytes, max_bytes), min_one=min_one
            )
        except KafkaError as error:
            return FetchedPartition(row, error.code)
        if not fetched.size and fetched.diverging is None and row.fetch_offset < partition.log.log_end_offset:
            return None
        return fetched

    def _is_held_back(self, row: FetchPartition) -> bool:
        """Hold a partition back if the throttle demands it; return whether it does."""
        throttle, partition = self._hosted.leader_throttle, self._rows.get(row)
        if partition is None or not throttle.is_throttled(partition.topic, partition.index):
            return False
        if self.follower_id in partition.isr:
            return False
        wait_ms = throttle.wait_ms(monotonic_ms())
        if wait_ms:
            del self.ready.rows[row]
            self._held[row] = None
            if self._held_timer is None:
                self._held_timer = TimerCallback(self._release_held)
                self._hosted.timer.add(self._held_timer, wait_ms, monotonic_ms())
        return wait_ms > 0

    def _release_held(self) -> None:
        self._held_timer = None
        held, self._held = self._held, {}
        self.ready.note_all(held)

    def _count(self, row: FetchPartition, size: int) -> None:
        throttle = self._hosted.leader_throttle
        if size and row.topic is not None and throttle.is_throttled(row.topic, row.index):
            throttle.record(size, monotonic_ms())
