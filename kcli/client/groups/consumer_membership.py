"""ConsumerMembership: where a member of a KIP-848 group stands, and what each answer makes of it.

| state         | event                                   | next                                            |
|---------------|-----------------------------------------|-------------------------------------------------|
| UNSUBSCRIBED  | `join`                                  | JOINING: epoch 0, all fields, heartbeat at once |
| JOINING       | an answer                               | STABLE, RECONCILING if there is an assignment   |
| STABLE        | an assignment that is not what is owned | RECONCILING: poll gives up and takes partitions |
| RECONCILING   | `reconciled`                            | ACKNOWLEDGING: says what it owns, at once       |
| ACKNOWLEDGING | its heartbeat goes out                  | STABLE, or RECONCILING if there is more to do   |
| in the group  | FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID  | FENCED: what it owned is lost; then `join`      |
| in the group  | `leave`                                 | UNSUBSCRIBED                                    |
| in the group  | `leave`: the application did not poll   | STALE: as FENCED                                |
| in the group  | an error that will not pass             | FATAL                                           |

In the group are JOINING, RECONCILING, ACKNOWLEDGING and STABLE: heartbeats are sent in these alone. Each has
a token: an answer is taken only by the membership that asked. What is being reconciled is finished, even if
the target is another one by then. The member id is the client's own and stays (KIP-1082). Pure. Kafka
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
    """Where a member is between being none and having what it is to have."""

    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    RECONCILING = "reconciling"
    ACKNOWLEDGING = "acknowledging"
    STABLE = "stable"
    FENCED = "fenced"
    STALE = "stale"
    FATAL = "fatal"


_IN_GROUP = frozenset(
    {
        ConsumerState.JOINING,
        ConsumerState.RECONCILING,
        ConsumerState.ACKNOWLEDGING,
        ConsumerState.STABLE,
    }
)
_FENCED = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


class ConsumerMembership:
    """One member's state. `owned` is what it last finished to take, `target` what it was last given."""

    outdated = frozenset({ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
    """Errors of reading offsets that a retry may mend: the next heartbeat tells where the member stands."""

    def __init__(self, member_id: str) -> None:
        self.state = ConsumerState.UNSUBSCRIBED
        self.member_id = member_id
        self.epoch = JOIN_EPOCH
        self.owned: Partitions | None = None
        self.target: Partitions | None = None
        self.token = object()
        self.is_quiet = False
        """Whether a heartbeat of a stable member has brought nothing new since the last that did."""

    @property
    def sends_heartbeats(self) -> bool:
        """Return whether the coordinator expects to hear of this member."""
        return self.state in _IN_GROUP

    @property
    def is_urgent(self) -> bool:
        """Return whether the next heartbeat is due before its interval is over."""
        return self.state in (ConsumerState.JOINING, ConsumerState.ACKNOWLEDGING)

    @property
    def is_joining(self) -> bool:
        """Return whether the coordinator has yet to say that this is a member."""
        return self.state is ConsumerState.JOINING

    @property
    def can_commit(self) -> bool:
        """Return whether the coordinator takes commits of this member."""
        return self.sends_heartbeats and self.epoch > JOIN_EPOCH

    @property
    def generation(self) -> Generation:
        """Return the epoch, as commits carry it in the place of a generation, and as whom."""
        return Generation(self.epoch, self.member_id)

    # --- of its own accord -----------------------------------------------------------------------------

    def join(self) -> None:
        """Begin anew, without any partitions."""
        self._become(ConsumerState.JOINING)

    def reconciled(self, owned: Partitions) -> None:
        """Note what is owned after giving up and taking partitions."""
        self.owned = owned
        self.state = ConsumerState.ACKNOWLEDGING

    def sent(self) -> None:
        """Note that a heartbeat goes out, which says what is owned if that has changed."""
        if self.state is ConsumerState.ACKNOWLEDGING:
            self.state = self._where_it_is()

    def leave(self, *, stale: bool = False) -> None:
        """Be no member any more; `stale` if the application did not poll and has yet to hear of it."""
        self._become(ConsumerState.STALE if stale else ConsumerState.UNSUBSCRIBED)

    def fail(self) -> None:
        """Note an error that will not pass."""
        self._become(ConsumerState.FATAL)

    def _become(self, state: ConsumerState) -> None:
        self.state = state
        self.epoch = JOIN_EPOCH
        self.owned = self.target = None
        self.token = object()
        self.is_quiet = False

    # --- what the coordinator says ---------------------------------------------------------------------

    def answered(self, response: ConsumerGroupHeartbeatResponse, token: object, *, was_stable: bool) -> None:
        """Take the answer to a heartbeat of the membership that had this token."""
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
            self.state = self._where_it_is()

    def _where_it_is(self) -> ConsumerState:
        return ConsumerState.STABLE if self.owned == self.target else ConsumerState.RECONCILING

    def refused(self, code: ErrorCode, token: object) -> ErrorAction:
        """Judge an error that answers a heartbeat; FATAL ones are for the caller."""
        if token is not self.token:
            return ErrorAction.IGNORE
        if code in _FENCED:
            self._become(ConsumerState.FENCED)
            return ErrorAction.IGNORE
        if code in COORDINATOR_MOVED:
            return ErrorAction.LOOK_UP
        return ErrorAction.RETRY if code.retriable else ErrorAction.FATAL

    def commit_failed(self, code: ErrorCode, sent: Generation) -> ErrorAction:
        """Judge an error that answers a commit of this member; FATAL ones are for the caller."""
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
