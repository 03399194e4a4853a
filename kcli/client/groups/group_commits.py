"""GroupCommits: commits and reads a group's offsets; CommittedPositions: starts partitions at them.

A committed offset is that of the next record to read.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

from kcli.client.admin.group_offsets import (
    FIRST_EPOCH_VERSION,
    FIRST_MEMBER_VERSION,
    FIRST_STATIC_VERSION,
    LAST_VERSION_BY_NAME,
    MIN_FETCH_VERSION,
    committed_offsets,
    expelled,
    offset_commit,
    offset_fetch,
)
from kcli.client.admin.types import CommittedOffset, Generation
from kcli.client.client import COORDINATOR_MOVED
from kcli.client.fetch.subscription_state import FetchState
from kcli.client.groups.classic_membership import ErrorAction
from kcli.client.groups.coordinator_link import CoordinatorLink, is_passing
from kcli.client.network.backoff import Backoff
from kcli.client.network.connection import Disconnected, RequestTimedOut
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.offset_commit import OffsetCommitRequest
from kcli.protocol.messages.offset_fetch import OffsetFetchRequest
from kcli.protocol.topics import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kcli.client.client import Client
    from kcli.client.config import ConsumerConfig
    from kcli.client.fetch.subscription_state import AssignedPartition, AssignedPartitions, TopicSubscription
    from kcli.client.groups.classic_membership import ClassicMembership
    from kcli.client.groups.consumer_membership import ConsumerMembership
    from kcli.client.network.connection import Connection
    from kcli.protocol.messages.offset_commit import OffsetCommitResponse


@dataclass(slots=True, eq=False)
class PendingCommit:
    """A commit without its outcome yet. One without a deadline is tried once."""

    offsets: Offsets
    deadline: float | None
    on_settled: Settled | None
    done: trio.Event = field(default_factory=trio.Event)
    error: KcliError | None = None
    is_abandoned: bool = False


class GroupCommits:
    """The commits of one consumer, as a member of its group or with partitions it assigned itself.

    Commits keep their order: the next one is sent when the one before is settled. A commit that a caller
    waits for is retried until its time is up; others are tried once. With auto-commit on, positions are
    committed every `auto.commit.interval.ms`; the member also commits before it gives up partitions and at
    the end.
    """

    def __init__(
        self,
        client: Client,
        config: ConsumerConfig,
        *,
        link: CoordinatorLink,
        membership: ClassicMembership | ConsumerMembership,
        topics: TopicSubscription,
        assigned: AssignedPartitions,
        tell: Callable[[], None],
    ) -> None:
        self._client = client
        self._config = config
        self._link = link
        self._membership = membership
        self._topics = topics
        self._assigned = assigned
        self._tell = tell
        self._queue: deque[PendingCommit] = deque()
        self._wanted = trio.Event()
        self._idle = trio.Event()
        self._auto_at = trio.current_time() + config.auto_commit_interval_ms / 1000

    def positions(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return the known positions of assigned partitions, of all or of some."""
        wanted = self._assigned.partitions if partitions is None else partitions
        found: dict[TopicPartition, CommittedOffset] = {}
        for partition in wanted:
            state = self._assigned.partitions.get(partition)
            if state is not None and state.state is FetchState.FETCHING:
                epoch = state.position_epoch
                found[partition] = CommittedOffset(state.position, epoch if epoch >= 0 else None)
        return found

    def uncommitted(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return the positions that are not known to be committed, of all partitions or of some."""
        return {
            partition: offset
            for partition, offset in self.positions(partitions).items()
            if self._assigned[partition].committed != offset.offset
        }

    def start(
        self, offsets: Offsets, *, timeout_ms: int | None = None, on_settled: Settled | None = None
    ) -> PendingCommit:
        """Queue a commit: it is tried once, or until the time is up."""
        deadline = None if timeout_ms is None else trio.current_time() + timeout_ms / 1000
        commit = PendingCommit(dict(offsets), deadline, on_settled)
        self._queue.append(commit)
        self._wanted.set()
        return commit

    async def commit(self, offsets: Offsets, *, timeout_ms: int | None = None) -> None:
        """Commit offsets after all queued commits; raise the error.

        Raises `CommitFailed` if the group went on without this member, `KafkaError` `REBALANCE_IN_PROGRESS`
        if it is rebalancing: poll, then commit what is still owned.
        """
        if timeout_ms is None:
            timeout_ms = self._client.config.default_api_timeout_ms
        commit = self.start(offsets, timeout_ms=timeout_ms)
        try:
            await commit.done.wait()
        finally:
            commit.is_abandoned = True
        if commit.error is not None:
            raise commit.error

    @property
    def is_busy(self) -> bool:
        return bool(self._queue)

    async def settle(self) -> None:
        while self._queue:
            self._idle = trio.Event()
            await self._idle.wait()

    async def run(self) -> None:
        while True:
            while self._queue:
                commit = self._queue[0]
                await self._settle(commit)
                self._queue.popleft()
                commit.done.set()
                if commit.error is None:
                    self._note_committed(commit.offsets)
                if commit.on_settled is not None:
                    commit.on_settled(commit.offsets, commit.error)
            self._idle.set()
            self._tell()
            self._wanted = trio.Event()
            await self._wanted.wait()

    async def _settle(self, commit: PendingCommit) -> None:
        backoff = Backoff.of(self._client.config)
        deadline = math.inf if commit.deadline is None else commit.deadline
        with trio.move_on_at(deadline) as scope:
            while commit.offsets and not commit.is_abandoned:
                try:
                    await self._send(commit.offsets)
                except KcliError as error:
                    commit.error = error
                else:
                    commit.error = None
                    return
                if commit.deadline is None or not is_passing(commit.error):
                    return
                await trio.sleep(backoff.next_delay())
        if scope.cancelled_caught and commit.error is None:
            commit.error = RequestTimedOut("the coordinator did not answer the commit in time")

    def _note_committed(self, offsets: Offsets) -> None:
        for partition, offset in offsets.items():
            state = self._assigned.partitions.get(partition)
            if state is not None:
                state.committed = offset.offset

    async def _send(self, offsets: Offsets) -> None:
        connection = await self._link.connection()
        generation = self._generation()
        refused = await self._request(connection, offsets, generation, self._link)
        for partition, code in refused.items():
            self._refused(code, partition, generation)

    async def _request(
        self, connection: Connection, offsets: Offsets, generation: Generation, link: CoordinatorLink
    ) -> dict[TopicPartition, ErrorCode]:
        """Send one commit; return the errors of its partitions."""
        instance_id = self._config.group_instance_id if self._topics.is_of_group else ""
        request = offset_commit(self._config.group_id, instance_id, generation=generation, offsets=offsets)
        first = FIRST_STATIC_VERSION if instance_id else 1
        if self._is_consumer_member:
            first = FIRST_EPOCH_VERSION
        version = connection.versions.choose(
            OffsetCommitRequest, min_version=first, max_version=LAST_VERSION_BY_NAME
        )
        try:
            response: OffsetCommitResponse = await connection.request(request, version)
        except Disconnected:
            link.forget()
            raise
        return {
            TopicPartition(topic.name, row.partition_index): ErrorCode.of(row.error_code)
            for topic in response.topics
            for row in topic.partitions
            if row.error_code
        }

    async def commit_aside(self, offsets: Offsets) -> bool:
        """Commit at once over a separate connection, while JoinGroup waits on this member's.

        The old generation counts until the group has completed the join. Returns whether it still did.
        """
        link = CoordinatorLink(self._client, self._config.group_id)
        try:
            connection = await link.connection()
            return not await self._request(connection, offsets, self._membership.generation, link)
        finally:
            link.close()

    @property
    def _is_consumer_member(self) -> bool:
        return self._topics.is_of_group and self._config.is_consumer_protocol

    def _generation(self) -> Generation:
        """Return the generation to commit in; raise `KafkaError` if the member may not commit now."""
        if not self._topics.is_of_group:
            return Generation()
        if self._membership.is_joining:
            raise KafkaError(
                ErrorCode.REBALANCE_IN_PROGRESS,
                "cannot commit: the group is rebalancing",
                hint="poll, then commit what is still assigned",
            )
        if not self._membership.can_commit:
            raise expelled(ErrorCode.UNKNOWN_MEMBER_ID)
        return self._membership.generation

    def _refused(self, code: ErrorCode, partition: TopicPartition, sent: Generation) -> None:
        if self._membership.commit_failed(code, sent) is ErrorAction.LOOK_UP:
            self._link.forget()
        if code in _EXPELLED:
            raise expelled(code)
        raise KafkaError(code, f"cannot commit the offset of {partition}: {code.description}")

    @property
    def next_auto_commit(self) -> float:
        is_able = self._membership.can_commit or not self._topics.is_of_group
        return self._auto_at if self._config.commits_by_itself and is_able and not self._queue else math.inf

    def auto_commit(self) -> None:
        if trio.current_time() >= self.next_auto_commit:
            self.restart_auto_commit()
            offsets = self.uncommitted()
            if offsets:
                self.start(offsets, on_settled=self._auto_committed)

    def restart_auto_commit(self) -> None:
        self._auto_at = trio.current_time() + self._config.auto_commit_interval_ms / 1000

    def _auto_committed(self, offsets: Offsets, error: KcliError | None) -> None:
        if error is not None and is_passing(error):
            self._auto_at = trio.current_time() + self._client.config.retry_backoff_ms / 1000

    async def committed(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, CommittedOffset | None]:
        """Return the committed offsets; raise the last error when the time is up."""
        if timeout_ms is None:
            timeout_ms = self._client.config.default_api_timeout_ms
        wanted = list(partitions)
        deadline = trio.current_time() + timeout_ms / 1000
        backoff = Backoff.of(self._client.config)
        last_error: KcliError = RequestTimedOut("the coordinator did not answer in time")
        while True:
            try:
                with trio.move_on_at(deadline):
                    found = await self.fetch(wanted)
                    return {partition: found.get(partition) for partition in wanted}
            except KcliError as error:
                last_error = error
                if not self.passes(error):
                    raise
            delay = backoff.next_delay()
            if trio.current_time() + delay >= deadline:
                raise last_error
            await trio.sleep(delay)

    def passes(self, error: KcliError) -> bool:
        """Return whether a retry of a read may succeed."""
        is_outdated = isinstance(error, KafkaError) and error.code in self._membership.outdated
        return is_outdated or is_passing(error)

    async def fetch(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset | None]:
        """Return the committed offsets, by one request."""
        connection = await self._link.connection()
        reader = (
            self._membership.generation if self._is_consumer_member and self._membership.can_commit else None
        )
        version = connection.versions.choose(
            OffsetFetchRequest,
            min_version=MIN_FETCH_VERSION if reader is None else FIRST_MEMBER_VERSION,
            max_version=LAST_VERSION_BY_NAME,
        )
        request = offset_fetch({self._config.group_id: list(partitions)}, version, reader=reader)
        try:
            return committed_offsets(await connection.request(request, version))
        except Disconnected:
            self._link.forget()
            raise
        except KafkaError as error:
            if error.code in COORDINATOR_MOVED:
                self._link.forget()
            raise


_EXPELLED = frozenset(
    {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH}
)


if TYPE_CHECKING:
    Offsets = Mapping[TopicPartition, CommittedOffset]

    Settled = Callable[[Offsets, KcliError | None], None]


class CommittedPositions:
    """Starts assigned partitions at the offsets that their group has committed.

    One request asks for all new partitions, again after a doubling backoff while errors are retriable.
    `auto.offset.reset` decides about a partition without a committed offset. `ended` is called after each
    look-up, with the error if it is not retriable.
    """

    def __init__(
        self,
        client: Client,
        assigned: AssignedPartitions,
        *,
        commits: GroupCommits,
        ended: Callable[[KcliError | None], None],
    ) -> None:
        self._assigned = assigned
        self._commits = commits
        self._ended = ended
        self._backoff = Backoff.of(client.config)
        self._in_flight = False
        self._not_before = -math.inf

    def start(self, nursery: trio.Nursery) -> float:
        """Start a look-up if one is due; return when the next one is due."""
        if self._in_flight:
            return math.inf
        waiting = self._assigned.in_state(FetchState.INITIALIZING)
        if not waiting:
            return math.inf
        if self._not_before <= trio.current_time():
            self._in_flight = True
            nursery.start_soon(self._look_up, waiting)
            return math.inf
        return self._not_before

    async def _look_up(self, waiting: list[AssignedPartition]) -> None:
        failure: KcliError | None = None
        try:
            found = await self._commits.fetch(state.partition for state in waiting)
        except KcliError as error:
            self._not_before = trio.current_time() + self._backoff.next_delay()
            if not self._commits.passes(error):
                failure = error
        else:
            self._backoff.reset()
            self._not_before = -math.inf
            for state in waiting:
                # A partition that was sought meanwhile has its own position.
                if state.state is FetchState.INITIALIZING:
                    committed = found.get(state.partition)
                    if committed is None:
                        state.reset(self._assigned.reset_strategy)
                    else:
                        state.seek(committed.offset)
                        state.committed = committed.offset
        finally:
            self._in_flight = False
        self._ended(failure)
