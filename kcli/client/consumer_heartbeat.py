"""ConsumerHeartbeat: what a member of a KIP-848 group and its coordinator tell each other, in turn.

| what happened                              | what follows                                        |
|--------------------------------------------|-----------------------------------------------------|
| the member joins, or has finished to       | a heartbeat at once                                 |
| reconcile, or its subscription has changed |                                                     |
| the interval that the coordinator gave     | a heartbeat, one at a time                          |
| no answer, or one that says "later"        | all of it again after a backoff, maybe elsewhere    |
| no poll for `max.poll.interval.ms`         | the member leaves; the next poll finds it has lost  |
| an error that will not pass                | `failure`, raised by every poll from then on        |
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from kcli.client.backoff import Backoff
from kcli.client.connection import Disconnected
from kcli.client.consumer_membership import ConsumerState
from kcli.client.coordinator_link import is_passing
from kcli.client.heartbeat_fields import says_nothing
from kcli.client.heartbeat_pace import HeartbeatPace
from kcli.client.membership import Verdict
from kcli.client.versions import UnsupportedVersion
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kcli.client.client import Client
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_membership import ConsumerMembership
    from kcli.client.coordinator_link import CoordinatorLink
    from kcli.client.heartbeat_fields import HeartbeatFields
    from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse


class ConsumerHeartbeat:
    """One member's heartbeats, sent at its `pace`. `tell` is called when poll has something to look at."""

    def __init__(
        self,
        client: Client,
        config: ConsumerConfig,
        *,
        link: CoordinatorLink,
        membership: ConsumerMembership,
        fields: HeartbeatFields,
        tell: Callable[[], None],
        leave: Callable[[str], Awaitable[None]],
    ) -> None:
        self.failure: KcliError | None = None
        self._config = config
        self._link = link
        self._membership = membership
        self._fields = fields
        self._tell = tell
        self._leave = leave
        self._backoff = Backoff(client.config.retry_backoff_ms, client.config.retry_backoff_max_ms)
        self._next = -math.inf
        self._not_before = -math.inf
        self.pace = HeartbeatPace(
            config.max_poll_interval_ms, due=self._due, beat=self._beat, leave=self._poll_is_over
        )

    def _due(self) -> float | None:
        if not self._membership.sends_heartbeats or self.failure is not None:
            return None
        is_urgent = self._membership.is_urgent or self._fields.has_news
        return self._not_before if is_urgent else max(self._next, self._not_before)

    async def _poll_is_over(self, why: str) -> None:
        await self._leave(why)
        self._tell()

    async def _beat(self) -> None:
        verdict = Verdict.LATER
        token = self._membership.token
        try:
            with trio.move_on_at(self.pace.poll_ends):
                verdict = await self._send(token)
        except KcliError as error:
            if isinstance(error, Disconnected):
                self._link.forget()
            if not is_passing(error):
                self._fail(self._explained(error))
                return
        if verdict is Verdict.IGNORE:
            self._backoff.reset()
            self._not_before = -math.inf
        else:
            self._fields.forget()
            if verdict is Verdict.LOOK_UP:
                self._link.forget()
            self._not_before = self._next = trio.current_time() + self._backoff.next_delay()

    async def _send(self, token: object) -> Verdict:
        connection = await self._link.connection()
        if token is not self._membership.token:
            return Verdict.IGNORE  # while the coordinator was looked up, the member went on
        version = connection.versions.choose(
            ConsumerGroupHeartbeatRequest, min_version=self._fields.min_version
        )
        sent_at = trio.current_time()
        was_stable = self._membership.state is ConsumerState.STABLE
        request = self._fields.next(self._membership)
        self._membership.sent()
        response: ConsumerGroupHeartbeatResponse = await connection.request(request, version)
        if response.error_code:
            return self._refused(response, token)
        self._next = sent_at + response.heartbeat_interval_ms / 1000
        self._membership.answered(response, token, was_stable=was_stable and says_nothing(request))
        self._tell()
        return Verdict.IGNORE

    def _refused(self, response: ConsumerGroupHeartbeatResponse, token: object) -> Verdict:
        code = ErrorCode.of(response.error_code)
        verdict = self._membership.refused(code, token)
        if verdict is Verdict.FATAL:
            raise self._refusal(code, response.error_message)
        self._tell()
        return verdict

    def _refusal(self, code: ErrorCode, why: str | None) -> KafkaError:
        what = "join" if self._membership.is_joining else "stay in"
        return KafkaError(
            code,
            f"cannot {what} group `{self._config.group_id}`: {why or code.description}",
            hint=_HINTS.get(code),
        )

    def _explained(self, error: KcliError) -> KcliError:
        if isinstance(error, UnsupportedVersion):
            return UnsupportedVersion(error.message, hint=_HINTS[ErrorCode.UNSUPPORTED_VERSION])
        return error

    def _fail(self, error: KcliError) -> None:
        self.failure = error
        self._membership.fail()
        self._tell()


_HINTS = {
    ErrorCode.UNSUPPORTED_VERSION: "`group.protocol` classic is what older brokers speak, and those where "
    "`group.version` is 0",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "`group.remote.assignor` must be one of the broker's "
    "`group.consumer.assignors`",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the broker's `group.consumer.max.size` limits it",
    ErrorCode.UNRELEASED_INSTANCE_ID: "every member needs a `group.instance.id` of its own",
    ErrorCode.FENCED_INSTANCE_ID: "every member needs a `group.instance.id` of its own",
    ErrorCode.GROUP_ID_NOT_FOUND: "a group of classic members that cannot change over is joined with "
    "`group.protocol` classic",
}
