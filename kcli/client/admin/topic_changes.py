"""Admin calls that change topics: create, delete, add partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.client.admin.configs import config_source
from kcli.client.admin.driver import error_of, retry_items
from kcli.client.admin.types import ConfigEntry, NewPartitions, NewTopic, TopicCreated
from kcli.client.network.metadata import CONTROLLER
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
from kcli.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kcli.client.client import Client


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
