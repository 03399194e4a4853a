"""What members tell the leader of their group, and what the leader makes of it.

Pure: from subscriptions to assignments, both as the bytes that JoinGroup and SyncGroup carry. A subscription
is written in version 1, in version 3 where the group is cooperative or the member has a rack; an assignment
in version 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.assignors import members as assignors
from kcli.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kcli.protocol.messages.sync_group import SyncGroupRequestAssignment
from kcli.protocol.schema.declaration import DecodeError
from kcli.protocol.topics import TopicPartition, by_topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kcli.assignors.strategies import Strategy
    from kcli.client.metadata import ClusterMetadata
    from kcli.protocol.messages.join_group import JoinGroupResponseMember
    from kcli.protocol.schema.declaration import Buffer

EAGER_VERSION = 1
COOPERATIVE_VERSION = 3
ASSIGNMENT_VERSION = 0


class LastAssignment(NamedTuple):
    """What the group gave a member last, and in which generation; None before the first."""

    partitions: tuple[TopicPartition, ...] | None = None
    generation_id: int = -1


def _grouped(partitions: Iterable[TopicPartition]) -> dict[str, tuple[int, ...]]:
    return {topic: tuple(indexes) for topic, indexes in by_topic(sorted(partitions)).items()}


def subscription_bytes(
    strategy: Strategy,
    topics: Iterable[str],
    *,
    owned: Iterable[TopicPartition],
    last: LastAssignment,
    generation_id: int,
    rack: str,
    is_cooperative: bool,
) -> bytes:
    """Return what a member tells the leader, should this assignor be the one that all members vote for."""
    subscription = Subscription(
        topics=tuple(topics),
        user_data=strategy.user_data(last.partitions, last.generation_id),
        owned_partitions=_grouped(owned),
        generation_id=generation_id,
        rack_id=rack or None,
    )
    # Earlier versions cannot say where the member is.
    needs_newest = is_cooperative or bool(rack)
    return encode_subscription(subscription, COOPERATIVE_VERSION if needs_newest else EAGER_VERSION)


def read_members(members: Iterable[JoinGroupResponseMember]) -> dict[str, assignors.Subscription]:
    """Return what each member wants. One that says nothing that can be read wants nothing."""
    read: dict[str, assignors.Subscription] = {}
    for member in members:
        try:
            told = decode_subscription(member.metadata)
        except DecodeError:
            told = Subscription(())
        read[member.member_id] = assignors.Subscription(
            topics=frozenset(told.topics),
            owned=tuple(
                (topic, index) for topic, indexes in told.owned_partitions.items() for index in indexes
            ),
            generation=told.generation_id,
            instance_id=member.group_instance_id,
            user_data=told.user_data,
            rack_id=told.rack_id or None,
        )
    return read


def racks_of(cluster: ClusterMetadata, topics: Iterable[str]) -> assignors.Racks:
    """Return in which racks each partition of some topics has replicas, alive or not."""
    return {
        (name, index): frozenset(
            rack
            for node_id in partition.replicas
            if (node := cluster.nodes.get(node_id)) is not None and (rack := node.rack)
        )
        for name in topics
        if (topic := cluster.topics.get(name)) is not None
        for index, partition in topic.partitions.items()
    }


def assign(
    strategy: Strategy,
    counts: Mapping[str, int],
    *,
    members: Mapping[str, assignors.Subscription],
    racks: assignors.Racks = assignors.NO_RACKS,
) -> list[SyncGroupRequestAssignment]:
    """Return the assignment of every member, of those too that get nothing: Java members insist on bytes."""
    return [
        SyncGroupRequestAssignment(
            member_id=member_id,
            assignment=encode_assignment(
                Assignment(_grouped(TopicPartition(*partition) for partition in partitions)),
                ASSIGNMENT_VERSION,
            ),
        )
        for member_id, partitions in strategy.assign(counts, members, racks).items()
    ]


def read_assignment(data: Buffer) -> tuple[TopicPartition, ...]:
    """Return the partitions that the leader gave this member; raise `DecodeError` for what is none."""
    return tuple(
        TopicPartition(topic, index)
        for topic, indexes in decode_assignment(data).partitions.items()
        for index in indexes
    )
