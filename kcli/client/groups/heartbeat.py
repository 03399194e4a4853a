"""MemberHeartbeat and ClassicHeartbeat: tell the coordinator that a member lives."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from kcli.client.groups.classic_membership import ErrorAction
from kcli.client.groups.coordinator_link import is_passing
from kcli.client.network.connection import Disconnected
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.heartbeat import HeartbeatRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kcli.client.client import Client
    from kcli.client.config import ConsumerConfig
    from kcli.client.groups.classic_membership import ClassicMembership
    from kcli.client.groups.coordinator_link import CoordinatorLink
    from kcli.protocol.messages.heartbeat import HeartbeatResponse


POLL_IS_OVER = "consumer poll timeout has expired"
"""The reason of a member that leaves because it is not polled, in the words of Kafka's consumer."""


class MemberHeartbeat:
    """Sends the heartbeats of one member, of either protocol.

    If the application does not poll for `max.poll.interval.ms`, the member leaves its group, so that others
    get its partitions; the next poll reports it. Time spent inside a poll does not count. Every poll raises
    `failure`. `tell` wakes the poll, `leave` makes the member leave.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        link: CoordinatorLink,
        *,
        tell: Callable[[], None],
        leave: Callable[[str], Awaitable[None]],
    ) -> None:
        self.failure: KcliError | None = None
        self._config = config
        self._link = link
        self._tell = tell
        self._leave = leave
        self._poll_ends = math.inf
        """When the application must have polled again."""
        self._changed = trio.Event()

    def _due(self) -> float | None:
        """Return when the next heartbeat is due, None while none may be sent."""
        raise NotImplementedError

    async def _beat(self) -> None:
        raise NotImplementedError

    def wake(self) -> None:
        """Check again when the next heartbeat is due."""
        self._changed.set()

    def poll_began(self) -> None:
        """Note that the application waits for records, for however long."""
        self._poll_ends = math.inf
        self._changed.set()

    def poll_ended(self) -> None:
        """Note that the application processes records."""
        self._poll_ends = trio.current_time() + self._config.max_poll_interval_ms / 1000
        self._changed.set()

    async def run(self) -> None:
        while True:
            self._changed = trio.Event()
            due = self._due()
            if due is None:
                await self._changed.wait()
            elif self._poll_ends <= trio.current_time():
                self._poll_ends = math.inf
                await self._leave(POLL_IS_OVER)
                self._tell()
            elif due > trio.current_time():
                with trio.move_on_at(min(due, self._poll_ends)):
                    await self._changed.wait()
            else:
                await self._beat()

    def _fail(self, error: KcliError) -> None:
        self.failure = error
        self._tell()


_FIRST_STATIC_VERSION = 3


class ClassicHeartbeat(MemberHeartbeat):
    """The heartbeats of a member of a classic group; none is sent while JoinGroup is out.

    | what happened                      | what follows                                       |
    |------------------------------------|----------------------------------------------------|
    | `heartbeat.interval.ms` over       | a heartbeat, one at a time                         |
    | no response, `session.timeout.ms`  | the coordinator is looked up again                 |
    | an error that is not retriable     | `failure`                                          |
    """

    def __init__(
        self,
        client: Client,
        config: ConsumerConfig,
        *,
        link: CoordinatorLink,
        membership: ClassicMembership,
        tell: Callable[[], None],
        leave: Callable[[str], Awaitable[None]],
    ) -> None:
        super().__init__(config, link, tell=tell, leave=leave)
        self._client = client
        self._membership = membership
        self._next = math.inf
        self._session_ends = math.inf

    def generation_began(self) -> None:
        """Restart the interval and the session: the coordinator has just heard the member."""
        now = trio.current_time()
        self._next = now + self._config.heartbeat_interval_ms / 1000
        self._session_ends = now + self._config.session_timeout_ms / 1000
        self.wake()

    def _due(self) -> float | None:
        sends = self._membership.sends_heartbeats and self.failure is None
        return self._next if sends else None

    async def _beat(self) -> None:
        sent_at = trio.current_time()
        deadline = min(self._session_ends, self._poll_ends)
        try:
            with trio.move_on_at(deadline) as scope:
                action = await self._send()
        except KcliError as error:
            if isinstance(error, Disconnected):
                self._link.forget()
            if not is_passing(error):
                self._fail(error)
            action = ErrorAction.RETRY
        else:
            if scope.cancelled_caught:
                if self._session_ends <= trio.current_time():
                    self._link.forget()
                    self._session_ends = trio.current_time() + self._config.session_timeout_ms / 1000
                return
        if action is ErrorAction.IGNORE:
            self._next = sent_at + self._config.heartbeat_interval_ms / 1000
            self._session_ends = trio.current_time() + self._config.session_timeout_ms / 1000
        else:
            self._next = trio.current_time() + self._client.config.retry_backoff_ms / 1000

    async def _send(self) -> ErrorAction:
        connection = await self._link.connection()
        if not self._membership.sends_heartbeats:
            return ErrorAction.IGNORE  # the membership changed while the coordinator was looked up
        sent = self._membership.generation
        instance_id = self._config.group_instance_id
        minimum = _FIRST_STATIC_VERSION if instance_id else 0
        version = connection.versions.choose(HeartbeatRequest, min_version=minimum)
        request = HeartbeatRequest(
            group_id=self._config.group_id,
            generation_id=sent.generation_id,
            member_id=sent.member_id,
            group_instance_id=instance_id or None,
        )
        response: HeartbeatResponse = await connection.request(request, version)
        if not response.error_code:
            return ErrorAction.IGNORE
        code = ErrorCode.of(response.error_code)
        action = self._membership.heartbeat_failed(code, sent)
        if action is ErrorAction.LOOK_UP:
            self._link.forget()
        elif action is ErrorAction.FATAL:
            why = f"cannot stay in group `{self._config.group_id}`: {code.description}"
            self._fail(KafkaError(code, why))
        self._tell()
        return action
