"""A consumer of the classic protocol that revokes all partitions before it joins; the leader assigns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kcli.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kcli.protocol.error_codes import ErrorCode
from tests.broker.coordinator.virtual_consumers import Partitions, VirtualConsumers
from tests.broker.coordinator.virtual_coordinator import Call

FATAL = {ErrorCode.FENCED_INSTANCE_ID, ErrorCode.INCONSISTENT_GROUP_PROTOCOL}


@dataclass
class ClassicConsumer:
    """One consumer. `turn` sends its next request, unless it waits for a response."""

    coordinator: VirtualConsumers
    topics: tuple[str, ...]
    instance: str | None = None
    member_id: str = ""
    generation: int = -1
    owned: Partitions = field(default_factory=set)
    joins: bool = True
    syncs: dict[str, bytes] | None = None
    """What to hand in with the next sync, if that is the next request."""
    waits: tuple[Call, Callable[[Call], None]] | None = None
    error: ErrorCode = ErrorCode.NONE
    is_dead: bool = False

    def turn(self) -> None:
        """Handle a response that has come, or send the next request; none after a fatal error."""
        if self.is_dead:
            return
        if self.waits is None:
            self.waits = self._send()
        call, take = self.waits
        if not call.is_parked:
            self.waits = None
            self.error = call.error
            if call.error in FATAL:
                self.is_dead = True
            if call.error in {*FATAL, ErrorCode.UNKNOWN_MEMBER_ID}:
                self._start_anew()
            else:
                take(call)

    def _send(self) -> tuple[Call, Callable[[Call], None]]:
        if self.joins:
            self.owned = set()
            metadata = encode_subscription(Subscription(self.topics), version=1)
            call = self.coordinator.join(
                self.member_id, instance=self.instance, protocols={"range": metadata}, session_ms=45_000
            )
            return call, self._joined
        if self.syncs is not None:
            call = self.coordinator.sync(
                self.member_id, self.generation, assignments=self.syncs, instance=self.instance
            )
            return call, self._synced
        call = self.coordinator.heartbeat(self.member_id, self.generation, instance=self.instance)
        return call, self._beaten

    def _joined(self, call: Call) -> None:
        if call.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = call.response.member_id
        if call.error is ErrorCode.NONE:
            self.member_id, self.generation = call.response.member_id, call.response.generation_id
            self.joins, self.syncs = False, {}
            if call.response.leader == self.member_id and not call.response.skip_assignment:
                self.syncs = self._assign(call)

    def _assign(self, call: Call) -> dict[str, bytes]:
        """Assign the partitions in turn."""
        members = {
            each.member_id: decode_subscription(each.metadata).topics for each in call.response.members
        }
        given: dict[str, dict[str, tuple[int, ...]]] = {member_id: {} for member_id in members}
        image = self.coordinator.image
        for topic in sorted({name for names in members.values() for name in names if name in image.topics}):
            readers = sorted(member_id for member_id, names in members.items() if topic in names)
            for index in range(len(image.topics[topic].partitions)):
                mine = given[readers[index % len(readers)]]
                mine[topic] = (*mine.get(topic, ()), index)
        return {member_id: encode_assignment(Assignment(each)) for member_id, each in given.items()}

    def _synced(self, call: Call) -> None:
        self.syncs = None
        if call.error is ErrorCode.NONE:
            partitions = decode_assignment(call.response.assignment).partitions
            existing = partitions.keys() & self.coordinator.image.topics.keys()
            self.owned = {(name, index) for name in existing for index in partitions[name]}
        else:
            self.joins = True
            if call.error is ErrorCode.ILLEGAL_GENERATION:
                self.generation = -1

    def _beaten(self, call: Call) -> None:
        if call.error in {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION}:
            self.joins = True

    def _start_anew(self) -> None:
        self.member_id, self.generation, self.owned = "", -1, set()
        self.joins, self.syncs = True, None

    def leave(self) -> None:
        """Send LeaveGroup."""
        if self.member_id:
            self.coordinator.leave((self.member_id, self.instance))
        self._start_anew()
