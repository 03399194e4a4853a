"""RebalanceListener, the callbacks of an application; GroupAssignment, the assigned partitions."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

from kcli.errors import KcliError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kcli.client.client import Client
    from kcli.client.config import ConsumerConfig
    from kcli.client.fetch.subscription_state import AssignedPartitions
    from kcli.client.groups.group_commits import GroupCommits
    from kcli.protocol.topics import TopicPartition


class RebalanceListener:
    """Callbacks for partitions that the group assigns and takes away; they do nothing here.

    They run inside `poll`, `unsubscribe` and the end of the consumer's block, in the task of the caller. They
    are not cancelled before `max.poll.interval.ms` is over, or `close_seconds` if the whole block is
    cancelled.
    """

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Called with the added partitions, maybe none: seek here to start elsewhere."""

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Called with the partitions to be given up: they can still be committed."""

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Called with partitions that others may read already: nothing can be committed."""
        await self.on_revoked(partitions)


READ_AGAIN = "what it read and did not commit may be read again"


class GroupAssignment:
    """The partitions that a group has assigned to one member.

    Commits and listener calls are shielded from cancellation for as long as the group waits for a member:
    `max.poll.interval.ms`, or less after `hurry`. An error of a listener is raised after the assignment has
    changed. `tell` wakes the poll that waits, `warn` gets a line if records may be read again.
    """

    def __init__(
        self,
        client: Client,
        config: ConsumerConfig,
        *,
        assigned: AssignedPartitions,
        commits: GroupCommits,
        tell: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        self.listener = RebalanceListener()
        self.deadline = math.inf
        """The limit of everything that is shielded."""
        self._scope: trio.CancelScope | None = None
        self._client = client
        self._config = config
        self._assigned = assigned
        self._commits = commits
        self._tell = tell
        self._warn = warn

    @property
    def owned(self) -> set[TopicPartition]:
        return set(self._assigned.partitions)

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Shield the block from cancellation while the group waits for it."""
        deadline = trio.current_time() + self._config.max_poll_interval_ms / 1000
        with trio.CancelScope(shield=True, deadline=min(deadline, self.deadline)) as self._scope:
            yield
        self._scope = None

    def hurry(self, seconds: float) -> None:
        """Limit everything that is shielded, also what is under way, to `seconds`."""
        self.deadline = min(self.deadline, trio.current_time() + seconds)
        if self._scope is not None:
            self._scope.deadline = min(self._scope.deadline, self.deadline)

    async def commit(self, partitions: Iterable[TopicPartition]) -> None:
        """Commit the positions of partitions that are about to be given up."""
        timeout_ms = min(self._config.max_poll_interval_ms, self._client.config.default_api_timeout_ms)
        offsets = self._commits.uncommitted(partitions)
        if not offsets:
            return
        try:
            await self._commits.commit(offsets, timeout_ms=timeout_ms)
        except KcliError as error:
            self._warn(f"offsets are not committed: {error.message}")

    async def revoke(self, partitions: set[TopicPartition]) -> None:
        """Give up partitions that are still owned."""
        try:
            await self.listener.on_revoked(sorted(partitions))
        finally:
            self.assign(one for one in self._assigned.partitions if one not in partitions)

    async def lose(self, partitions: set[TopicPartition], *, why: str | None = None) -> None:
        """Give up partitions that others may own already; `why` is None if the member leaves."""
        if why is not None:
            group = self._config.group_id
            self._warn(f"this member lost its place in group `{group}`: {why}; {READ_AGAIN}")
        try:
            with self.shielded():
                await self.listener.on_lost(sorted(partitions))
        finally:
            self.assign(())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions from now on; those read before keep their positions."""
        self._assigned.assign(partitions)
        for topic in {partition.topic for partition in self._assigned.partitions}:
            self._client.want_topic(topic, pinned=True)
        self._tell()
