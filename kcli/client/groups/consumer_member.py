"""ConsumerMember: a consumer as a member of a KIP-848 group, whose partitions the broker assigns."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import trio

from kcli.client.fetch.subscription_state import SubscriptionMode, SubscriptionPattern, TopicPattern
from kcli.client.groups.classic_membership import GroupMetadata
from kcli.client.groups.consumer_heartbeat import ConsumerHeartbeat, HeartbeatFields
from kcli.client.groups.consumer_membership import ConsumerMembership, ConsumerState
from kcli.client.groups.coordinator_link import LEAVE_SECONDS
from kcli.client.groups.heartbeat import POLL_IS_OVER
from kcli.client.groups.member import Member
from kcli.errors import KcliError
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kcli.protocol.topics import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.client.client import Client
    from kcli.client.config import ConsumerConfig
    from kcli.client.fetch.subscription_state import AssignedPartitions
    from kcli.client.groups.consumer_membership import Partitions
    from kcli.client.groups.member import Callbacks
    from kcli.client.network.metadata import ClusterMetadata

NO_EPOCH = -1


class ConsumerMember(Member):
    """A member of a KIP-848 group.

    `ConsumerHeartbeat` talks to the coordinator in a task; `drive` tells the application. When the
    coordinator assigns other partitions, the missing ones are given up (after a commit, with auto-commit on),
    the rest is taken, and a heartbeat at once reports it: only then another member gets what was given up.
    The other partitions are read all the time. A fenced member has lost all partitions and joins anew.

    Topics are assigned by id. Partitions of a topic whose name the metadata does not have yet wait for it.
    """

    def __init__(
        self, client: Client, config: ConsumerConfig, assigned: AssignedPartitions, callbacks: Callbacks
    ) -> None:
        self.membership = ConsumerMembership(str(uuid.uuid4()))
        super().__init__(client, config, assigned, membership=self.membership, callbacks=callbacks)
        self._fields = HeartbeatFields(config, self.topics)
        self.heartbeat = ConsumerHeartbeat(
            client,
            config,
            link=self._link,
            membership=self.membership,
            fields=self._fields,
            tell=callbacks.tell,
            leave=self._leave_expired,
        )
        self._ids: dict[TopicPartition, bytes] = {}
        """The topic id of each owned partition: a topic created anew has the same name, but another id."""

    @property
    def metadata(self) -> GroupMetadata:
        membership = self.membership
        epoch = membership.epoch if membership.can_commit else NO_EPOCH
        instance_id = self._config.group_instance_id or None
        return GroupMetadata(self._config.group_id, epoch, membership.member_id, instance_id)

    @property
    def is_settled(self) -> bool:
        """Return whether the member has an assignment, or is known to have none yet.

        A joining member may get its first partitions with a later heartbeat, after others gave them up.
        """
        membership = self.membership
        return membership.state is ConsumerState.STABLE and bool(membership.owned or membership.is_quiet)

    def subscribe(self, topics: Iterable[str] | TopicPattern | SubscriptionPattern) -> None:
        is_new = self.topics.mode is SubscriptionMode.NONE
        if isinstance(topics, TopicPattern):
            self.topics.subscribe_pattern(topics, self._client.cluster)
        elif isinstance(topics, SubscriptionPattern):
            self.topics.subscribe_expression(topics.expression)
        else:
            self.topics.subscribe(topics)
            for topic in self.topics.topics:
                self._client.want_topic(topic, pinned=True)
        if is_new and self.topics.mode is not SubscriptionMode.TOPICS:
            self._client.follow_all_topics(True)
        self.heartbeat.wake()

    def _metadata_changed(self, cluster: ClusterMetadata) -> None:
        if not self.topics.is_of_group:
            return
        self.topics.update(cluster)
        self.heartbeat.wake()
        if self.membership.state is ConsumerState.RECONCILING:
            self._tell()

    async def drive(self) -> None:
        if self.heartbeat.failure is not None:
            raise self.heartbeat.failure
        while self.topics.is_of_group:
            match self.membership.state:
                case ConsumerState.UNSUBSCRIBED:
                    await self._join()
                case ConsumerState.FENCED | ConsumerState.STALE:
                    await self._lose()
                    await self._join()
                case ConsumerState.RECONCILING if self._is_resolvable():
                    await self._reconcile()
                    # A cancellation that the shield delayed takes effect here.
                    await trio.lowlevel.checkpoint()
                case _:
                    break
        self.commits.auto_commit()

    async def _join(self) -> None:
        if self.topics.mode is SubscriptionMode.PATTERN:
            # An old snapshot would match too few topics.
            self.topics.update(await self._client.wait_for_all_topics())
        self._note(f"joining group `{self._config.group_id}`")
        self.membership.join()
        self.heartbeat.wake()

    async def _lose(self) -> None:
        self._ids.clear()
        owned = self.assignment.owned
        if owned:
            is_stale = self.membership.state is ConsumerState.STALE
            await self.assignment.lose(owned, why=POLL_IS_OVER if is_stale else "the coordinator fenced it")

    def _is_resolvable(self) -> bool:
        """Return whether there is something to reconcile now; refresh metadata if names are missing."""
        target = self.membership.target or {}
        wanted = self._named(target)
        if sum(map(len, target.values())) == len(wanted):
            return True
        self._client.request_metadata_update()
        return self._ids != wanted

    def _named(self, target: Partitions) -> dict[TopicPartition, bytes]:
        """Return the partitions of a target whose topic names are known."""
        names = {topic_id: topic for (topic, _), topic_id in self._ids.items()}
        names |= {topic.topic_id: name for name, topic in self._client.cluster.topics.items()}
        return {
            TopicPartition(names[topic_id], index): topic_id
            for topic_id, indexes in target.items()
            if topic_id in names
            for index in indexes
        }

    async def _reconcile(self) -> None:
        """Give up and take partitions until the member owns the known part of its target."""
        token = self.membership.token
        wanted = self._named(self.membership.target or {})
        owned, is_first = dict(self._ids), self.membership.owned is None
        revoked = {partition for partition, topic_id in owned.items() if wanted.get(partition) != topic_id}
        added = [partition for partition in sorted(wanted) if owned.get(partition) != wanted[partition]]
        with self.assignment.shielded():
            if revoked:
                if self._config.commits_by_itself:
                    await self.assignment.commit(revoked)
                if token is not self.membership.token:
                    return  # fenced meanwhile: all partitions are lost
                self._ids = {each: topic_id for each, topic_id in owned.items() if each not in revoked}
                await self.assignment.revoke(revoked)
            if token is not self.membership.token:
                return
            self._ids = wanted
            try:
                if revoked or added or is_first:
                    self.assignment.assign(sorted(wanted))
                    await self.assignment.listener.on_assigned(added)
            finally:
                if token is self.membership.token:
                    self._reconciled(wanted)

    def _reconciled(self, owned: dict[TopicPartition, bytes]) -> None:
        by_id: dict[bytes, set[int]] = {}
        for (_, index), topic_id in owned.items():
            by_id.setdefault(topic_id, set()).add(index)
        if self.topics.mode is SubscriptionMode.BROKER:
            self.topics.topics = frozenset(topic for topic, _ in owned)
        self.membership.reconciled({topic_id: frozenset(indexes) for topic_id, indexes in by_id.items()})
        self.commits.restart_auto_commit()
        self.heartbeat.wake()

    async def _leave_expired(self, reason: str) -> None:
        self._note(f"leaving group `{self._config.group_id}`: {reason}")
        await self._leave_group(stale=True)

    @property
    def _may_revoke(self) -> bool:
        return self.membership.can_commit

    async def _leave(self, reason: str) -> None:
        self._ids.clear()
        await self._leave_group(stale=False)

    async def _leave_group(self, *, stale: bool) -> None:
        was_member, node_id = self.membership.sends_heartbeats, self._link.node_id
        last = self._fields.last(self.membership)
        self.membership.leave(stale=stale)
        self._fields.forget()
        if not was_member or node_id is None:
            return
        try:
            with trio.move_on_after(LEAVE_SECONDS):
                connection = await self._link.connection()
                version = connection.versions.choose(ConsumerGroupHeartbeatRequest)
                await connection.request(last, version)
        except KcliError as error:
            self._note(f"the coordinator did not confirm the leaving: {error.message}")
