"""Where leader epochs end, as the leaders of partitions know (OffsetForLeaderEpoch, KIP-101 and KIP-320)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.client.admin.leader_calls import ask_leaders
from kcli.client.admin.retry import error_of
from kcli.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kcli.protocol.topics import TopicPartition, by_topic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.client.client import Client
    from kcli.protocol.error_codes import KafkaError

_CONSUMER_REPLICA_ID = -1
_VERSION_WITH_EPOCHS = 1


class EpochEnd(NamedTuple):
    """The largest epoch of a log that is not above the one asked for, and where it ends.

    Both are -1 where the log knows of no epoch as large as the one asked for.
    """

    leader_epoch: int
    offset: int


async def epoch_ends(
    client: Client, epochs: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
) -> dict[TopicPartition, EpochEnd | KafkaError]:
    """Return where the leader epoch of each partition ends in its leader's log."""

    def build(group: list[TopicPartition], _: int) -> OffsetForLeaderEpochRequest:
        return OffsetForLeaderEpochRequest(
            replica_id=_CONSUMER_REPLICA_ID,
            topics=[
                OffsetForLeaderTopic(
                    topic=topic,
                    partitions=[
                        OffsetForLeaderPartition(
                            partition=index, leader_epoch=epochs[TopicPartition(topic, index)]
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(group).items()
            ],
        )

    def read(response: OffsetForLeaderEpochResponse) -> dict[TopicPartition, EpochEnd | KafkaError]:
        return {
            TopicPartition(topic.topic, entry.partition): error_of(entry.error_code)
            or EpochEnd(entry.leader_epoch, entry.end_offset)
            for topic in response.topics
            for entry in topic.partitions
        }

    return await ask_leaders(
        client, epochs, build=build, read=read, timeout_ms=timeout_ms, min_version=_VERSION_WITH_EPOCHS
    )
