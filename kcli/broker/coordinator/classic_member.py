"""ClassicMember: one member of a classic group (Kafka class `ClassicGroupMember`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container

    from kcli.broker.coordinator.effects import Token


class MemberProtocol(NamedTuple):
    """An assignor that a member offers. The metadata is the member's own business and stays as it came."""

    name: str
    metadata: bytes


@dataclass(slots=True, eq=False)
class ClassicMember:
    """A member, what it offers, what it waits for and until when it is believed to live.

    `protocols` stand in the order of the member's preference. `awaiting_join` and `awaiting_sync` are its
    parked requests; a parked join also says that it has joined this round. `is_new` until its first join is
    answered: it does not know its id yet and cannot send heartbeats.

    `deadline_ms` (monotonic) is when it counts as failed, `timer_ms` when its timer will fire: a heartbeat
    moves the first alone, and the timer is set again when it fires too early.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]
    assignment: bytes = b""
    awaiting_join: Token | None = None
    awaiting_sync: Token | None = None
    is_new: bool = False
    deadline_ms: int = 0
    timer_ms: int = 0

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return what the member says for a protocol; nothing if it does not offer that."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        return b""

    def vote(self, candidates: Container[str]) -> str | None:
        """Return the candidate that the member likes best, None if it offers none of them."""
        return next((protocol.name for protocol in self.protocols if protocol.name in candidates), None)

    @property
    def is_waiting(self) -> bool:
        """True while the member waits for the group: it cannot be asked for heartbeats then."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)
