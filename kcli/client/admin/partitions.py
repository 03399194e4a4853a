"""Admin calls that a partition's leader answers: offsets, record deletion, producer states.

The leaders come from fresh metadata; the requests to different leaders run at the same time, and a leader
that cannot be reached fails its own partitions only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import trio

from kcli.client.admin.retry import error_of, retry_items
from kcli.client.admin.types import ActiveProducer, OffsetAndTimestamp
from kcli.client.metadata import TopicPartition
from kcli.client.versions import UnsupportedVersion
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kcli.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from kcli.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kcli.client.client import Client
    from kcli.client.metadata import ClusterMetadata

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
"""Timestamps with a meaning of their own in `list_offsets` (KIP-79, KIP-734, KIP-405, KIP-1005)."""

_MINIMUM_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, -6: 11}
"""The first ListOffsets version that knows each special timestamp."""

Value = TypeVar("Value")


async def list_offsets(
    client: Client,
    timestamps: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
    """Return, per partition, the first offset at or after a timestamp in ms, or that of a special one.

    `LATEST` gives the high watermark, or the last stable offset when `read_committed`.
    """
    minimum = max((_MINIMUM_VERSION.get(timestamp, 0) for timestamp in timestamps.values()), default=0)

    def build(group: list[TopicPartition], remaining_ms: int) -> ListOffsetsRequest:
        return ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(read_committed),
            topics=_topics_to_list(timestamps, group),
            timeout_ms=remaining_ms,
        )

    def read(response: ListOffsetsResponse) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
        return {
            TopicPartition(topic.name, entry.partition_index): error_of(entry.error_code)
            or OffsetAndTimestamp(entry.offset, entry.timestamp, entry.leader_epoch)
            for topic in response.topics
            for entry in topic.partitions
        }

    async def attempt(
        pending: list[TopicPartition], remaining_ms: int
    ) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
        return await ask_leaders(client, pending, remaining_ms, build, read, min_version=max(1, minimum))

    return await retry_items(client, timestamps, timeout_ms, attempt)


def _topics_to_list(
    timestamps: Mapping[TopicPartition, int], group: list[TopicPartition]
) -> list[ListOffsetsTopic]:
    return [
        ListOffsetsTopic(
            name=topic,
            partitions=[
                ListOffsetsPartition(
                    partition_index=index, timestamp=timestamps[TopicPartition(topic, index)]
                )
                for index in indexes
            ],
        )
        for topic, indexes in by_topic(group).items()
    ]


async def delete_records(
    client: Client, offsets: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
) -> dict[TopicPartition, int | KafkaError]:
    """Delete the records before an offset of each partition; -1 stands for the high watermark.

    The value of a partition is its new low watermark.
    """

    def build(group: list[TopicPartition], remaining_ms: int) -> DeleteRecordsRequest:
        return DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        DeleteRecordsPartition(
                            partition_index=index, offset=offsets[TopicPartition(topic, index)]
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(group).items()
            ],
            timeout_ms=remaining_ms,
        )

    def read(response: DeleteRecordsResponse) -> dict[TopicPartition, int | KafkaError]:
        return {
            TopicPartition(topic.name, entry.partition_index): error_of(entry.error_code)
            or entry.low_watermark
            for topic in response.topics
            for entry in topic.partitions
        }

    async def attempt(
        pending: list[TopicPartition], remaining_ms: int
    ) -> dict[TopicPartition, int | KafkaError]:
        return await ask_leaders(client, pending, remaining_ms, build, read)

    return await retry_items(client, offsets, timeout_ms, attempt)


async def describe_producers(
    client: Client, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
) -> dict[TopicPartition, tuple[ActiveProducer, ...] | KafkaError]:
    """Return the producer ids that each partition's leader remembers (KIP-664)."""

    def build(group: list[TopicPartition], remaining_ms: int) -> DescribeProducersRequest:
        return DescribeProducersRequest(
            topics=[
                TopicRequest(name=topic, partition_indexes=indexes)
                for topic, indexes in by_topic(group).items()
            ]
        )

    def read(
        response: DescribeProducersResponse,
    ) -> dict[TopicPartition, tuple[ActiveProducer, ...] | KafkaError]:
        return {
            TopicPartition(topic.name, entry.partition_index): error_of(entry.error_code, entry.error_message)
            or tuple(
                ActiveProducer(
                    state.producer_id,
                    state.producer_epoch,
                    state.last_sequence,
                    state.last_timestamp,
                    state.coordinator_epoch,
                    state.current_txn_start_offset,
                )
                for state in entry.active_producers
            )
            for topic in response.topics
            for entry in topic.partitions
        }

    async def attempt(
        pending: list[TopicPartition], remaining_ms: int
    ) -> dict[TopicPartition, tuple[ActiveProducer, ...] | KafkaError]:
        return await ask_leaders(client, pending, remaining_ms, build, read)

    return await retry_items(client, partitions, timeout_ms, attempt)


async def ask_leaders(
    client: Client,
    partitions: list[TopicPartition],
    remaining_ms: int,
    build: Callable[[list[TopicPartition], int], Any],
    read: Callable[[Any], dict[TopicPartition, Value | KafkaError]],
    *,
    min_version: int = 0,
) -> dict[TopicPartition, Value | KafkaError]:
    """Send one request per leader, all at once, and merge the answers.

    A partition without a leader, or without an answer, gets an error of its own.
    """
    cluster = await client.metadata({partition.topic for partition in partitions})
    results: dict[TopicPartition, Value | KafkaError] = {}
    groups: dict[int, list[TopicPartition]] = {}
    for partition in partitions:
        leader = cluster.leader_of(partition)
        if leader is not None:
            groups.setdefault(leader.leader, []).append(partition)
        else:
            results[partition] = _leaderless(cluster, partition)

    async def ask(node_id: int, group: list[TopicPartition]) -> None:
        answered: dict[TopicPartition, Value | KafkaError]
        try:
            request = build(group, remaining_ms)
            response = await client.request(
                node_id, request, timeout_ms=remaining_ms, min_version=min_version
            )
            answered = read(response)
        except UnsupportedVersion as error:
            refused = KafkaError(ErrorCode.UNSUPPORTED_VERSION, error.message, hint=error.hint)
            answered = dict.fromkeys(group, refused)
        except KafkaError as error:
            answered = {partition: _unanswered(client, partition, node_id, error) for partition in group}
        except KcliError as error:
            failed = KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, error.message, hint=error.hint)
            answered = {partition: _unanswered(client, partition, node_id, failed) for partition in group}
        missing = KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "the broker left this partition out of its answer"
        )
        results.update({partition: answered.get(partition, missing) for partition in group})

    async with trio.open_nursery() as nursery:
        for node_id, group in groups.items():
            nursery.start_soon(ask, node_id, group)
    return results


def _leaderless(cluster: ClusterMetadata, partition: TopicPartition) -> KafkaError:
    """Return why there is nobody to ask about a partition."""
    if partition.topic in cluster.errors:
        return KafkaError(cluster.errors[partition.topic])
    if partition.partition not in cluster.topics[partition.topic].partitions:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)


def _unanswered(client: Client, partition: TopicPartition, node_id: int, error: KafkaError) -> KafkaError:
    """Return the error of a partition whose leader did not answer: one that passes if it leads no more."""
    leader = client.cluster.leader_of(partition)
    if error.code != ErrorCode.BROKER_NOT_AVAILABLE or (leader is not None and leader.leader == node_id):
        return error
    return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, error.message, hint=error.hint)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Group partitions as requests do: topic -> indexes, in the given order."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics
