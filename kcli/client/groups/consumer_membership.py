"""ConsumerMembership: the state of a member of a KIP-848 group, and what each response changes in it.

| state         | event                                   | next                                            |
|---------------|-----------------------------------------|-------------------------------------------------|
| UNSUBSCRIBED  | `join`                                  | JOINING: epoch 0, all fields, heartbeat at once |
| JOINING       | a response                              | STABLE, RECONCILING if it has an assignment     |
| STABLE        | an assignment other than `owned`        | RECONCILING: poll gives up and takes partitions |
| RECONCILING   | `reconciled`                            | ACKNOWLEDGING: reports its partitions at once   |
| ACKNOWLEDGING | its heartbeat is sent                   | STABLE, or RECONCILING if there is more to do   |
| in the group  | FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID  | FENCED: its partitions are lost; then `join`    |
| in the group  | `leave`                                 | UNSUBSCRIBED                                    |
| in the group  | `leave`: the application did not poll   | STALE: as FENCED                                |
| in the group  | an error that is not retriable          | FATAL                                           |

JOINING, RECONCILING, ACKNOWLEDGING and STABLE are in the group: only these send heartbeats. Each membership
has a token, and only the membership that sent a heartbeat takes its response. A reconciliation is finished
even if the target changes meanwhile. The member id is the client's own and stays (KIP-1082). Pure. Kafka
classes `MemberState` and `ConsumerMembershipManager`.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from kcli.client.admin.types import Generation
from kcli.client.client import COORDINATOR_MOVED
from kcli.client.groups.classic_membership import ErrorAction
from kcli.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

    Partitions = Mapping[bytes, frozenset[int]]
    """Partitions by the id of their topic."""

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2


class ConsumerState(Enum):
    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    RECONCILING = "reconciling"
    ACKNOWLEDGING = "acknowledging"
    STABLE = "stable"
    FENCED = "fenced"
    STALE = "stale"
    FATAL = "fatal"


_IN_GROUP = frozenset(
    {ConsumerState.JOINING, ConsumerState.RECONCILING, ConsumerState.ACKNOWLEDGING, ConsumerState.STABLE}
)
_FENCED = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


class ConsumerMembership:
    """One member's state: `owned` is its last finished assignment, `target` the last one it was given."""

    outdated = frozenset({ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
    """Errors of OffsetFetch to retry: the next heartbeat brings the current epoch."""

    def __init__(self, member_id: str) -> None:
        self.state = ConsumerState.UNSUBSCRIBED
        self.member_id = member_id
        self.epoch = JOIN_EPOCH
        self.owned: Partitions | None = None
        self.target: Partitions | None = None
        self.token = object()
        self.is_quiet = False
        """Whether the last heartbeat of a stable member brought nothing new."""

    @property
    def sends_heartbeats(self) -> bool:
        return self.state in _IN_GROUP

    @property
    def is_urgent(self) -> bool:
        """Return whether the next heartbeat is due before its interval is over."""
        return self.state in (ConsumerState.JOINING, ConsumerState.ACKNOWLEDGING)

    @property
    def is_joining(self) -> bool:
        """Return whether the coordinator has not accepted this member yet."""
        return self.state is ConsumerState.JOINING

    @property
    def can_commit(self) -> bool:
        return self.sends_heartbeats and self.epoch > JOIN_EPOCH

    @property
    def generation(self) -> Generation:
        """Return the epoch, which commits carry as the generation, and the member id."""
        return Generation(self.epoch, self.member_id)

    def join(self) -> None:
        """Join anew, without partitions."""
        self._become(ConsumerState.JOINING)

    def reconciled(self, owned: Partitions) -> None:
        self.owned = owned
        self.state = ConsumerState.ACKNOWLEDGING

    def sent(self) -> None:
        """Note that a heartbeat is sent, which reports changed partitions."""
        if self.state is ConsumerState.ACKNOWLEDGING:
            self.state = self._stable_or_reconciling()

    def leave(self, *, stale: bool = False) -> None:
        """Leave; `stale` if the application did not poll and has to learn of it."""
        self._become(ConsumerState.STALE if stale else ConsumerState.UNSUBSCRIBED)

    def fail(self) -> None:
        self._become(ConsumerState.FATAL)

    def _become(self, state: ConsumerState) -> None:
        self.state = state
        self.epoch = JOIN_EPOCH
        self.owned = self.target = None
        self.token = object()
        self.is_quiet = False

    def answered(self, response: ConsumerGroupHeartbeatResponse, token: object, *, was_stable: bool) -> None:
        """Apply the response to a heartbeat of the membership with this token."""
        if token is not self.token:
            return
        self.member_id = response.member_id or self.member_id
        self.is_quiet = was_stable and response.assignment is None and response.member_epoch == self.epoch
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.target = {
                entry.topic_id: frozenset(entry.partitions)
                for entry in response.assignment.topic_partitions
                if entry.partitions
            }
        if self.state in (ConsumerState.JOINING, ConsumerState.STABLE):
            self.state = self._stable_or_reconciling()

    def _stable_or_reconciling(self) -> ConsumerState:
        return ConsumerState.STABLE if self.owned == self.target else ConsumerState.RECONCILING

    def refused(self, code: ErrorCode, token: object) -> ErrorAction:
        """Handle an error of a heartbeat; the caller raises FATAL ones."""
        if token is not self.token:
            return ErrorAction.IGNORE
        if code in _FENCED:
            self._become(ConsumerState.FENCED)
            return ErrorAction.IGNORE
        if code in COORDINATOR_MOVED:
            return ErrorAction.LOOK_UP
        return ErrorAction.RETRY if code.retriable else ErrorAction.FATAL

    def commit_failed(self, code: ErrorCode, sent: Generation) -> ErrorAction:
        """Handle an error of a commit; the caller raises FATAL ones."""
        if code in _FENCED:
            if sent == self.generation and self.sends_heartbeats:
                self._become(ConsumerState.FENCED)
            return ErrorAction.FATAL
        if code in COORDINATOR_MOVED or code is ErrorCode.REQUEST_TIMED_OUT:
            return ErrorAction.LOOK_UP
        return ErrorAction.RETRY if code in _COMMIT_RETRIED else ErrorAction.FATAL


_COMMIT_RETRIED = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
