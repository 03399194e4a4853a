"""Consumer: reads partitions that it chooses, or that its group assigns, from a position on.

    async with Consumer(client, ConsumerConfig(group_id="billing", auto_offset_reset="earliest")) as consumer:
        consumer.subscribe(["orders"])          # or assign([TopicPartition("orders", 0)]), without a group
        while True:
            for fetched in await consumer.poll():
                for record in fetched.records:
                    print(fetched.partition, record.offset, record.value)

In a group, `poll` joins, gives up and takes partitions, and calls the listener. A poll may be cancelled at
any time; the next one continues. The end of the block commits (with auto-commit on), calls the listener, and
leaves the group.

The position of a partition moves when its records are handed out, and also over offsets that are never handed
out: holes of compaction, control records, aborted transactions. A bounded read ends when the position reaches
its end, not after some record or count.
"""

from __future__ import annotations

import math
import time
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio

from kcli.client.admin.partitions import list_offsets
from kcli.client.config import ConsumerConfig
from kcli.client.fetch.completed_fetch import BadFetch
from kcli.client.fetch.fetcher import Fetcher
from kcli.client.fetch.subscription_state import AssignedPartitions, FetchState, SubscriptionMode
from kcli.client.network.background import Background
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.list_offsets import EARLIEST, LATEST

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping

    from kcli.client.admin.types import CommittedOffset, OffsetAndTimestamp
    from kcli.client.client import Client
    from kcli.client.fetch.completed_fetch import FetchedRecords
    from kcli.client.fetch.subscription_state import SubscriptionPattern, TopicPattern
    from kcli.client.groups.classic_membership import GroupMetadata
    from kcli.client.groups.group_commits import Offsets, Settled
    from kcli.client.groups.member import Member
    from kcli.client.groups.rebalance_listener import RebalanceListener
    from kcli.protocol.topics import TopicPartition

CLOSE_SECONDS = 30.0
"""How long the end of a consumer's block waits for its last commit, its listener and its leaving."""


class ConcurrentUse(KcliError):
    """Two tasks polled one consumer at the same time."""


class Consumer(Background):
    """Used by one task at a time, with `async with`; in a group if the configuration has a `group_id`.

    `note` gets a line for each event in the group that needs no reaction. `warn` gets a line if records may
    be read again, because an unawaited commit failed or the group went on without this member; and if a
    position was out of range, with the one that replaced it.
    """

    def __init__(
        self,
        client: Client,
        config: ConsumerConfig | None = None,
        *,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        note: Callable[[str], None] = lambda line: None,
        warn: Callable[[str], None] | None = None,
        close_seconds: float = CLOSE_SECONDS,
    ) -> None:
        self.config = config or ConsumerConfig()
        self._client = client
        warn = warn or note
        has_group = bool(self.config.group_id)
        self._assigned = AssignedPartitions(self.config.auto_offset_reset, has_group=has_group)
        self._fetcher = Fetcher(client, self.config, assigned=self._assigned, wall_ms=wall_ms, warn=warn)
        self._member: Member | None = None
        if has_group:
            # Imported here: most consumers have no group.
            from kcli.client.consumer.group_membership import member_running, new_member
            from kcli.client.groups.member import Callbacks

            self._member = new_member(
                client,
                self.config,
                assigned=self._assigned,
                fetcher=self._fetcher,
                callbacks=Callbacks(self._wake, note, warn),
            )
            self._member_running = partial(member_running, close_seconds=close_seconds, warn=warn)
        self._is_polling = False

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._fetcher.run)
            try:
                if self._member is None:
                    yield
                else:
                    async with self._member_running(self._member, nursery):
                        yield
            finally:
                self._fetcher.close()
                nursery.cancel_scope.cancel()

    def _wake(self) -> None:
        self._fetcher.tell()
        self._fetcher.wake()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions."""
        return frozenset(self._assigned.partitions)

    def subscribe(
        self,
        topics: Iterable[str] | TopicPattern | SubscriptionPattern,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read topics, or all topics whose whole name matches a pattern, as a member of the group.

        The broker matches a `SubscriptionPattern`, in the consumer protocol only. Replaces an earlier
        subscription of the same kind. Raises `SubscriptionConflict` after another kind or `assign`, and
        `KafkaError` without a `group_id`.
        """
        member = self._in_group()
        if listener is not None:
            member.assignment.listener = listener
        member.subscribe(topics)
        self._wake()

    async def unsubscribe(self) -> None:
        """Read nothing, and leave the group."""
        if self._member is not None:
            await self._member.unsubscribe()
        else:
            self._assigned.assign(())

    @property
    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics; with a pattern, those that it matches now."""
        return frozenset() if self._member is None else self._member.topics.topics

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions; those that were assigned before keep their positions.

        Raises `SubscriptionConflict` after `subscribe`.
        """
        if self._member is not None:
            self._member.topics.become(SubscriptionMode.ASSIGNED)
        self._assigned.assign(partitions)
        for topic in {partition.topic for partition in self._assigned.partitions}:
            self._client.want_topic(topic, pinned=True)
        self._fetcher.wake()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at an offset. Raises `NotAssigned`, and `ValueError` below 0."""
        if offset < 0:
            raise ValueError(f"cannot seek to offset {offset}")
        self._assigned[partition].seek(offset)
        self._fetcher.wake()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the first record of these partitions, or of all."""
        self._reset(partitions, "earliest")

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue after the last record of these partitions, or of all."""
        self._reset(partitions, "latest")

    def _reset(self, partitions: tuple[TopicPartition, ...], strategy: str) -> None:
        for partition in partitions or tuple(self._assigned.partitions):
            self._assigned[partition].reset(strategy)
        self._fetcher.wake()

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out no records of these partitions until `resume`; the buffer is kept."""
        for partition in partitions:
            self._assigned[partition].is_paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """End a pause."""
        for partition in partitions:
            self._assigned[partition].is_paused = False
        self._fetcher.wake()

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """Return the paused partitions."""
        states = self._assigned.partitions.values()
        return frozenset(state.partition for state in states if state.is_paused)

    async def poll(
        self, max_records: int | None = None, *, timeout_ms: int | None = None
    ) -> list[FetchedRecords]:
        """Return the next records, at most `max_records` (`max.poll.records`) in total.

        Waits up to `timeout_ms`, without a limit if None. Also returns an empty list when a position moved
        without a record. In a group, joins it and stays in it. Raises the errors of reading; a damaged batch
        is raised by each call until the caller seeks beyond it.
        """
        if self._is_polling:
            raise ConcurrentUse("the consumer is polled by another task")
        self._is_polling = True
        limit = self.config.max_poll_records if max_records is None else max_records
        if self._member is not None:
            self._member.heartbeat.poll_began()
        try:
            with trio.move_on_after(float("inf") if timeout_ms is None else timeout_ms / 1000):
                await trio.lowlevel.checkpoint()
                while True:
                    news = self._fetcher.arrived
                    if self._member is not None:
                        await self._member.drive()
                    # From here on, a cancellation would lose records.
                    with trio.CancelScope(shield=True):
                        result, has_moved = await self._hand_out(limit)
                        if result or has_moved:
                            # The next fetches run while the application works on these records.
                            self._fetcher.wake()
                            await trio.lowlevel.checkpoint()
                            return result
                    self._raise_error()
                    next_drive = math.inf if self._member is None else self._member.commits.next_auto_commit
                    with trio.move_on_at(next_drive):
                        await news.wait()
            self._raise_error()
            return []
        finally:
            self._is_polling = False
            if self._member is not None:
                self._member.heartbeat.poll_ended()

    async def _hand_out(self, limit: int) -> tuple[list[FetchedRecords], bool]:
        """Take buffered records; also return whether a position moved without one."""
        result: list[FetchedRecords] = []
        has_moved = False
        for state in list(self._assigned.partitions.values()):
            while limit > 0 and state.buffered and not state.is_paused:
                fetch = state.buffered[0]
                if fetch.token is not state.token or fetch.next_offset != state.position:
                    state.drop_buffered()
                    self._fetcher.wake()
                    break
                try:
                    fetched = await fetch.take(limit)
                except BadFetch:
                    if result:
                        return result, has_moved  # what was read before comes first
                    raise
                if fetch.token is not state.token:
                    break  # another task sought while this one decoded
                if fetched is None:
                    state.buffered.popleft()
                    has_moved |= fetch.next_offset > state.position
                else:
                    result.append(fetched)
                    limit -= len(fetched.records)
                state.position = fetch.next_offset
                state.position_epoch = fetch.leader_epoch
        return result, has_moved

    def _raise_error(self) -> None:
        error, self._fetcher.error = self._fetcher.error, None
        if error is not None:
            raise error

    def _in_group(self) -> Member:
        if self._member is None:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the consumer has no group", hint="set `group.id`")
        return self._member

    @property
    def group_metadata(self) -> GroupMetadata:
        """Return the ids under which the consumer takes part in its group."""
        return self._in_group().metadata

    @property
    def is_settled(self) -> bool:
        """Return whether the group has assigned partitions and no change of it is known."""
        return self._member is not None and self._member.is_settled

    async def commit(self, offsets: Offsets | None = None, *, timeout_ms: int | None = None) -> None:
        """Commit offsets, or the positions of all assigned partitions, retrying until the time is up.

        Raises `CommitFailed` if the group went on without this member, `NotAssigned` for a partition that it
        does not own, and `KafkaError` `REBALANCE_IN_PROGRESS` while it joins: poll, then commit again.
        """
        commits = self._in_group().commits
        await commits.commit(self._committable(offsets), timeout_ms=timeout_ms)

    def commit_nowait(self, offsets: Offsets | None = None, on_settled: Settled | None = None) -> None:
        """Queue a commit that is tried once; `on_settled` is called with its outcome."""
        self._in_group().commits.start(self._committable(offsets), on_settled=on_settled)

    def _committable(self, offsets: Offsets | None) -> Offsets:
        member = self._in_group()
        if offsets is None:
            return member.commits.positions()
        if member.topics.is_of_group:
            for partition in offsets:
                self._assigned[partition]  # raises
        return offsets

    async def committed(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, CommittedOffset | None]:
        """Return the group's committed offset of each partition, None if there is none."""
        return await self._in_group().commits.committed(partitions, timeout_ms=timeout_ms)

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record to be handed out, waiting for a reset to end.

        Raises `NotAssigned`, the error of the reset, or `trio.TooSlowError` after `default.api.timeout.ms`.
        """
        with trio.fail_after(self._client.config.default_api_timeout_ms / 1000):
            while True:
                state = self._assigned[partition]
                if state.state is FetchState.FETCHING:
                    return state.position
                news = self._fetcher.arrived
                self._raise_error()
                await news.wait()

    @property
    def last_retry_error(self) -> str:
        """Return the last error that a search for offsets retried, "" for none."""
        return self._fetcher.warnings.last

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of the last fetch, None before the first."""
        known = self._assigned[partition].high_watermark
        return known if known >= 0 else None

    def position_nowait(self, partition: TopicPartition) -> int | None:
        """Return the position, None while it is being found."""
        state = self._assigned[partition]
        return state.position if state.state is FetchState.FETCHING else None

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset of each partition's first record. Raises `KafkaError` if any is refused."""
        found = await self._offsets(dict.fromkeys(partitions, EARLIEST))
        return {partition: entry.offset for partition, entry in found.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return each partition's high watermark, or last stable offset under read_committed."""
        found = await self._offsets(dict.fromkeys(partitions, LATEST))
        return {partition: entry.offset for partition, entry in found.items()}

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after a time in ms, None if there is none."""
        found = await self._offsets(timestamps)
        return {partition: entry if entry.offset >= 0 else None for partition, entry in found.items()}

    async def _offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        committed, warnings = self.config.is_read_committed, self._fetcher.warnings
        results = await list_offsets(self._client, timestamps, read_committed=committed, warnings=warnings)
        offsets: dict[TopicPartition, OffsetAndTimestamp] = {}
        for partition, found in results.items():
            if isinstance(found, KafkaError):
                raise KafkaError(found.code, f"{partition}: {found.message}", hint=found.hint)
            offsets[partition] = found
        return offsets
