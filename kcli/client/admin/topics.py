"""Admin calls that read topics: list, describe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.client.admin.driver import check, error_of, retry_items
from kcli.client.admin.types import PartitionDescription, TopicDescription, TopicListing
from kcli.client.network.metadata import ANY, metadata_request
from kcli.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from kcli.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.client.client import Client
    from kcli.protocol.error_codes import KafkaError
    from kcli.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsResponsePartition
    from kcli.protocol.messages.metadata import MetadataResponsePartition

PARTITIONS_PER_ANSWER = 2000
"""The most partitions in a describe response, as in Kafka's own client."""

TOPICS_PER_REQUEST = 500
"""The most topics in a describe request; keeps requests with long names small."""


async def list_topics(
    client: Client, *, include_internal: bool = True, timeout_ms: int | None = None
) -> list[TopicListing]:
    """Return all topics that the client may see, by name."""
    response = await _metadata(client, None, timeout_ms)
    listings = [
        TopicListing(
            topic.name,
            topic.topic_id,
            topic.is_internal,
            len(topic.partitions),
            len(topic.partitions[0].replica_nodes) if topic.partitions else 0,
            sum(len(each.isr_nodes) < len(each.replica_nodes) for each in topic.partitions),
        )
        for topic in response.topics
        if topic.name is not None and (include_internal or not topic.is_internal)
    ]
    return sorted(listings, key=lambda listing: listing.name)


async def describe_topics(
    client: Client,
    names: Iterable[str] | None = None,
    *,
    partitions_per_answer: int = PARTITIONS_PER_ANSWER,
    timeout_ms: int | None = None,
) -> dict[str, TopicDescription | KafkaError]:
    """Describe the named topics, or all of them, by name in ascending order.

    Uses DescribeTopicPartitions if the brokers have it (KIP-966: eligible leader replicas), else Metadata.
    One response holds at most `partitions_per_answer` partitions; brokers have a limit of their own.
    """
    if names is None:
        names = [listing.name for listing in await list_topics(client, timeout_ms=timeout_ms)]

    async def attempt(pending: list[str], left_ms: int) -> dict[str, TopicDescription | KafkaError]:
        results: dict[str, TopicDescription | KafkaError] = {}
        for start in range(0, len(pending), TOPICS_PER_REQUEST):
            chunk = pending[start : start + TOPICS_PER_REQUEST]
            if await client.supports(DescribeTopicPartitionsRequest):
                results |= await _describe_by_pages(
                    client, chunk, left_ms, partitions_per_answer=partitions_per_answer
                )
            else:
                results |= await _describe_by_metadata(client, chunk, left_ms)
        return results

    return await retry_items(client, sorted(set(names)), timeout_ms=timeout_ms, attempt=attempt)


async def _describe_by_pages(
    client: Client, names: list[str], left_ms: int, *, partitions_per_answer: int
) -> dict[str, TopicDescription | KafkaError]:
    """Follow the cursor: the partitions of a topic may continue in the next response."""
    results: dict[str, TopicDescription | KafkaError] = {}
    cursor: Cursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names],
            response_partition_limit=partitions_per_answer,
            cursor=cursor,
        )
        response: DescribeTopicPartitionsResponse = await client.request(ANY, request, timeout_ms=left_ms)
        for topic in response.topics:
            if topic.name is None:
                continue
            error = error_of(topic.error_code)
            earlier = results.get(topic.name)
            before = earlier.partitions if isinstance(earlier, TopicDescription) else ()
            results[topic.name] = error or _paged_description(topic, before)
        following = response.next_cursor
        if following is None:
            return results
        cursor = Cursor(topic_name=following.topic_name, partition_index=following.partition_index)
        names = [name for name in names if name >= cursor.topic_name]


async def _describe_by_metadata(
    client: Client, names: list[str], left_ms: int
) -> dict[str, TopicDescription | KafkaError]:
    response = await _metadata(client, names, left_ms)
    return {
        topic.name: error_of(topic.error_code) or _topic(topic, map(_partition, topic.partitions))
        for topic in response.topics
        if topic.name is not None
    }


async def _metadata(client: Client, names: list[str] | None, timeout_ms: int | None) -> MetadataResponse:
    response: MetadataResponse = await client.request_by_version(
        ANY,
        MetadataRequest,
        lambda version: metadata_request(names, version, auto_create=False),
        timeout_ms=timeout_ms,
    )
    check(response.error_code)
    return response


def _paged_description(
    topic: DescribeTopicPartitionsResponseTopic, before: tuple[PartitionDescription, ...]
) -> TopicDescription:
    partitions = {partition.partition: partition for partition in before}
    for entry in topic.partitions:
        partitions[entry.partition_index] = _partition(
            entry, eligible_leaders=entry.eligible_leader_replicas, last_known=entry.last_known_elr
        )
    return _topic(topic, partitions.values())


def _topic(
    topic: MetadataResponseTopic | DescribeTopicPartitionsResponseTopic,
    partitions: Iterable[PartitionDescription],
) -> TopicDescription:
    ordered = tuple(sorted(partitions, key=lambda partition: partition.partition))
    return TopicDescription(topic.name or "", topic.topic_id, topic.is_internal, ordered)


def _partition(
    entry: MetadataResponsePartition | DescribeTopicPartitionsResponsePartition,
    *,
    eligible_leaders: list[int] | None = None,
    last_known: list[int] | None = None,
) -> PartitionDescription:
    return PartitionDescription(
        entry.partition_index,
        entry.leader_id if entry.leader_id >= 0 else None,
        entry.leader_epoch,
        tuple(entry.replica_nodes),
        tuple(entry.isr_nodes),
        tuple(entry.offline_replicas),
        None if eligible_leaders is None else tuple(eligible_leaders),
        None if last_known is None else tuple(last_known),
    )
