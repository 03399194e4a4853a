"""Admin calls about topics: create, delete, list, describe, add partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.client.admin.configs import config_source
from kcli.client.admin.driver import check, error_of, retry_items
from kcli.client.admin.types import (
    ConfigEntry,
    NewPartitions,
    NewTopic,
    PartitionDescription,
    TopicCreated,
    TopicDescription,
    TopicListing,
)
from kcli.client.network.metadata import ANY, CONTROLLER, metadata_request
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kcli.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kcli.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from kcli.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from kcli.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kcli.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kcli.client.client import Client
    from kcli.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsResponsePartition
    from kcli.protocol.messages.metadata import MetadataResponsePartition

PARTITIONS_PER_ANSWER = 2000
"""The most partitions in a describe response, as in Kafka's own client."""

TOPICS_PER_REQUEST = 500
"""The most topics in a describe request; keeps requests with long names small."""


async def create_topics(
    client: Client, topics: Iterable[NewTopic], *, validate_only: bool = False, timeout_ms: int | None = None
) -> dict[str, TopicCreated | KafkaError]:
    """Create topics, or only check that they could be created."""
    wanted = {topic.name: topic for topic in topics}

    async def attempt(names: list[str], left_ms: int) -> dict[str, TopicCreated | KafkaError]:
        request = CreateTopicsRequest(
            topics=[_creatable(wanted[name]) for name in names],
            timeout_ms=left_ms,
            validate_only=validate_only,
        )
        response: CreateTopicsResponse = await client.request(CONTROLLER, request, timeout_ms=left_ms)
        return {
            result.name: error_of(result.error_code, result.error_message) or _created(result)
            for result in response.topics
        }

    return await retry_items(client, wanted, timeout_ms=timeout_ms, attempt=attempt)


async def delete_topics(
    client: Client, names: Iterable[str], *, timeout_ms: int | None = None
) -> dict[str, KafkaError | None]:
    """Delete topics by name."""

    async def attempt(pending: list[str], left_ms: int) -> dict[str, KafkaError | None]:
        def build(version: int) -> DeleteTopicsRequest:
            if version < 6:
                return DeleteTopicsRequest(topic_names=pending, timeout_ms=left_ms)
            states = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in pending]
            return DeleteTopicsRequest(topics=states, timeout_ms=left_ms)

        response: DeleteTopicsResponse = await client.request_by_version(
            CONTROLLER, DeleteTopicsRequest, build, timeout_ms=left_ms
        )
        return {
            result.name: error_of(result.error_code, result.error_message)
            for result in response.responses
            if result.name is not None
        }

    return await retry_items(client, names, timeout_ms=timeout_ms, attempt=attempt)


async def create_partitions(
    client: Client,
    counts: Mapping[str, NewPartitions],
    *,
    validate_only: bool = False,
    timeout_ms: int | None = None,
) -> dict[str, KafkaError | None]:
    """Increase the partition counts of topics, or only check the request."""

    async def attempt(names: list[str], left_ms: int) -> dict[str, KafkaError | None]:
        request = CreatePartitionsRequest(
            topics=[_more_partitions(name, counts[name]) for name in names],
            timeout_ms=left_ms,
            validate_only=validate_only,
        )
        response: CreatePartitionsResponse = await client.request(CONTROLLER, request, timeout_ms=left_ms)
        return {result.name: error_of(result.error_code, result.error_message) for result in response.results}

    return await retry_items(client, counts, timeout_ms=timeout_ms, attempt=attempt)


async def list_topics(
    client: Client, *, include_internal: bool = True, timeout_ms: int | None = None
) -> list[TopicListing]:
    """Return all topics that the client may see, by name."""
    response = await _metadata(client, None, timeout_ms)
    listings = [
        TopicListing(topic.name, topic.topic_id, topic.is_internal, len(topic.partitions))
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


def _creatable(topic: NewTopic) -> CreatableTopic:
    assignments = topic.assignments or {}
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if assignments else topic.partitions,
        replication_factor=-1 if assignments else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=partition, broker_ids=list(brokers))
            for partition, brokers in assignments.items()
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def _created(result: CreatableTopicResult) -> TopicCreated:
    # A tagged field says that the client may not see the configs; the topic exists all the same.
    configs = None
    if result.configs is not None and result.topic_config_error_code == ErrorCode.NONE:
        configs = tuple(
            ConfigEntry(
                each.name, each.value, config_source(each.config_source), each.read_only, each.is_sensitive
            )
            for each in result.configs
        )
    return TopicCreated(
        result.name, result.topic_id, result.num_partitions, result.replication_factor, configs
    )


def _more_partitions(name: str, wanted: NewPartitions) -> CreatePartitionsTopic:
    assignments = wanted.assignments
    return CreatePartitionsTopic(
        name=name,
        count=wanted.total_count,
        assignments=None
        if assignments is None
        else [CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in assignments],
    )
