"""Member: one consumer's part in its group, whichever protocol it speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.client.fetch.subscription_state import SubscriptionMode, TopicSubscription
from kcli.client.groups.coordinator_link import CoordinatorLink
from kcli.client.groups.group_commits import GroupCommits
from kcli.client.groups.rebalance_listener import GroupAssignment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import trio

    from kcli.client.client import Client
    from kcli.client.config import ConsumerConfig
    from kcli.client.fetch.subscription_state import AssignedPartitions, SubscriptionPattern, TopicPattern
    from kcli.client.groups.classic_membership import ClassicMembership, GroupMetadata
    from kcli.client.groups.consumer_membership import ConsumerMembership
    from kcli.client.groups.heartbeat import MemberHeartbeat
    from kcli.client.network.metadata import ClusterMetadata
    from kcli.protocol.topics import TopicPartition


class Callbacks(NamedTuple):
    """The consumer's side of a member: `tell` wakes the poll that waits, `note` and `warn` take lines."""

    tell: Callable[[], None]
    note: Callable[[str], None]
    warn: Callable[[str], None]


class Member:
    """The member behind one consumer. Every poll calls `drive`; `start` runs the tasks beside it."""

    heartbeat: MemberHeartbeat

    def __init__(
        self,
        client: Client,
        config: ConsumerConfig,
        assigned: AssignedPartitions,
        *,
        membership: ClassicMembership | ConsumerMembership,
        callbacks: Callbacks,
    ) -> None:
        self.topics = TopicSubscription(exclude_internal=config.exclude_internal_topics)
        self._client = client
        self._config = config
        self._tell = tell = callbacks.tell
        self._note = callbacks.note
        self._link = CoordinatorLink(client, config.group_id)
        self.commits = GroupCommits(
            client,
            config,
            link=self._link,
            membership=membership,
            topics=self.topics,
            assigned=assigned,
            tell=tell,
        )
        self.assignment = GroupAssignment(
            client, config, assigned=assigned, commits=self.commits, tell=tell, warn=callbacks.warn
        )
        client.cache.listeners.append(self._metadata_changed)

    def start(self, nursery: trio.Nursery) -> None:
        """Start the member's tasks in a nursery that outlives `close`."""
        nursery.start_soon(self.commits.run)
        nursery.start_soon(self.heartbeat.run)

    @property
    def metadata(self) -> GroupMetadata:
        """Return the ids under which the member takes part in its group."""
        raise NotImplementedError

    @property
    def is_settled(self) -> bool:
        """Return whether the member has its assignment and no change of it is known."""
        raise NotImplementedError

    def subscribe(self, topics: Iterable[str] | TopicPattern | SubscriptionPattern) -> None:
        """Read topics, or all topics that a pattern matches."""
        raise NotImplementedError

    async def drive(self) -> None:
        """Do what is due without waiting for other members; raise errors that are not retriable."""
        raise NotImplementedError

    def _metadata_changed(self, cluster: ClusterMetadata) -> None:
        raise NotImplementedError

    @property
    def _may_revoke(self) -> bool:
        """Return whether the partitions are still this member's, so that it can commit them."""
        raise NotImplementedError

    async def _leave(self, reason: str) -> None:
        """Leave the group; tell the coordinator if it may know the member."""
        raise NotImplementedError

    async def _last_commit(self, owned: set[TopicPartition]) -> None:
        """Commit the positions of all partitions before the member leaves."""
        await self.assignment.commit(owned)

    async def unsubscribe(self, reason: str = "the consumer unsubscribed from all topics") -> None:
        """Commit if auto-commit is on, give up all partitions, and leave the group."""
        try:
            owned = self.assignment.owned
            if self._config.commits_by_itself and owned:
                await self._last_commit(owned)
            if not self.topics.is_of_group or not owned:
                return
            if self._may_revoke:
                await self.assignment.revoke(owned)
            else:
                await self.assignment.lose(owned)
        finally:
            was_of_group = self.topics.is_of_group
            if self.topics.mode in (SubscriptionMode.PATTERN, SubscriptionMode.BROKER):
                self._client.follow_all_topics(False)
            self.topics.unsubscribe()
            self.assignment.assign(())
            if was_of_group:
                await self._leave(reason)

    async def close(self) -> None:
        """Wait until every commit has its outcome, then unsubscribe."""
        try:
            await self.commits.settle()
            await self.unsubscribe("the consumer is being closed")
        finally:
            self._link.close()
            if self._metadata_changed in self._client.cache.listeners:
                self._client.cache.listeners.remove(self._metadata_changed)
