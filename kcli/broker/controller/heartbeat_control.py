"""Broker sessions: which brokers are alive (KIP-631, KIP-841, class `BrokerHeartbeatManager`).

Sessions are not in the log: the time of the last heartbeat, the applied metadata offset, the offset at which
a controlled shutdown is done. With a new controller every session begins anew. Each heartbeat moves a broker
to its next state (`next_broker_state`): the log says whether it is fenced, the session whether it shuts down.
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
    """The state of a broker for the controller."""

    FENCED = "leads nothing and is in sync with nothing new"
    UNFENCED = "may lead"
    CONTROLLED_SHUTDOWN = "hands over its partitions, and stops when all active brokers know"
    SHUTDOWN_NOW = "may stop"


_FENCED_STATES = {BrokerState.FENCED, BrokerState.SHUTDOWN_NOW}


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A broker's heartbeat, with the last metadata offset that it has applied."""

    node_id: int
    epoch: int
    applied_offset: int
    want_fence: bool = False
    want_shutdown: bool = False


@dataclass(frozen=True, slots=True)
class BrokerHeartbeatReply:
    """The answer to a heartbeat: a fenced broker serves nothing, one that should shut down may stop now."""

    is_caught_up: bool
    is_fenced: bool
    in_controlled_shutdown: bool = False
    should_shut_down: bool = False

    @classmethod
    def to(cls, state: BrokerState, *, is_caught_up: bool) -> BrokerHeartbeatReply:
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

    `is_caught_up`: the broker has applied its own registration. `is_relieved`: every active broker has
    applied the loss of its leaderships.
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
    """The session of one broker. `level_ms` is when it last had all metadata."""

    heard_ms: int
    level_ms: int | None = None
    applied_offset: int = -1
    shutdown_offset: int = -1
    """The controlled shutdown ends when all brokers have applied this offset; -1 outside of one."""
    is_confirmed: bool = False
    """Whether a heartbeat came, and the session is not only assumed."""


@dataclass(slots=True)
class Sessions:
    """The sessions of brokers, begun with their first heartbeat."""

    _by_node: dict[int, Session] = field(default_factory=dict)

    def heard(self, node_id: int, *, applied_offset: int, is_level: bool, now_ms: int) -> None:
        """Note a heartbeat, the applied offset, and whether that is the newest."""
        session = self._by_node.setdefault(node_id, Session(now_ms))
        session.heard_ms, session.applied_offset, session.is_confirmed = now_ms, applied_offset, True
        if is_level:
            session.level_ms = now_ms

    def last_seen(self, node_id: int) -> Session | None:
        """Return the session of a broker that sent a heartbeat."""
        session = self._by_node.get(node_id)
        return session if session is not None and session.is_confirmed else None

    def assume(self, image: MetadataImage, *, now_ms: int) -> None:
        """Begin a session for every unfenced broker without one, so that it can end."""
        for broker in image.brokers.values():
            if not broker.fenced and broker.node_id not in self._by_node:
                self._by_node[broker.node_id] = Session(now_ms)

    def forget(self, node_id: int) -> None:
        """Drop the session of a broker that begins anew or is unregistered."""
        self._by_node.pop(node_id, None)

    def fenced(self, node_id: int) -> None:
        """Note that a broker is fenced, which ends a controlled shutdown."""
        if node_id in self._by_node:
            self._by_node[node_id].shutdown_offset = -1

    def stale(self, image: MetadataImage, *, now_ms: int, timeout_ms: int) -> int | None:
        """Return the unfenced broker that has been silent for longest, if that is too long."""
        silent = [
            (session.heard_ms, node_id)
            for node_id, session in self._by_node.items()
            if session.heard_ms + timeout_ms < now_ms
            and node_id in image.brokers
            and not image.brokers[node_id].fenced
        ]
        return min(silent)[1] if silent else None

    def first_end(self, image: MetadataImage, *, timeout_ms: int) -> int | None:
        """Return when the first unfenced broker becomes stale if no heartbeat comes."""
        heard = [
            session.heard_ms
            for node_id, session in self._by_node.items()
            if node_id in image.brokers and not image.brokers[node_id].fenced
        ]
        return min(heard) + timeout_ms + 1 if heard else None

    def state(self, broker: BrokerRegistration) -> BrokerState:
        session = self._by_node.get(broker.node_id)
        if session is not None and session.shutdown_offset >= 0:
            return BrokerState.CONTROLLED_SHUTDOWN
        return BrokerState.FENCED if broker.fenced else BrokerState.UNFENCED

    def became(self, node_id: int, state: BrokerState, *, end_offset: int) -> None:
        """Note a broker's new state; a controlled shutdown waits for the `end_offset` of its first note."""
        if state in _FENCED_STATES:
            self.fenced(node_id)
        elif state is BrokerState.CONTROLLED_SHUTDOWN and self._by_node[node_id].shutdown_offset < 0:
            self._by_node[node_id].shutdown_offset = end_offset

    def is_relieved(self, node_id: int, image: MetadataImage) -> bool:
        """Return whether every active broker has applied the loss of a leaving broker's leaderships."""
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
    """Decide a broker's state after a heartbeat; raise `KafkaError` if its registration does not match."""
    node_id, epoch = heartbeat.node_id, heartbeat.epoch
    broker = current_broker(decisions.image, node_id, epoch)
    state = sessions.state(broker)
    if broker.fenced and broker.in_controlled_shutdown:
        # It was killed during its shutdown: only a new registration brings it back.
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
