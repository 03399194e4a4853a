"""GroupRound: one way from wanting to join to having an assignment: JoinGroup, and then SyncGroup.

It runs in a task of the consumer, so that a poll that is cancelled leaves JoinGroup on its way and the next
poll finds its outcome. Whoever is made the leader assigns in between, by fresh metadata of all the members'
topics. What passes is tried again here. A round whose member loses its generation ends without an outcome:
what it owned is lost, which the application must be told before the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from kcli.client.backoff import Backoff
from kcli.client.connection import Disconnected
from kcli.client.coordinator_link import is_passing
from kcli.client.group_assignment import (
    assign,
    racks_of,
    read_assignment,
    read_members,
    subscription_bytes,
)
from kcli.client.membership import Generation, Verdict
from kcli.client.topic_subscription import partition_counts
from kcli.errors import KcliError
from kcli.protocol.consumer_protocol import PROTOCOL_TYPE
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kcli.client.client import Client
    from kcli.client.config import ConsumerConfig
    from kcli.client.connection import Connection
    from kcli.client.coordinator_link import CoordinatorLink
    from kcli.client.group_assignment import LastAssignment
    from kcli.client.membership import Membership
    from kcli.client.topic_subscription import TopicSubscription
    from kcli.protocol.messages.sync_group import SyncGroupRequestAssignment
    from kcli.protocol.topics import TopicPartition

JOIN_LAPSE_SECONDS = 5.0
"""What a JoinGroup may take beyond the rebalance timeout, for which the coordinator holds it."""

_FIRST_STATIC_JOIN, _FIRST_STATIC_SYNC = 5, 3
_MAX_REASON = 255


class GroupRound:
    """One round. When it is `done`, `assignment` or `error` is the outcome; neither if it is to be redone."""

    def __init__(
        self,
        client: Client,
        config: ConsumerConfig,
        *,
        link: CoordinatorLink,
        membership: Membership,
        topics: TopicSubscription,
        owned: Iterable[TopicPartition],
        last: LastAssignment,
    ) -> None:
        self.assignment: tuple[TopicPartition, ...] | None = None
        self.generation = Generation()
        self.error: KcliError | None = None
        self.done = trio.Event()
        self.scope = trio.CancelScope()
        self._client = client
        self._config = config
        self._link = link
        self._membership = membership
        self._topics = topics
        self._owned = tuple(owned)
        self._last = last

    async def run(self, joined: Callable[[], None], ended: Callable[[], None]) -> None:
        """Go through it; call `joined` when heartbeats are expected and `ended` at the end."""
        try:
            with self.scope:
                await self._until_settled(joined)
        except KcliError as error:
            self.error = error
        finally:
            self.done.set()
            ended()

    async def _until_settled(self, joined: Callable[[], None]) -> None:
        backoff = Backoff(self._client.config.retry_backoff_ms, self._client.config.retry_backoff_max_ms)
        while self.assignment is None and not self._membership.needs_prepare:
            try:
                verdict = await self._attempt(joined)
            except KcliError as error:
                if isinstance(error, Disconnected):
                    self._link.forget()
                if not is_passing(error):
                    raise
                verdict = Verdict.LATER
            if verdict is Verdict.LOOK_UP:
                self._link.forget()
            if verdict in (Verdict.LOOK_UP, Verdict.LATER):
                await trio.sleep(backoff.next_delay())

    async def _attempt(self, joined: Callable[[], None]) -> Verdict:
        connection = await self._link.connection()
        sent = self._membership.joining()
        response = await self._join(connection, sent)
        if response.error_code:
            code = ErrorCode.of(response.error_code)
            verdict = self._membership.join_failed(code, sent, response.member_id)
            return self._judged(verdict, code)
        if response.protocol_type not in (None, PROTOCOL_TYPE):
            raise self._refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        self.generation = Generation(response.generation_id, response.member_id, response.protocol_name)
        self._membership.joined(self.generation)
        joined()
        return await self._sync(connection, await self._assignments(response))

    async def _join(self, connection: Connection, sent: Generation) -> JoinGroupResponse:
        config = self._config
        self._topics.joined = self._topics.topics
        request = JoinGroupRequest(
            group_id=config.group_id,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.max_poll_interval_ms,
            member_id=sent.member_id,
            group_instance_id=config.group_instance_id or None,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(
                    name=strategy.name,
                    metadata=subscription_bytes(
                        strategy,
                        self._topics.topics,
                        owned=self._owned,
                        last=self._last,
                        generation_id=sent.generation_id,
                        rack=config.client_rack,
                        is_cooperative=config.is_cooperative,
                    ),
                )
                for strategy in config.strategies
            ],
            reason=(self._membership.reason or "")[:_MAX_REASON],
        )
        minimum = _FIRST_STATIC_JOIN if config.group_instance_id else 0
        version = connection.versions.choose(JoinGroupRequest, min_version=minimum)
        seconds = max(
            self._client.config.request_timeout_ms / 1000,
            config.max_poll_interval_ms / 1000 + JOIN_LAPSE_SECONDS,
        )
        response: JoinGroupResponse = await connection.request(request, version, seconds=seconds)
        return response

    async def _assignments(self, response: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """Return what the leader hands in; nothing for everybody else."""
        self._topics.watched = None
        if response.leader != response.member_id:
            return []
        members = read_members(response.members)
        topics = sorted({topic for member in members.values() for topic in member.topics})
        for topic in topics:
            self._client.want_topic(topic, pinned=True)
        cluster = await self._client.metadata(topics)
        counts = partition_counts(cluster, topics)
        self._topics.watched = counts
        if response.skip_assignment:
            return []
        strategy = next(each for each in self._config.strategies if each.name == response.protocol_name)
        return assign(strategy, counts, members=members, racks=racks_of(cluster, topics))

    async def _sync(self, connection: Connection, assignments: list[SyncGroupRequestAssignment]) -> Verdict:
        sent = self.generation
        instance_id = self._config.group_instance_id
        request = SyncGroupRequest(
            group_id=self._config.group_id,
            generation_id=sent.generation_id,
            member_id=sent.member_id,
            group_instance_id=instance_id or None,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=sent.protocol,
            assignments=assignments,
        )
        version = connection.versions.choose(
            SyncGroupRequest, min_version=_FIRST_STATIC_SYNC if instance_id else 0
        )
        seconds = self._client.config.request_timeout_ms / 1000
        response: SyncGroupResponse = await connection.request(request, version, seconds=seconds)
        if response.error_code:
            code = ErrorCode.of(response.error_code)
            return self._judged(self._membership.sync_failed(code, sent), code)
        if response.protocol_type not in (None, PROTOCOL_TYPE) or response.protocol_name not in (
            None,
            sent.protocol,
        ):
            raise self._refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        assignment = read_assignment(response.assignment)
        if self._membership.synced(sent):
            self.assignment = assignment
        return Verdict.AT_ONCE

    def _judged(self, verdict: Verdict, code: ErrorCode) -> Verdict:
        if verdict is Verdict.FATAL:
            raise self._refusal(code)
        return verdict

    def _refusal(self, code: ErrorCode) -> KafkaError:
        return KafkaError(
            code, f"cannot join group `{self._config.group_id}`: {code.description}", hint=_HINTS.get(code)
        )


_HINTS = {
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "`partition.assignment.strategy` must name an assignor that all "
    "members have",
    ErrorCode.INVALID_SESSION_TIMEOUT: "the broker allows `group.min.session.timeout.ms` to "
    "`group.max.session.timeout.ms`",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the broker's `group.max.size` limits it",
    ErrorCode.FENCED_INSTANCE_ID: "every member needs a `group.instance.id` of its own",
}
