"""ClassicMember: a consumer as a member of a classic group: joining, partitions, leaving."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from kcli.client.fetch.subscription_state import SubscriptionMode, SubscriptionPattern, TopicPattern
from kcli.client.groups.classic_join import ClassicJoin, LastAssignment
from kcli.client.groups.classic_membership import ClassicMembership, GroupMetadata, MemberState
from kcli.client.groups.coordinator_link import LEAVE_SECONDS
from kcli.client.groups.heartbeat import ClassicHeartbeat
from kcli.client.groups.member import Member
from kcli.errors import KcliError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.client.client import Client
    from kcli.client.config import ConsumerConfig
    from kcli.client.fetch.subscription_state import AssignedPartitions
    from kcli.client.groups.member import Callbacks
    from kcli.client.network.metadata import ClusterMetadata
    from kcli.protocol.topics import TopicPartition

JOIN_SECONDS = 2.0
"""How long a closing member waits for a join to end, to commit in its generation."""


class ClassicMember(Member):
    """A member of a classic group, whose leader assigns.

    `drive` never waits for other members: a join runs beside it, and the kept partitions go on being read. In
    order: the application learns which partitions it must give up (after a commit, with auto-commit on), the
    join runs, the application learns which partitions it got. An eager member gives up all partitions. A
    cooperative one gives up only those that the assignment no longer holds, and joins again at once, so that
    another member gets them (KIP-429).
    """

    def __init__(
        self, client: Client, config: ConsumerConfig, assigned: AssignedPartitions, callbacks: Callbacks
    ) -> None:
        self.membership = ClassicMembership()
        super().__init__(client, config, assigned, membership=self.membership, callbacks=callbacks)
        self._assigned = assigned
        self.heartbeat: ClassicHeartbeat = ClassicHeartbeat(
            client,
            config,
            link=self._link,
            membership=self.membership,
            tell=callbacks.tell,
            leave=self._leave_expired,
        )
        self._nursery: trio.Nursery | None = None
        self._join: ClassicJoin | None = None
        self._last = LastAssignment()

    def start(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        super().start(nursery)

    @property
    def metadata(self) -> GroupMetadata:
        generation, config = self.membership.generation, self._config
        instance_id = config.group_instance_id or None
        return GroupMetadata(config.group_id, generation.generation_id, generation.member_id, instance_id)

    @property
    def is_settled(self) -> bool:
        return self.membership.state is MemberState.STABLE and self.membership.reason is None

    def subscribe(self, topics: Iterable[str] | TopicPattern | SubscriptionPattern) -> None:
        if isinstance(topics, SubscriptionPattern):
            raise KcliError(
                "the broker matches topics only for members of the consumer protocol",
                hint="set `group.protocol` to consumer",
            )
        if isinstance(topics, TopicPattern):
            if self.topics.mode is not SubscriptionMode.PATTERN:
                self.topics.become(SubscriptionMode.PATTERN)
                self._client.follow_all_topics(True)
            self.topics.subscribe_pattern(topics, self._client.cluster)
            return
        self.topics.subscribe(topics)
        for topic in self.topics.topics:
            self._client.want_topic(topic, pinned=True)

    def _metadata_changed(self, cluster: ClusterMetadata) -> None:
        if not self.topics.is_of_group:
            return
        self.topics.update(cluster)
        if any(topic in cluster.errors for topic in self.topics.topics):
            self._client.request_metadata_update()  # it may be about to be created
        if self.topics.change(cluster) is not None:
            self._tell()

    async def drive(self) -> None:
        if self.heartbeat.failure is not None:
            raise self.heartbeat.failure
        while self.topics.is_of_group:
            if self._join is not None:
                if not self._join.done.is_set():
                    break
                await self._finish(self._join)
            change = self.topics.change(self._client.cluster)
            if change is not None:
                self.membership.request_rejoin(change)
            if self.membership.reason is None:
                break
            await self._begin()
        self.commits.auto_commit()

    async def _begin(self) -> None:
        if self.topics.mode is SubscriptionMode.PATTERN:
            # An old snapshot would soon need another join.
            self.topics.update(await self._client.wait_for_all_topics())
        if self.membership.needs_prepare:
            self.membership.needs_prepare = False
            await self._give_up()
        if self.membership.reason:
            self._note(f"joining group `{self._config.group_id}`: {self.membership.reason}")
        self._join = ClassicJoin(
            self._client,
            self._config,
            link=self._link,
            membership=self.membership,
            topics=self.topics,
            owned=self._assigned.partitions,
            last=self._last,
        )
        assert self._nursery is not None
        self._nursery.start_soon(self._join.run, self.heartbeat.generation_began, self._tell)

    async def _give_up(self) -> None:
        """Tell the application which partitions it loses by joining."""
        owned = self.assignment.owned
        if not self.membership.generation.is_known:
            if owned:
                await self.assignment.lose(owned, why=self.membership.reason)
            return
        dropped = owned
        if self._config.is_cooperative:
            dropped = {one for one in owned if one.topic not in self.topics.topics}
        with self.assignment.shielded():
            if self._config.commits_by_itself and owned:
                await self.assignment.commit(owned)
            if dropped or not self._config.is_cooperative:
                await self.assignment.revoke(dropped)

    async def _finish(self, finished: ClassicJoin) -> None:
        self._join = None
        if finished.error is not None:
            raise finished.error
        assignment = finished.assignment
        if assignment is None or self.membership.generation != finished.generation:
            return  # the generation is lost already
        self.membership.needs_prepare = True
        if not all(self.topics.accepts(topic) for topic, _ in assignment):
            self.membership.request_rejoin("the assignment holds topics that are not subscribed")
            return
        self._last = LastAssignment(assignment, finished.generation.generation_id)
        if self.topics.mode is SubscriptionMode.PATTERN:
            self.topics.topics |= {topic for topic, _ in assignment}
            self.topics.joined = self.topics.topics
        with self.assignment.shielded():
            await self._take(assignment)

    async def _take(self, assignment: tuple[TopicPartition, ...]) -> None:
        owned = self.assignment.owned
        revoked = owned.difference(assignment)
        added = sorted(set(assignment) - owned)
        try:
            if revoked:
                self.membership.request_rejoin("partitions were given up for other members")
                if self._config.commits_by_itself:
                    await self.assignment.commit(revoked)
                await self.assignment.revoke(revoked)
        finally:
            self.assignment.assign(assignment)
            self.commits.restart_auto_commit()
            await self.assignment.listener.on_assigned(added)

    async def _leave_expired(self, reason: str) -> None:
        with trio.move_on_after(LEAVE_SECONDS):
            await self._leave(reason)

    @property
    def _may_revoke(self) -> bool:
        return self.membership.generation.is_known and not self.membership.is_joining

    async def _leave(self, reason: str) -> None:
        """Leave the group, unless the member is static: it may return within its session."""
        if self._join is not None:
            self._join.scope.cancel()
            self._join = None
        generation, node_id = self.membership.generation, self._link.node_id
        self.membership.reset(reason)
        # A JoinGroup that waits would delay the next requests on its connection.
        self._link.close()
        if generation.member_id and node_id is not None and not self._config.group_instance_id:
            try:
                await self._link.leave(generation.member_id, reason)
            except KcliError as error:
                self._note(f"the coordinator did not confirm the leaving: {error.message}")

    async def _last_commit(self, owned: set[TopicPartition]) -> None:
        """Commit in the generation that still counts, if a join is under way."""
        current = self._join
        if current is not None and not current.done.is_set() and self.membership.generation.is_known:
            if self.membership.state is MemberState.PREPARING:
                # If that fails, the next generation is another chance to commit.
                with suppress(KcliError):
                    if await self.commits.commit_aside(self.commits.positions(owned)):
                        return
            # The group has all its members, so the join ends soon.
            with trio.move_on_after(JOIN_SECONDS):
                await current.done.wait()
        await self.assignment.commit(owned)
