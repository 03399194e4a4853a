"""Migration of groups between the classic and the consumer protocol, while their members keep working.

A classic group becomes a consumer group when the first member of the consumer protocol joins. All members
keep their partitions; the others go on in the classic protocol (`classic_protocol`). When the last
consumer-protocol member leaves, the group becomes classic again. `group.consumer.migration.policy` allows
each direction (KIP-848; Kafka's methods `convertToConsumerGroup` and `convertToClassicGroup`).

A conversion is one batch of records: the old group's tombstones and the new group's records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.coordinator.classic.group import (
    ClassicGroup,
    ClassicGroupState,
    ClassicMember,
    MemberProtocol,
)
from kcli.broker.coordinator.classic.rebalance import rebalance as begin_rebalance
from kcli.broker.coordinator.consumer.group import ConsumerGroupRecords
from kcli.broker.coordinator.consumer.member import ClassicOffer, ConsumerMember
from kcli.protocol.consumer_protocol import (
    HIGHEST_VERSION,
    PROTOCOL_TYPE,
    Assignment,
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.schema.declaration import DecodeError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kcli.assignors.server_assignors import Partitions
    from kcli.broker.config.group_definitions import GroupConfig
    from kcli.broker.coordinator.consumer.group import ConsumerGroup
    from kcli.broker.coordinator.consumer.topic_hash import TopicHashes
    from kcli.broker.coordinator.effects import CoordinatorRecord, Effect, Now
    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.protocol.topics import TopicIdPartition

UPGRADES = frozenset({"bidirectional", "upgrade"})
DOWNGRADES = frozenset({"bidirectional", "downgrade"})
DISABLED = "disabled"


def check_upgrade(group: ClassicGroup, config: GroupConfig) -> None:
    """Raise GROUP_ID_NOT_FOUND if a group cannot become a consumer group."""
    if config.migration_policy not in UPGRADES:
        raise _not_upgraded(group, "online upgrade is disabled")
    if not group.uses_consumer_protocol:
        raise _not_upgraded(group, "its members are not consumers")
    if len(group.members) > config.consumer_max_size:
        raise _not_upgraded(group, "it has more members than a consumer group may have")


def upgrade_records(
    group: ClassicGroup, *, image: MetadataImage, hashes: TopicHashes
) -> list[CoordinatorRecord]:
    """Return the records that convert a classic group; raise GROUP_ID_NOT_FOUND if it cannot be converted.

    Its generation becomes the epoch; its leader's assignment becomes target and current assignment.
    """
    taken: set[TopicIdPartition] = set()
    try:
        members = [_to_consumer(group, member, image=image, taken=taken) for member in group.members.values()]
    except DecodeError as error:
        raise _not_upgraded(group, "its members' metadata is malformed") from error
    names = {name for member in members for name in member.topics}
    record, epoch = ConsumerGroupRecords(group.group_id), group.generation
    targets = {
        member.member_id: {topic_id: frozenset(owned) for topic_id, owned in member.assigned.items()}
        for member in members
    }
    return [
        *group.tombstones(),
        *(record.member(member) for member in members),
        record.epoch(epoch, hashes.of_group(names, image)),
        *(record.target(member_id, target) for member_id, target in targets.items()),
        record.target_epoch(epoch, 0),
        *(record.assignment(member) for member in members),
    ]


def _to_consumer(
    group: ClassicGroup, member: ClassicMember, *, image: MetadataImage, taken: set[TopicIdPartition]
) -> ConsumerMember:
    protocol_name = group.protocol_name or group.select_protocol()
    subscription = decode_subscription(member.metadata(protocol_name))
    assignment = decode_assignment(member.assignment)
    if assignment.user_data:
        raise _not_upgraded(group, "its assignor keeps data of its own, which would be lost")
    return ConsumerMember(
        member_id=member.member_id,
        epoch=group.generation,
        previous_epoch=group.generation,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(subscription.topics),
        assigned=_owned(assignment, group.generation, image=image, taken=taken),
        classic=ClassicOffer(
            member.session_timeout_ms, tuple((each.name, each.metadata) for each in member.protocols)
        ),
    )


def _owned(
    assignment: Assignment, generation: int, *, image: MetadataImage, taken: set[TopicIdPartition]
) -> dict[bytes, dict[int, int]]:
    """Return the existing partitions of an assignment; the first member keeps one assigned twice."""
    owned: dict[bytes, dict[int, int]] = {}
    for name, partitions in assignment.partitions.items():
        topic = image.topics.get(name)
        for partition in partitions:
            exists = topic is not None and 0 <= partition < len(topic.partitions)
            if topic is not None and exists and (topic.topic_id, partition) not in taken:
                owned.setdefault(topic.topic_id, {})[partition] = generation
                taken.add((topic.topic_id, partition))
    return owned


def _not_upgraded(group: ClassicGroup, why: str) -> KafkaError:
    message = f"classic group `{group.group_id}` cannot become a consumer group: {why}"
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def may_downgrade(
    group: ConsumerGroup, leaving: Collection[ConsumerMember], config: GroupConfig, *, joining: int = 0
) -> bool:
    """Return whether a group becomes classic when members leave and `joining` classic ones come."""
    gone = {member.member_id for member in leaving}
    rest = [member for member_id, member in group.members.items() if member_id not in gone]
    return (
        config.migration_policy in DOWNGRADES
        and 0 < len(rest) + joining <= config.max_size
        and all(member.classic is not None for member in rest)
    )


def to_classic(
    group_id: str,
    members: Iterable[ConsumerMember],
    *,
    targets: Mapping[str, Partitions],
    epoch: int,
    now: Now,
    image: MetadataImage,
) -> ClassicGroup:
    """Return the classic group of classic members: the epoch is its generation, the target its assignment."""
    group = ClassicGroup(
        group_id,
        state=ClassicGroupState.STABLE,
        state_since_ms=now.wall_ms,
        generation=epoch,
        protocol_type=PROTOCOL_TYPE,
        assigned_generation=epoch,
    )
    for member in members:
        if member.classic is not None:
            group.add(_to_classic_member(member, member.classic))
    group.protocol_name = group.select_protocol()
    group.update_subscribed()
    for classic in group.members.values():
        version = int.from_bytes(classic.metadata(group.protocol_name)[:2], "big")
        classic.assignment = assignment_bytes(targets.get(classic.member_id, {}), version, image)
    return group


def _to_classic_member(member: ConsumerMember, offer: ClassicOffer) -> ClassicMember:
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=offer.session_timeout_ms,
        protocols=tuple(MemberProtocol(name, metadata) for name, metadata in offer.protocols),
    )


def assignment_bytes(partitions: Mapping[bytes, Iterable[int]], version: int, image: MetadataImage) -> bytes:
    """Return partitions as a classic member reads them, in its subscription's version."""
    named = {
        image.topics_by_id[topic_id].name: tuple(sorted(partitions[topic_id]))
        for topic_id in partitions
        if topic_id in image.topics_by_id
    }
    return encode_assignment(Assignment(dict(sorted(named.items()))), min(max(version, 0), HIGHEST_VERSION))


def begin_classic(now: Now, group: ClassicGroup, config: GroupConfig, *, rebalance: bool) -> list[Effect]:
    """Start the sessions of a group that has become classic, and a rebalance if wanted."""
    effects: list[Effect] = []
    for member in group.members.values():
        effects += group.arm_session(now, member)
    return effects + begin_rebalance(now, group, config) if rebalance else effects
