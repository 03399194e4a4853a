"""MemberTimers: the timers of consumer groups' members, each set once and none left behind.

    ("consumer-session", group id, member id)     ends a member that is silent for its session timeout
    ("consumer-rebalance", group id, member id)   ends one that does not give up partitions in time
    ("consumer-join", group id, member id)        ends one that was told to join again and does not (classic)
    ("consumer-sync", group id, member id)        ends one that joined and does not ask for its partitions

A heartbeat only notes when it came: the timer of a session is set again when it fires too early, or when the
session becomes shorter.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from kcli.broker.coordinator.effects import Cancel, Effect, Schedule

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kcli.broker.coordinator.effects import Now


class Wait(StrEnum):
    """What a timer waits for."""

    SESSION = "consumer-session"
    REBALANCE = "consumer-rebalance"
    JOIN = "consumer-join"
    SYNC = "consumer-sync"


_NEVER = 1 << 62


class _Session:
    """Until when a member is believed to live, and when its timer will fire, if it runs; both monotonic."""

    __slots__ = ("deadline_ms", "timer_ms")

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = self.timer_ms = deadline_ms


class MemberTimers:
    """The timers of all members of a shard's consumer groups."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], _Session] = {}
        self._waits: dict[tuple[Wait, str, str], int] = {}

    # --- sessions ----------------------------------------------------------------------------------

    def hear(self, now: Now, group_id: str, member_id: str, timeout_ms: int) -> list[Effect]:
        """Note that a member lives."""
        deadline_ms = now.ms + timeout_ms
        session = self._sessions.get((group_id, member_id))
        if session is None:
            self._sessions[group_id, member_id] = _Session(deadline_ms)
        else:
            session.deadline_ms = deadline_ms
            if deadline_ms >= session.timer_ms:
                return []
            session.timer_ms = deadline_ms
        return [Schedule((Wait.SESSION, group_id, member_id), timeout_ms)]

    def outlived(self, now: Now, group_id: str, member_id: str) -> list[Effect] | None:
        """Return None if the session whose timer fired is over, else the timer for the rest of it."""
        session = self._sessions.get((group_id, member_id))
        if session is None:
            return []
        if session.deadline_ms <= now.ms:
            session.timer_ms = _NEVER
            return None
        session.timer_ms = session.deadline_ms
        return [Schedule((Wait.SESSION, group_id, member_id), session.deadline_ms - now.ms)]

    # --- waits -------------------------------------------------------------------------------------

    def start(
        self, wait: Wait, group_id: str, member_id: str, delay_ms: int, *, epoch: int = 0
    ) -> list[Effect]:
        """Give a member some time for something it must do in an epoch; instead of any time it had for it."""
        self._waits[wait, group_id, member_id] = epoch
        return [Schedule((wait, group_id, member_id), delay_ms)]

    def start_unless_running(self, wait: Wait, group_id: str, member_id: str, delay_ms: int) -> list[Effect]:
        """Give a member some time for something, unless its time for it runs already."""
        if (wait, group_id, member_id) in self._waits:
            return []
        return self.start(wait, group_id, member_id, delay_ms)

    def stop(self, wait: Wait, group_id: str, member_id: str) -> list[Effect]:
        """Note that a member did what it had time for."""
        if self._waits.pop((wait, group_id, member_id), None) is None:
            return []
        return [Cancel((wait, group_id, member_id))]

    def epoch_of(self, wait: Wait, group_id: str, member_id: str) -> int | None:
        """Return the epoch in which a member got its time, None if none runs."""
        return self._waits.get((wait, group_id, member_id))

    # --- ends --------------------------------------------------------------------------------------

    def forget(self, group_id: str, member_id: str) -> list[Effect]:
        """Forget all timers of a member that is gone."""
        effects: list[Effect] = []
        if self._sessions.pop((group_id, member_id), None) is not None:
            effects.append(Cancel((Wait.SESSION, group_id, member_id)))
        for wait in (Wait.REBALANCE, Wait.JOIN, Wait.SYNC):
            effects += self.stop(wait, group_id, member_id)
        return effects

    def forget_all(self) -> list[Effect]:
        """Forget the timers of everybody."""
        keys: list[Hashable] = [(Wait.SESSION, *key) for key in self._sessions]
        keys += self._waits
        self._sessions.clear()
        self._waits.clear()
        return [Cancel(key) for key in keys]

    def again(self, now: Now, key: tuple[Wait, str, str], delay_ms: int) -> list[Effect]:
        """Let a timer that fired fire once more: what it was for could not be done."""
        wait, group_id, member_id = key
        if wait is not Wait.SESSION:
            return [Schedule(key, delay_ms)] if key in self._waits else []
        session = self._sessions.get((group_id, member_id))
        if session is None or session.timer_ms != _NEVER:
            return []
        session.timer_ms = now.ms + delay_ms
        return [Schedule(key, delay_ms)]
