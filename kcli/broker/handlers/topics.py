"""CreateTopics, DeleteTopics, CreatePartitions: requests to the controller, item by item.

* A name that a request holds twice is INVALID_REQUEST, answered once.
* Counts of -1 are the defaults of the node that received the request, in every version of CreateTopics.
* CreateTopics returns counts and configuration from version 5, the topic id from 7.
* DeleteTopics with deletion switched off is TOPIC_DELETION_DISABLED, before version 3 INVALID_REQUEST.
* Answers come when the change is in effect on this node, so `timeout_ms` is never reached.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from kcli.broker.config.config_entries import new_topic_entries
from kcli.broker.config.group_definitions import group_config
from kcli.broker.controller.replication_control import NewPartitions, NewTopic, TopicDefaults
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.create_partitions import CreatePartitionsResponse, CreatePartitionsTopicResult
from kcli.protocol.messages.create_topics import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from kcli.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from kcli.protocol.topics import METADATA_TOPIC
from kcli.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.broker.config.broker_config import BrokerConfig
    from kcli.broker.metadata.metadata_image import MetadataImage, TopicImage
    from kcli.broker.request_context import RequestContext
    from kcli.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
    from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
    from kcli.protocol.messages.delete_topics import DeleteTopicsRequest

T = TypeVar("T")


def topic_defaults(config: BrokerConfig) -> TopicDefaults:
    """Return what this node gives topics that do not say otherwise."""
    return TopicDefaults(
        partitions=config.num_partitions,
        replication_factor=config.default_replication_factor,
        configs=config.topic_defaults,
        groups=group_config(config),
    )


def create_topics(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    """Create topics, or with `validate_only` say whether they could be created."""
    config = context.broker.config
    repeated = _repeated(topic.name for topic in request.topics)
    accepted: list[CreatableTopic] = []
    refused = {name: KafkaError(ErrorCode.INVALID_REQUEST, "named twice") for name in sorted(repeated)}
    for topic in request.topics:
        if topic.name == METADATA_TOPIC:
            refused[topic.name] = KafkaError(ErrorCode.INVALID_REQUEST, "it is the controller's own")
        elif topic.name not in refused:
            accepted.append(topic)
    results = [_not_created(name, error) for name, error in refused.items()]
    outcomes = context.broker.controller.create_topics(
        [_new_topic(topic) for topic in accepted],
        defaults=topic_defaults(config),
        validate_only=request.validate_only,
    )
    for topic, outcome in zip(accepted, outcomes, strict=True):
        if isinstance(outcome, KafkaError):
            results.append(_not_created(topic.name, outcome))
        else:
            results.append(_created(config, topic, outcome))
    return CreateTopicsResponse(topics=results)


def failed_create_topics(request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    """Answer every topic with the same error."""
    return CreateTopicsResponse(topics=[_not_created(topic.name, error) for topic in request.topics])


def delete_topics(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    """Delete topics by name or by id."""
    broker = context.broker
    if not broker.config.delete_topic_enable:
        if context.api_version < 3:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "topic deletion is disabled")
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED)
    wanted = _topics_to_delete(request)
    found, results = _find_topics(broker.image, wanted)
    by_name = {name for name, _ in wanted}
    outcomes = broker.controller.delete_topics(topic.topic_id for topic in found)
    for topic, outcome in zip(found, outcomes, strict=True):
        # By id, Kafka tells the name only of a topic that was found.
        result = DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)
        if isinstance(outcome, KafkaError):
            result.name = topic.name if topic.name in by_name else None
            result.error_code, result.error_message = outcome.code, outcome.message
        results.append(result)
    return DeleteTopicsResponse(responses=results)


def failed_delete_topics(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    """Answer every topic with the same error."""
    wanted = _topics_to_delete(request)
    return DeleteTopicsResponse(responses=[_not_deleted(name, topic_id, error) for name, topic_id in wanted])


def create_partitions(request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    """Add partitions to topics, or with `validate_only` say whether that could be done."""
    repeated = _repeated(topic.name for topic in request.topics)
    results = [
        CreatePartitionsTopicResult(
            name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="named twice"
        )
        for name in sorted(repeated)
    ]
    accepted = [topic for topic in request.topics if topic.name not in repeated]
    outcomes = context.broker.controller.create_partitions(
        [_new_partitions(topic) for topic in accepted], validate_only=request.validate_only
    )
    for topic, outcome in zip(accepted, outcomes, strict=True):
        result = CreatePartitionsTopicResult(name=topic.name)
        if isinstance(outcome, KafkaError):
            result.error_code, result.error_message = outcome.code, outcome.message
        results.append(result)
    return CreatePartitionsResponse(results=results)


def failed_create_partitions(request: CreatePartitionsRequest, error: KafkaError) -> CreatePartitionsResponse:
    """Answer every topic with the same error."""
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )


def _repeated(names: Iterable[T]) -> set[T]:
    return {name for name, count in Counter(names).items() if count > 1}


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[(each.partition_index, each.broker_ids) for each in topic.assignments],
        configs={config.name: config.value for config in topic.configs},
    )


def _not_created(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message)


def _created(config: BrokerConfig, topic: CreatableTopic, created: TopicImage) -> CreatableTopicResult:
    overrides = {each.name: each.value for each in topic.configs if each.value is not None}
    return CreatableTopicResult(
        name=topic.name,
        topic_id=created.topic_id,
        num_partitions=len(created.partitions),
        replication_factor=created.replication_factor,
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in new_topic_entries(config, overrides)
        ],
    )


def _topics_to_delete(request: DeleteTopicsRequest) -> list[tuple[str | None, bytes]]:
    return [
        *((name, ZERO_UUID) for name in request.topic_names),
        *((topic.name, topic.topic_id) for topic in request.topics),
    ]


def _not_deleted(name: str | None, topic_id: bytes, error: KafkaError) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=error.code, error_message=error.message
    )


def _find_topics(
    image: MetadataImage, wanted: list[tuple[str | None, bytes]]
) -> tuple[list[TopicImage], list[DeletableTopicResult]]:
    """Return the topics to delete, and the answers for what names none, or one twice."""
    found: dict[bytes, TopicImage] = {}
    refused: list[DeletableTopicResult] = []
    repeated = _repeated(wanted)
    for name, topic_id in dict.fromkeys(wanted):
        try:
            topic = _find_topic(image, name, topic_id, is_repeated=(name, topic_id) in repeated)
            if topic.topic_id in found:
                del found[topic.topic_id]
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"topic `{topic.name}` is named and given by id")
        except KafkaError as error:
            refused.append(_not_deleted(name, topic_id, error))
        else:
            found[topic.topic_id] = topic
    return list(found.values()), refused


def _find_topic(image: MetadataImage, name: str | None, topic_id: bytes, *, is_repeated: bool) -> TopicImage:
    if name is None and topic_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "neither a topic name nor an id")
    if name is not None and topic_id != ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "both a topic name and an id")
    if is_repeated:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "named twice")
    if name is None:
        by_id = image.topics_by_id.get(topic_id)
        if by_id is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        return by_id
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic


def _new_partitions(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = None
    if topic.assignments is not None:
        assignments = [each.broker_ids for each in topic.assignments]
    return NewPartitions(topic.name, topic.count, assignments)
