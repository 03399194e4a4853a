"""Heartbeat: tells the coordinator that its member lives, and notices when the application does not.

| what happened                                       | what follows                                         |
|-----------------------------------------------------|------------------------------------------------------|
| `heartbeat.interval.ms` over                        | a heartbeat, one at a time                           |
| no answer for `session.timeout.ms`                  | the coordinator is looked up again                   |
| no poll for `max.poll.interval.ms`                  | the member leaves; the next poll finds it has lost   |
| an error that will not pass                         | `failure`, raised by every poll from then on         |

Nothing is sent while JoinGroup is out.

HeartbeatPace: when a member sends heartbeats, whichever protocol it speaks, and when it stops being one.

A member whose application does not poll for `max.poll.interval.ms` leaves its group, so that others get its
partitions; the next poll finds out. Waiting inside a poll is not counted.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from kcli.client.groups.classic_membership import Verdict
from kcli.client.groups.coordinator_link import is_passing
from kcli.client.network.connection import Disconnected
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.heartbeat import HeartbeatRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kcli.client.client import Client
    from kcli.client.config import ConsumerConfig
    from kcli.client.groups.classic_membership import Membership
    from kcli.client.groups.coordinator_link import CoordinatorLink
    from kcli.protocol.messages.heartbeat import HeartbeatResponse


POLL_IS_OVER = "consumer poll timeout has expired"
"""Why a member leaves that is not polled, as Kafka's consumer words it."""


class HeartbeatPace:
    """Calls `beat` whenever `due` says so, a time of trio's clock or None for not now; `leave` after no poll.

    `poll_ends` is when the application must have polled again.
    """

    def __init__(
        self,
        max_poll_interval_ms: int,
        *,
        due: Callable[[], float | None],
        beat: Callable[[], Awaitable[None]],
        leave: Callable[[str], Awaitable[None]],
    ) -> None:
        self.poll_ends = math.inf
        self._max_poll_seconds = max_poll_interval_ms / 1000
        self._due = due
        self._beat = beat
        self._leave = leave
        self._changed = trio.Event()

    def wake(self) -> None:
        """Have `due` asked again."""
        self._changed.set()

    def poll_began(self) -> None:
        """Note that the application is waiting for records, however long."""
        self.poll_ends = math.inf
        self._changed.set()

    def poll_ended(self) -> None:
        """Note that the application is at work."""
        self.poll_ends = trio.current_time() + self._max_poll_seconds
        self._changed.set()

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        while True:
            self._changed = trio.Event()
            due = self._due()
            if due is None:
                await self._changed.wait()
            elif self.poll_ends <= trio.current_time():
                self.poll_ends = math.inf
                await self._leave(POLL_IS_OVER)
            elif due > trio.current_time():
                with trio.move_on_at(min(due, self.poll_ends)):
                    await self._changed.wait()
            else:
                await self._beat()


_FIRST_STATIC_VERSION = 3


class Heartbeat:
    """One member's heartbeats, sent at its `pace`. `tell` is called when poll has something to look at."""

    def __init__(
        self,
        client: Client,
        config: ConsumerConfig,
        *,
        link: CoordinatorLink,
        membership: Membership,
        tell: Callable[[], None],
        leave: Callable[[str], Awaitable[None]],
    ) -> None:
        self.failure: KcliError | None = None
        self._client = client
        self._config = config
        self._link = link
        self._membership = membership
        self._tell = tell
        self._leave = leave
        self._next = math.inf
        self._session_ends = math.inf
        self.pace = HeartbeatPace(
            config.max_poll_interval_ms, due=self._due, beat=self._beat, leave=self._poll_is_over
        )

    def generation_began(self) -> None:
        """Begin to count anew: the member has just been heard."""
        now = trio.current_time()
        self._next = now + self._config.heartbeat_interval_ms / 1000
        self._session_ends = now + self._config.session_timeout_ms / 1000
        self.pace.wake()

    def _due(self) -> float | None:
        sends = self._membership.sends_heartbeats and self.failure is None
        return self._next if sends else None

    async def _poll_is_over(self, why: str) -> None:
        await self._leave(why)
        self._tell()

    async def _beat(self) -> None:
        sent_at = trio.current_time()
        deadline = min(self._session_ends, self.pace.poll_ends)
        try:
            with trio.move_on_at(deadline) as scope:
                verdict = await self._send()
        except KcliError as error:
            if isinstance(error, Disconnected):
                self._link.forget()
            if not is_passing(error):
                self._fail(error)
            verdict = Verdict.LATER
        else:
            if scope.cancelled_caught:
                if self._session_ends <= trio.current_time():
                    self._link.forget()
                    self._session_ends = trio.current_time() + self._config.session_timeout_ms / 1000
                return
        if verdict is Verdict.IGNORE:
            self._next = sent_at + self._config.heartbeat_interval_ms / 1000
            self._session_ends = trio.current_time() + self._config.session_timeout_ms / 1000
        else:
            self._next = trio.current_time() + self._client.config.retry_backoff_ms / 1000

    async def _send(self) -> Verdict:
        connection = await self._link.connection()
        if not self._membership.sends_heartbeats:
            return Verdict.IGNORE  # while the coordinator was looked up, the member went on
        sent = self._membership.generation
        instance_id = self._config.group_instance_id
        version = connection.versions.choose(
            HeartbeatRequest, min_version=_FIRST_STATIC_VERSION if instance_id else 0
        )
        request = HeartbeatRequest(
            group_id=self._config.group_id,
            generation_id=sent.generation_id,
            member_id=sent.member_id,
            group_instance_id=instance_id or None,
        )
        response: HeartbeatResponse = await connection.request(request, version)
        if not response.error_code:
            return Verdict.IGNORE
        code = ErrorCode.of(response.error_code)
        verdict = self._membership.heartbeat_failed(code, sent)
        if verdict is Verdict.LOOK_UP:
            self._link.forget()
        elif verdict is Verdict.FATAL:
            self._fail(
                KafkaError(code, f"cannot stay in group `{self._config.group_id}`: {code.description}")
            )
        self._tell()
        return verdict

    def _fail(self, error: KcliError) -> None:
        self.failure = error
        self._tell()
