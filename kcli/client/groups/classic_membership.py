"""ClassicMembership: the state of a member of a classic group, and what each response changes in it.

| state      | event                             | next                                                      |
|------------|-----------------------------------|-----------------------------------------------------------|
| any        | `joining`                         | PREPARING: JoinGroup is out, no heartbeats                |
| PREPARING  | `joined`                          | COMPLETING: the generation is known, heartbeats begin     |
| COMPLETING | `synced`, in the same generation  | STABLE: no join is wanted                                 |
| any        | `reset`                           | UNJOINED: the generation is lost, maybe the member id too |

Pure. Each request carries the generation it was sent in; an error for an older generation changes nothing.
Kafka classes `AbstractCoordinator` and `ConsumerCoordinator`.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from kcli.client.admin.types import Generation
from kcli.client.client import COORDINATOR_MOVED
from kcli.protocol.error_codes import ErrorCode


class MemberState(Enum):
    """The state of a member between two generations."""

    UNJOINED = "unjoined"
    PREPARING = "preparing"
    COMPLETING = "completing"
    STABLE = "stable"


class ErrorAction(Enum):
    IGNORE = "nothing"
    REJOIN = "join again at once"
    RETRY = "try again after a backoff"
    LOOK_UP = "forget the coordinator, then try again after a backoff"
    FATAL = "raise it"


class GroupMetadata(NamedTuple):
    """The ids under which a consumer takes part in its group; generation -1 outside of it."""

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None


class ClassicMembership:
    """One member's state. `reason` says why it must join, None if it need not."""

    outdated: frozenset[ErrorCode] = frozenset()
    """Errors of OffsetFetch to retry; classic members get none of their own."""

    def __init__(self) -> None:
        self.state = MemberState.UNJOINED
        self.generation = Generation()
        self.reason: str | None = ""
        self.needs_prepare = True
        """Whether partitions must be given up, or declared lost, before the next join."""

    @property
    def is_joining(self) -> bool:
        """Return whether JoinGroup or SyncGroup is out."""
        return self.state in (MemberState.PREPARING, MemberState.COMPLETING)

    @property
    def can_commit(self) -> bool:
        return self.state is MemberState.STABLE

    @property
    def sends_heartbeats(self) -> bool:
        return self.state in (MemberState.COMPLETING, MemberState.STABLE)

    def request_rejoin(self, reason: str) -> None:
        """Join the group again; the first reason is kept."""
        self.reason = self.reason or reason

    def reset(self, reason: str, *, keep_member_id: bool = False) -> None:
        """Drop the generation: the partitions are lost, and the member joins anew."""
        self.state = MemberState.UNJOINED
        self.generation = Generation(member_id=self.generation.member_id if keep_member_id else "")
        self.needs_prepare = True
        self.reason = reason

    def joining(self) -> Generation:
        """Note that JoinGroup is sent; return the generation it is sent in."""
        self.state = MemberState.PREPARING
        return self.generation

    def joined(self, generation: Generation) -> None:
        self.state = MemberState.COMPLETING
        self.generation = generation

    def synced(self, sent: Generation) -> bool:
        """Note the response to SyncGroup; return False if the generation was lost meanwhile."""
        if self.state is not MemberState.COMPLETING or self.generation != sent:
            self.request_rejoin("the generation ended before its assignment came")
            return False
        self.state = MemberState.STABLE
        self.reason = None
        return True

    def join_failed(self, code: ErrorCode, sent: Generation, member_id: str) -> ErrorAction:
        """Handle an error of JoinGroup; `member_id` is that of the response."""
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.generation = Generation(member_id=member_id)
            self.reason = "rejoin with the member id that the coordinator gave"
            return ErrorAction.REJOIN
        return self.sync_failed(code, sent)

    def sync_failed(self, code: ErrorCode, sent: Generation) -> ErrorAction:
        """Handle an error of SyncGroup, or one that JoinGroup shares with it."""
        self.request_rejoin(f"the rebalance failed: {code.name}")
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            return ErrorAction.REJOIN
        if code in _FENCED:
            self._fence(code, sent)
            return ErrorAction.REJOIN
        if code in COORDINATOR_MOVED:
            return ErrorAction.LOOK_UP
        return ErrorAction.RETRY if code.retriable else ErrorAction.FATAL

    def heartbeat_failed(self, code: ErrorCode, sent: Generation) -> ErrorAction:
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            # A member that is joining need not join again.
            if self.state is MemberState.STABLE:
                self.request_rejoin("the group is rebalancing")
            return ErrorAction.IGNORE
        if code in _FENCED:
            self._fence(code, sent)
            return ErrorAction.IGNORE
        if code is ErrorCode.FENCED_INSTANCE_ID and self.generation != sent:
            return ErrorAction.IGNORE
        if code in COORDINATOR_MOVED:
            return ErrorAction.LOOK_UP
        return ErrorAction.FATAL if code in _FATAL else ErrorAction.RETRY

    def commit_failed(self, code: ErrorCode, sent: Generation) -> ErrorAction:
        """Handle an error of a commit; the caller raises FATAL ones."""
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.request_rejoin("a commit was refused, the group is rebalancing")
            return ErrorAction.FATAL
        if code in _FENCED:
            self._fence(code, sent)
            return ErrorAction.FATAL
        if code in COORDINATOR_MOVED or code is ErrorCode.REQUEST_TIMED_OUT:
            return ErrorAction.LOOK_UP
        return ErrorAction.RETRY if code in _COMMIT_RETRIED else ErrorAction.FATAL

    def _fence(self, code: ErrorCode, sent: Generation) -> None:
        if self.generation == sent:
            # A member of an old generation keeps its id.
            self.reset(code.description, keep_member_id=code is ErrorCode.ILLEGAL_GENERATION)


_FENCED = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})
_FATAL = frozenset({ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_AUTHORIZATION_FAILED})
_COMMIT_RETRIED = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
