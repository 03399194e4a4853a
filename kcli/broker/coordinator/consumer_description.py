"""Consumer groups as ConsumerGroupDescribe shows them (KIP-848, member types KIP-1099)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.coordinator.target_assignment import choose_assignor
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kcli.broker.coordinator.consumer_group import ConsumerGroup
    from kcli.broker.coordinator.consumer_member import ConsumerMember
    from kcli.broker.metadata.metadata_image import MetadataImage

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def describe_consumer_group(
    group: ConsumerGroup, *, image: MetadataImage, assignors: Sequence[str]
) -> DescribedGroup:
    """Return a group with its members; partitions of topics that are gone are left out."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=choose_assignor(group.members.values(), assignors),
        members=[_described(group, member, image) for _, member in sorted(group.members.items())],
    )


def no_such_group(group_id: str, why: str) -> DescribedGroup:
    """Return the description of a group that does not exist, or is no consumer group."""
    return not_described(group_id, KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}."))


def not_described(group_id: str, error: KafkaError) -> DescribedGroup:
    """Return the description of a group that is refused."""
    return DescribedGroup(
        error_code=error.code,
        error_message=error.message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


def _described(group: ConsumerGroup, member: ConsumerMember, image: MetadataImage) -> Member:
    has = {
        topic_id: {*member.assigned.get(topic_id, ()), *member.revoking.get(topic_id, ())}
        for topic_id in member.assigned.keys() | member.revoking.keys()
    }
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_named(has, image),
        target_assignment=_named(group.targets.get(member.member_id, {}), image),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _named(partitions: Mapping[bytes, Iterable[int]], image: MetadataImage) -> Assignment:
    topics = [image.topics_by_id[topic_id] for topic_id in partitions if topic_id in image.topics_by_id]
    return Assignment(
        topic_partitions=[
            TopicPartitions(
                topic_id=topic.topic_id,
                topic_name=topic.name,
                partitions=sorted(partitions[topic.topic_id]),
            )
            for topic in sorted(topics, key=lambda topic: topic.name)
        ]
    )
