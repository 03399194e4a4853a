"""ReplicaFetcher: a task that copies many partitions from one leader (class `ReplicaFetcherThread`).

Each call tells the leader how far the log has come and brings more. No other task runs between reading the
leader's files and writing the own ones, so all fetchers of the process share one buffer. Without news a
fetcher waits on the leader, at no cost.

| answer | what happens to the partition |
|---|---|
| records | appended; high watermark and log start follow |
| diverging epoch | truncated to where the logs diverge |
| OFFSET_OUT_OF_RANGE | truncated to the leader's end, or started over at its start |
| FENCED_LEADER_EPOCH | stops until the metadata changes |
| CORRUPT_MESSAGE, not led or known there, … | retried after `replica.fetch.backoff.ms` |
| an error of its own log | stops until the next leader epoch |

Where `flush.messages` demands it, records are on disk before a call tells the leader that they are here, so
that those acknowledged to a producer with acks=all are on the disk of every in-sync replica.

If the leader cannot be reached, all its partitions are retried later (class `AbstractFetcherThread`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from kcli.broker.replication import follower_log
from kcli.broker.replication.fetch_data import FetchPartition
from kcli.broker.replication.leader_endpoint import PeerUnreachable
from kcli.broker.waiting.timer import TimerCallback, monotonic_ms
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.java import string_hash
from kcli.storage.disk import is_shortage
from kcli.storage.log.file_records import FileSlice

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.broker.replication.fetch_data import FetchedPartition
    from kcli.broker.replication.hosted_partitions import HostedPartitions
    from kcli.broker.replication.leader_endpoint import FollowerFetchSession, LeaderEndPoint
    from kcli.broker.replication.partition import Partition
    from kcli.protocol.topics import TopicPartition

TURN_BYTES = 1024 * 1024
"""The bytes copied before other tasks run."""

_log = logging.getLogger(__name__)
_buffer = memoryview(bytearray(TURN_BYTES))


@dataclass(slots=True, eq=False)
class FetchState:
    """One partition of a fetcher, the row that it sends, and its delay."""

    partition: Partition
    row: FetchPartition
    delayed_until_ms: int = 0
    has_begun: bool = False
    """Whether the log is ready for the comparison with the leader's."""
    in_sync: bool = False
    """Whether all known committed records have been copied."""

    def moved(self) -> None:
        """Move the position to the end of the log."""
        log, row = self.partition.log, self.row
        row.fetch_offset = log.log_end_offset
        row.last_fetched_epoch = log.leader_epochs.latest_epoch
        row.log_start_offset = log.log_start_offset


class ReplicaFetcher:
    """Copies partitions from the leader at the other end of `link`."""

    def __init__(self, hosted: HostedPartitions, link: LeaderEndPoint, number: int) -> None:
        self.leader_id = link.to_id
        self.number = number
        self.states: dict[tuple[str, int], FetchState] = {}
        self._hosted = hosted
        self._link = link
        self._session: FollowerFetchSession | None = None
        self._moved: dict[FetchState, None] = {}
        """The partitions whose positions go into the next call."""
        self._delayed: dict[FetchState, None] = {}
        self._out_of_range: list[FetchState] = []
        self._alarm: TimerCallback | None = None
        self._work = trio.Event()

    def __repr__(self) -> str:
        return f"ReplicaFetcher(leader={self.leader_id}, number={self.number}, {len(self.states)} partitions)"

    @property
    def delayed(self) -> list[TopicPartition]:
        return [state.partition.key for state in self._delayed]

    def add(self, partition: Partition) -> None:
        """Copy a partition from now on, in its current leader epoch."""
        self.remove(partition.key)
        log = partition.log
        row = FetchPartition(
            partition.topic,
            partition.topic_id,
            partition.index,
            log.log_end_offset,
            self._hosted.config.replica_fetch_max_bytes,
            partition.leader_epoch,
            log.leader_epochs.latest_epoch,
            log.log_start_offset,
        )
        state = self.states[partition.key] = FetchState(partition, row)
        self._moved[state] = None
        self.wake()

    def remove(self, key: TopicPartition) -> None:
        state = self.states.pop(key, None)
        if state is not None:
            self._drop(state)

    def wake(self) -> None:
        self._work.set()
        if self._session is not None:
            self._session.ready.wake()

    def _delay_is_over(self) -> None:
        self._alarm = None
        self.wake()

    def _drop(self, state: FetchState) -> None:
        self._moved.pop(state, None)
        self._delayed.pop(state, None)
        if self._session is not None:
            self._session.forget(state.row)

    async def run(self) -> None:
        try:
            while True:
                await self._hosted.gate.passed()
                self._end_delays()
                if not self.states or len(self._delayed) == len(self.states):
                    await self._work.wait()
                    self._work = trio.Event()
                    continue
                try:
                    await self._fetch()
                except PeerUnreachable as error:
                    _log.debug("%s", error.message)
                    self._lose_session()
                    for state in list(self.states.values()):
                        self._delay(state)
        finally:
            self._lose_session()
            self._cancel_alarm()

    async def _fetch(self) -> None:
        session = self._session
        if session is None:
            session = self._session = await self._link.open(broker_epoch=self._hosted.context.broker_epoch())
            self._moved = dict.fromkeys(state for state in self.states.values() if state not in self._delayed)
        unsynced = [state for state in self._moved if state.partition.log.must_flush]
        if unsynced:
            await self._flush(unsynced)
        limit = min(self._hosted.config.replica_fetch_response_max_bytes, TURN_BYTES)
        rows = await self._link.fetch(session, self._take_moved, max_bytes=limit)
        if self._hosted.gate.is_closed or session is not self._session:
            self._lose_session()  # The answer got lost on its way.
            return
        for row in rows:
            found = self.states.get((row.request.topic or "", row.request.index))
            if found is not None and found.row is row.request:
                self._take(found, row)
        # Last: the leader may truncate records meanwhile, and the other rows would read them.
        while self._out_of_range:
            await self._find_range(self._out_of_range.pop())
        if session.ready.has_waited:
            session.ready.has_waited = False
        else:
            await trio.lowlevel.checkpoint()

    async def _flush(self, states: list[FetchState]) -> None:
        async with trio.open_nursery() as nursery:
            for state in states:
                nursery.start_soon(self._flush_one, state)

    async def _flush_one(self, state: FetchState) -> None:
        try:
            await self._hosted.group_commit.flush(state.partition.log)
        except KafkaError as error:
            if self.states.get(state.partition.key) is state:
                self._failed(state, error)

    def _take_moved(self) -> list[FetchPartition]:
        """Return the rows of moved positions, when a call arrives at the leader."""
        self._end_delays()  # Delays may have ended while the call was on its way.
        for state in list(self._moved):
            if not state.has_begun:
                self._begin(state)
            if state.partition.log.must_flush:
                self._delay(state)  # It came while the call was on its way; the next one flushes it.
            state.moved()
            self._hold_back(state)
        moved, self._moved = self._moved, {}
        return [state.row for state in moved]

    def _begin(self, state: FetchState) -> None:
        """Prepare a log for the comparison with the leader's, before the first call."""
        if state.partition.writing is not None:
            self._delay(state)
            return
        try:
            follower_log.begin(state.partition.log, now_ms=self._hosted.wall_ms())
            state.has_begun = True
        except KafkaError as error:
            self._failed(state, error)

    def _take(self, state: FetchState, row: FetchedPartition) -> None:
        if state.partition.writing is not None:
            # A thread still writes what this node accepted as the former leader.
            self._delay(state)
        elif row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range.append(state)
        elif row.error_code:
            self._refused(state, row.error_code)
        else:
            try:
                self._write(state, row)
            except KafkaError as error:
                self._failed(state, error)

    def _write(self, state: FetchState, row: FetchedPartition) -> None:
        log, now_ms = state.partition.log, self._hosted.wall_ms()
        if row.diverging is not None:
            epoch, end_offset = row.diverging
            before = log.log_end_offset
            follower_log.truncate_to_epoch(log, epoch, end_offset, now_ms=now_ms)
            if log.log_end_offset != before:
                _log.info("%s-%d: cut from %d to %d", *state.partition.key, before, log.log_end_offset)
            self._moved[state] = None
        elif row.records is not None:
            assert isinstance(row.records, FileSlice)
            follower_log.append(log, read_slice(row.records), now_ms=now_ms)
            self._moved[state] = None
            throttle = self._hosted.follower_throttle
            if throttle.is_throttled(*state.partition.key):
                throttle.record(row.size, monotonic_ms())
        if row.diverging is None:
            log_start = log.log_start_offset
            follower_log.follow_offsets(
                log, high_watermark=row.high_watermark, log_start_offset=row.log_start_offset
            )
            if log.log_start_offset != log_start:
                self._moved[state] = None
            state.in_sync = log.log_end_offset >= row.high_watermark
        self._hosted.touch(state.partition.key)

    def _hold_back(self, state: FetchState) -> None:
        throttle = self._hosted.follower_throttle
        if throttle.is_throttled(*state.partition.key) and not state.in_sync:
            wait_ms = throttle.wait_ms(monotonic_ms())
            if wait_ms:
                self._delay(state, wait_ms)

    async def _find_range(self, state: FetchState) -> None:
        """Find the next position after OFFSET_OUT_OF_RANGE. Raises `PeerUnreachable`."""
        partition, epoch = state.partition, state.row.current_leader_epoch
        try:
            start, end = await self._link.log_range(partition.topic, partition.index, epoch)
            if self.states.get(partition.key) is state:
                self._fit(state, start, end)
        except KafkaError as error:
            if self.states.get(partition.key) is state:
                self._failed(state, error)

    def _fit(self, state: FetchState, start: int, end: int) -> None:
        """Bring a log into the range of its leader's. Raises `KafkaError`."""
        partition = state.partition
        own_end = partition.log.log_end_offset
        follower_log.fit(partition.log, start, end, now_ms=self._hosted.wall_ms())
        if partition.log.log_end_offset != own_end:
            _log.warning("%s-%d: its leader has %d to %d, not %d", *partition.key, start, end, own_end)
        self._hosted.touch(partition.key)
        self._moved[state] = None

    def _refused(self, state: FetchState, code: int) -> None:
        partition = state.partition
        is_fenced = code == ErrorCode.FENCED_LEADER_EPOCH
        if is_fenced and partition.leader_epoch == state.row.current_leader_epoch:
            self.remove(partition.key)
        else:
            self._delay(state)

    def _failed(self, state: FetchState, error: KafkaError) -> None:
        _log.warning("%s-%d could not be copied: %s", *state.partition.key, error.message)
        if error.code == ErrorCode.KAFKA_STORAGE_ERROR and not is_shortage(error):
            self.remove(state.partition.key)
        else:
            self._delay(state)

    def _delay(self, state: FetchState, delay_ms: int | None = None) -> None:
        """Delay a partition, unless it is delayed already."""
        if state in self._delayed:
            return
        self._drop(state)
        if delay_ms is None:
            delay_ms = self._hosted.config.replica_fetch_backoff_ms
        state.delayed_until_ms = monotonic_ms() + delay_ms
        self._delayed[state] = None
        if self._alarm is None or state.delayed_until_ms < self._alarm.deadline_ms:
            self._set_alarm(delay_ms)

    def _set_alarm(self, delay_ms: int) -> None:
        self._cancel_alarm()
        self._alarm = TimerCallback(self._delay_is_over)
        self._hosted.timer.add(self._alarm, max(delay_ms, 1), monotonic_ms())

    def _end_delays(self) -> None:
        if not self._delayed:
            return
        now_ms = monotonic_ms()
        for state in list(self._delayed):
            if state.delayed_until_ms <= now_ms:
                del self._delayed[state]
                self._moved[state] = None
        self._cancel_alarm()
        if self._delayed:
            self._set_alarm(min(state.delayed_until_ms for state in self._delayed) - now_ms)

    def _cancel_alarm(self) -> None:
        if self._alarm is not None:
            self._hosted.timer.cancel(self._alarm)
            self._alarm = None

    def _lose_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


def read_slice(records: FileSlice) -> memoryview:
    """Read a slice of a leader's log; the result is valid until the next read. Raises `KafkaError`."""
    try:
        if records.size > TURN_BYTES:
            return memoryview(bytearray(records.read()))
        return _buffer[: records.read_into(_buffer)]
    except OSError as error:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"the leader cannot read its log: {error}"
        ) from error


def fetcher_number(topic: str, index: int, count: int) -> int:
    """Return the number, of `count` fetchers to a leader, that copies a partition."""
    hashed = (31 * string_hash(topic) + index) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed & 0x80000000 else hashed
    return abs(signed) % count


class FetcherManager:
    """The fetchers of one node: up to `num.replica.fetchers` to each leader (class `ReplicaFetcherManager`).

    The name of a partition decides which fetcher copies it. Fetchers start with their first partition and
    stay until the node stops. `link_to` returns the link to a leader.
    """

    def __init__(self, hosted: HostedPartitions, link_to: Callable[[int], LeaderEndPoint]) -> None:
        self.fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._owners: dict[TopicPartition, ReplicaFetcher] = {}
        self._hosted = hosted
        self._link_to = link_to
        self._nursery: trio.Nursery | None = None

    def follow(self, partition: Partition) -> None:
        """Copy a partition from its leader, starting anew if it is copied already."""
        self.stop(partition.key)
        number = self._number_of(partition)
        fetcher = self.fetchers.get((partition.leader, number))
        if fetcher is None:
            fetcher = ReplicaFetcher(self._hosted, self._link_to(partition.leader), number)
            self.fetchers[partition.leader, number] = fetcher
            if self._nursery is not None:
                self._nursery.start_soon(fetcher.run)
        self._owners[partition.key] = fetcher
        fetcher.add(partition)

    def stop(self, key: TopicPartition) -> None:
        fetcher = self._owners.pop(key, None)
        if fetcher is not None:
            fetcher.remove(key)

    def resize(self) -> None:
        """Use the configured number of fetchers to each leader."""
        for fetcher in list(self.fetchers.values()):
            for state in list(fetcher.states.values()):
                if self._number_of(state.partition) != fetcher.number:
                    self.follow(state.partition)

    def _number_of(self, partition: Partition) -> int:
        return fetcher_number(partition.topic, partition.index, self.per_leader)

    @property
    def per_leader(self) -> int:
        return self._hosted.config.num_replica_fetchers

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                for fetcher in self.fetchers.values():
                    nursery.start_soon(fetcher.run)
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None
