"""Admin calls to the leaders of partitions: offsets, record deletion, leader epochs (KIP-101, KIP-320)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kcli.client.admin.driver import ask_leaders, error_of
from kcli.client.admin.types import OffsetAndTimestamp
from kcli.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kcli.protocol.messages.list_offsets import (
    FIRST_VERSIONS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kcli.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kcli.protocol.topics import TopicPartition, by_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kcli.client.client import Client
    from kcli.client.network.retry_warnings import RetryWarnings
    from kcli.protocol.error_codes import KafkaError

Topic = TypeVar("Topic")
Row = TypeVar("Row")


async def list_offsets(
    client: Client,
    timestamps: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
    timeout_ms: int | None = None,
    warnings: RetryWarnings | None = None,
) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
    """Return, per partition, the first offset at or after a timestamp in ms, or that of a special timestamp.

    `LATEST` gives the high watermark, or the last stable offset with `read_committed`. `warnings` gets the
    errors that are retried, for example a missing leader.
    """
    minimum = max((FIRST_VERSIONS.get(timestamp, 0) for timestamp in timestamps.values()), default=0)

    def build(group: list[TopicPartition], left_ms: int) -> ListOffsetsRequest:
        return ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(read_committed),
            topics=_topics(
                timestamps,
                group,
                lambda name, rows: ListOffsetsTopic(name=name, partitions=rows),
                lambda index, timestamp: ListOffsetsPartition(partition_index=index, timestamp=timestamp),
            ),
            timeout_ms=left_ms,
        )

    def read(response: ListOffsetsResponse) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
        return {
            TopicPartition(topic.name, entry.partition_index): error_of(entry.error_code)
            or OffsetAndTimestamp(entry.offset, entry.timestamp, entry.leader_epoch)
            for topic in response.topics
            for entry in topic.partitions
        }

    return await ask_leaders(
        client,
        timestamps,
        build=build,
        read=read,
        timeout_ms=timeout_ms,
        min_version=max(1, minimum),
        warnings=warnings,
    )


def _topics(
    values: Mapping[TopicPartition, int],
    group: list[TopicPartition],
    topic: Callable[[str, list[Row]], Topic],
    row: Callable[[int, int], Row],
) -> list[Topic]:
    """Return the topics of a request, with `row(index, value)` for each partition of `group`."""
    return [
        topic(name, [row(index, values[TopicPartition(name, index)]) for index in indexes])
        for name, indexes in by_topic(group).items()
    ]


async def delete_records(
    client: Client, offsets: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
) -> dict[TopicPartition, int | KafkaError]:
    """Delete records before an offset, -1: the high watermark; return each new low watermark."""

    def build(group: list[TopicPartition], left_ms: int) -> DeleteRecordsRequest:
        return DeleteRecordsRequest(
            topics=_topics(
                offsets,
                group,
                lambda name, rows: DeleteRecordsTopic(name=name, partitions=rows),
                lambda index, offset: DeleteRecordsPartition(partition_index=index, offset=offset),
            ),
            timeout_ms=left_ms,
        )

    def read(response: DeleteRecordsResponse) -> dict[TopicPartition, int | KafkaError]:
        return {
            TopicPartition(topic.name, entry.partition_index): error_of(entry.error_code)
            or entry.low_watermark
            for topic in response.topics
            for entry in topic.partitions
        }

    return await ask_leaders(client, offsets, build=build, read=read, timeout_ms=timeout_ms)


_CONSUMER_REPLICA_ID = -1
_VERSION_WITH_EPOCHS = 1


class EpochEnd(NamedTuple):
    """The largest epoch of a log that is not above the requested one, and its end offset.

    Both are -1 if the log has no epoch that large.
    """

    leader_epoch: int
    offset: int


async def epoch_ends(
    client: Client, epochs: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
) -> dict[TopicPartition, EpochEnd | KafkaError]:
    """Return the end of a leader epoch of each partition in its leader's log (OffsetForLeaderEpoch)."""

    def build(group: list[TopicPartition], _: int) -> OffsetForLeaderEpochRequest:
        return OffsetForLeaderEpochRequest(
            replica_id=_CONSUMER_REPLICA_ID,
            topics=_topics(
                epochs,
                group,
                lambda name, rows: OffsetForLeaderTopic(topic=name, partitions=rows),
                lambda index, epoch: OffsetForLeaderPartition(partition=index, leader_epoch=epoch),
            ),
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
