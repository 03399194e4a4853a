"""Reconciliation: one step of a member from what it has towards what it is to get (KIP-848).

Three rules decide it, and between them no partition ever has two owners:

* a partition that is not in the member's target is taken away, and until the member says that it gave it up
  the member does not go on to the next epoch: UNREVOKED_PARTITIONS;
* a partition of the target is given once nobody has it;
* as long as one of them is not free the member has the new epoch but waits: UNRELEASED_PARTITIONS.

Kafka class `CurrentAssignmentBuilder`, as of 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.broker.coordinator.consumer_member import NOTHING, MemberState
from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kcli.broker.coordinator.consumer_member import ConsumerMember, Owned


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What decides the next step of a member.

    `target` is that of `target_epoch`. `owned` are the partitions that the member says it has, None if it
    does not say. `subscribed` are the ids of the topics it wants now: none of another topic is given or left
    to it, even if the target is older than its subscription. `is_taken(topic_id, partition)` is true for what
    some member has.
    """

    target_epoch: int
    target: Mapping[bytes, frozenset[int]]
    owned: Mapping[bytes, Collection[int]] | None
    subscribed: Collection[bytes]
    is_taken: Callable[[bytes, int], bool]

    def step(self, member: ConsumerMember, *, subscription_changed: bool = False) -> ConsumerMember:
        """Return the member after its next step, or itself if it cannot go on yet.

        Raises FENCED_MEMBER_EPOCH for a member that must start again.
        """
        match member.state:
            case MemberState.STABLE if member.epoch == self.target_epoch:
                return self._drop_unsubscribed(member) if subscription_changed else member
            case MemberState.UNREVOKED_PARTITIONS if self._owns_any(member.revoking):
                return self._drop_unsubscribed(member) if subscription_changed else member
            case MemberState.UNKNOWN if self.owned is None or any(self.owned.values()):
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "the member is in an unknown state; it must give up all its partitions and join again",
                )
        return self._towards_target(member)

    def _towards_target(self, member: ConsumerMember) -> ConsumerMember:
        keep: dict[bytes, dict[int, int]] = {}
        revoke: dict[bytes, dict[int, int]] = {}
        give: list[tuple[bytes, int]] = []
        waits = False
        for topic_id in self.target.keys() | member.assigned.keys():
            wanted = self.target.get(topic_id, frozenset()) if topic_id in self.subscribed else frozenset()
            has = member.assigned.get(topic_id, {})
            for partition, epoch in has.items():
                (keep if partition in wanted else revoke).setdefault(topic_id, {})[partition] = epoch
            for partition in wanted - has.keys():
                if self._is_free(member, topic_id, partition):
                    give.append((topic_id, partition))
                else:
                    waits = True
        if revoke and self._owns_any(revoke):
            epoch = self.target_epoch if member.state is MemberState.UNKNOWN else member.epoch
            state = MemberState.UNREVOKED_PARTITIONS
            return member.advanced_to(epoch, state, assigned=keep, revoking=revoke)
        for topic_id, partition in give:
            keep.setdefault(topic_id, {})[partition] = self.target_epoch
        state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
        return member.advanced_to(self.target_epoch, state, assigned=keep, revoking=NOTHING)

    def _drop_unsubscribed(self, member: ConsumerMember) -> ConsumerMember:
        """Take away the topics that the member no longer wants, before there is a target without them."""
        dropped = [topic_id for topic_id in member.assigned if topic_id not in self.subscribed]
        if not dropped:
            return member
        keep = {topic_id: has for topic_id, has in member.assigned.items() if topic_id in self.subscribed}
        revoke = dict(member.revoking)
        for topic_id in dropped:
            revoke[topic_id] = {**revoke.get(topic_id, {}), **member.assigned[topic_id]}
        if self._owns_any(revoke):
            state = MemberState.UNREVOKED_PARTITIONS
            return member.advanced_to(member.epoch, state, assigned=keep, revoking=revoke)
        return member.advanced_to(member.epoch, member.state, assigned=keep, revoking=member.revoking)

    def _is_free(self, member: ConsumerMember, topic_id: bytes, partition: int) -> bool:
        """True if nobody has a partition, or only the member itself, which gave it up just now."""
        return not self.is_taken(topic_id, partition) or partition in member.revoking.get(topic_id, ())

    def _owns_any(self, partitions: Owned) -> bool:
        """True if the member has any of these, as far as it says."""
        if self.owned is None:
            return True
        return any(
            partition in partitions.get(topic_id, ())
            for topic_id in self.owned
            for partition in self.owned[topic_id]
        )
