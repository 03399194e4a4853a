"""Heartbeats: which brokers are alive, by what they say and by their silence (KIP-631, KIP-841).

What stands here is not in the log: when each broker was heard of, how far it has applied the metadata, and
at which offset its controlled shutdown is done. A controller that takes office knows none of it, so every
session begins anew with it.

With each heartbeat a broker goes from one state to the next (`next_broker_state`, class
`BrokerHeartbeatManager`); the log says whether it is fenced, and the session whether it is leaving.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from kcli.broker.controller.cluster_control import (
    begin_controlled_shutdown,
    current_broker,
    fence_broker,
    unfence_broker,
)
from kcli.broker.controller.result import ControllerResult

if TYPE_CHECKING:
    from kcli.broker.controller.partition_change import PartitionDecisions
    from kcli.broker.metadata.metadata_image import BrokerRegistration, MetadataImage

_EVERYTHING = 2**63 - 1


class BrokerState(Enum):
    """What a broker is to the controller."""

    FENCED = "leads nothing and is in sync with nothing new"
    UNFENCED = "may lead"
    CONTROLLED_SHUTDOWN = "hands over what it leads, and goes when everyone knows"
    SHUTDOWN_NOW = "may go"


_FENCED_STATES = {BrokerState.FENCED, BrokerState.SHUTDOWN_NOW}


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a broker tells: the last metadata offset that it has applied, and what it would like."""

    node_id: int
    epoch: int
    applied_offset: int
    want_fence: bool = False
    want_shutdown: bool = False


@dataclass(frozen=True, slots=True)
class BrokerHeartbeatReply:
    """What a broker is told: a fenced one serves nobody, one that should shut down may stop at once."""

    is_caught_up: bool
    is_fenced: bool
    in_controlled_shutdown: bool = False
    should_shut_down: bool = False

    @classmethod
    def to(cls, state: BrokerState, *, is_caught_up: bool) -> BrokerHeartbeatReply:
        """Return what a broker in a state is told."""
        return cls(
            is_caught_up=is_caught_up,
            is_fenced=state in _FENCED_STATES,
            in_controlled_shutdown=state is BrokerState.CONTROLLED_SHUTDOWN,
            should_shut_down=state is BrokerState.SHUTDOWN_NOW,
        )


def next_broker_state(
    state: BrokerState, heartbeat: Heartbeat, *, is_caught_up: bool, leads: bool, is_relieved: bool
) -> BrokerState:
    """Return the state after a heartbeat.

    `is_caught_up`: it has applied its own registration. `is_relieved`: every active broker has applied what
    took its leaderships away.
    """
    match state:
        case BrokerState.FENCED if heartbeat.want_shutdown:
            return BrokerState.SHUTDOWN_NOW
        case BrokerState.FENCED if is_caught_up and not heartbeat.want_fence:
            return BrokerState.UNFENCED
        case BrokerState.UNFENCED if heartbeat.want_fence:
            return BrokerState.SHUTDOWN_NOW if heartbeat.want_shutdown else BrokerState.FENCED
        case BrokerState.UNFENCED if heartbeat.want_shutdown:
            return BrokerState.CONTROLLED_SHUTDOWN if leads else BrokerState.SHUTDOWN_NOW
        case BrokerState.CONTROLLED_SHUTDOWN if is_relieved and not leads:
            return BrokerState.SHUTDOWN_NOW
        case _:
            return state


@dataclass(slots=True)
class Session:
    """What the controller knows of a broker by hearing it; `level_ms` is when it last lacked nothing."""

    heard_ms: int
    level_ms: int | None = None
    applied_offset: int = -1
    shutdown_offset: int = -1
    """The offset whose application by all ends the controlled shutdown, -1 outside of one."""
    is_confirmed: bool = False
    """Whether the broker itself was heard, and not only assumed to be there."""


@dataclass(slots=True)
class Sessions:
    """The sessions of brokers, begun when they are first heard of."""

    _by_node: dict[int, Session] = field(default_factory=dict)

    def heard(self, node_id: int, *, applied_offset: int, is_level: bool, now_ms: int) -> None:
        """Note that a broker lives, how far it is, and whether that is all there is."""
        session = self._by_node.setdefault(node_id, Session(now_ms))
        session.heard_ms, session.applied_offset, session.is_confirmed = now_ms, applied_offset, True
        if is_level:
            session.level_ms = now_ms

    def last_seen(self, node_id: int) -> Session | None:
        """Return what is known of a broker that was itself heard of."""
        session = self._by_node.get(node_id)
        return session if session is not None and session.is_confirmed else None

    def assume(self, image: MetadataImage, *, now_ms: int) -> None:
        """Begin a session for every broker that may lead and was never heard of, so that it can end."""
        for broker in image.brokers.values():
            if not broker.fenced and broker.node_id not in self._by_node:
                self._by_node[broker.node_id] = Session(now_ms)

    def forget(self, node_id: int) -> None:
        """Let go of a broker: it begins anew, or is not registered any more."""
        self._by_node.pop(node_id, None)

    def fenced(self, node_id: int) -> None:
        """Note that a broker is fenced, which ends a controlled shutdown."""
        if node_id in self._by_node:
            self._by_node[node_id].shutdown_offset = -1

    def stale(self, image: MetadataImage, *, now_ms: int, timeout_ms: int) -> int | None:
        """Return the broker that may lead and has been silent for longest, if that is too long."""
        silent = [
            (session.heard_ms, node_id)
            for node_id, session in self._by_node.items()
            if session.heard_ms + timeout_ms < now_ms
            and node_id in image.brokers
            and not image.brokers[node_id].fenced
        ]
        return min(silent)[1] if silent else None

    def first_end(self, image: MetadataImage, *, timeout_ms: int) -> int | None:
        """Return when the first broker becomes stale of those that may lead, if none is heard of before."""
        heard = [
            session.heard_ms
            for node_id, session in self._by_node.items()
            if node_id in image.brokers and not image.brokers[node_id].fenced
        ]
        return min(heard) + timeout_ms + 1 if heard else None

    def state(self, broker: BrokerRegistration) -> BrokerState:
        """Return what a broker is now."""
        session = self._by_node.get(broker.node_id)
        if session is not None and session.shutdown_offset >= 0:
            return BrokerState.CONTROLLED_SHUTDOWN
        return BrokerState.FENCED if broker.fenced else BrokerState.UNFENCED

    def became(self, node_id: int, state: BrokerState, *, end_offset: int) -> None:
        """Note what a broker that was heard is now.

        Where the log ended when it had handed over ends its shutdown; the first such offset stands.
        """
        if state in _FENCED_STATES:
            self.fenced(node_id)
        elif state is BrokerState.CONTROLLED_SHUTDOWN and self._by_node[node_id].shutdown_offset < 0:
            self._by_node[node_id].shutdown_offset = end_offset

    def is_relieved(self, node_id: int, image: MetadataImage) -> bool:
        """True if every active broker has applied what took a leaving broker's leaderships away."""
        session = self._by_node.get(node_id)
        applied = min(
            (
                other.applied_offset
                for other_id, other in self._by_node.items()
                if image.broker_is_active(other_id) and other.shutdown_offset < 0
            ),
            default=_EVERYTHING,
        )
        return session is not None and session.shutdown_offset <= applied


def decide(
    sessions: Sessions, decisions: PartitionDecisions, heartbeat: Heartbeat
) -> ControllerResult[BrokerState]:
    """Decide what a broker is after a heartbeat; raise `KafkaError` if it is not registered as it says."""
    node_id, epoch = heartbeat.node_id, heartbeat.epoch
    broker = current_broker(decisions.image, node_id, epoch)
    state = sessions.state(broker)
    if broker.fenced and broker.in_controlled_shutdown:
        # It began to stop and was cut short: only a new registration brings it back.
        heartbeat = replace(heartbeat, want_shutdown=True)
    following = next_broker_state(
        state,
        heartbeat,
        is_caught_up=heartbeat.applied_offset >= broker.epoch,
        leads=heartbeat.want_shutdown and decisions.leads_any(node_id),
        is_relieved=sessions.is_relieved(node_id, decisions.image),
    )
    if following is state:
        return ControllerResult((), following)
    match following:
        case BrokerState.UNFENCED:
            result = unfence_broker(decisions, node_id=node_id, epoch=epoch)
        case BrokerState.CONTROLLED_SHUTDOWN:
            result = begin_controlled_shutdown(decisions, node_id=node_id, epoch=epoch)
        case _:
            result = fence_broker(decisions, node_id=node_id, epoch=epoch)
    return ControllerResult(result.records, following)
