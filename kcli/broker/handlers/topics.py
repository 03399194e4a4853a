"""Topics: CreateTopics, DeleteTopics, CreatePartitions, DescribeTopicPartitions.

* Each topic of a request succeeds or fails by itself. A name that is there twice is one
  INVALID_REQUEST.
* Counts of -1 are the defaults of the node that received the request, in every version of CreateTopics.
* CreateTopics returns counts and configuration from version 5 on, the topic id from version 7 on.
* DeleteTopics with `delete.topic.enable=false` is TOPIC_DELETION_DISABLED, before version 3 INVALID_REQUEST.
* Responses come when the change is in effect on this node, so `timeout_ms` is never reached.

DescribeTopicPartitions returns as many partitions at a time as the client and the broker allow:

* An empty list means all topics; names are sorted, each once.
* At the end of a page the next cursor names the topic and partition to continue at. The topic of a cursor
  must be in the list, if there is one.
* A partition without a leader has leader -1 and no error; an unknown topic has an error.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from kcli.broker.config.config_definition import view
from kcli.broker.config.config_entries import DescribedConfigs
from kcli.broker.config.group_definitions import GroupConfig
from kcli.broker.controller.replication_control import NewPartitions, NewTopic, TopicDefaults
from kcli.broker.network.authorization import (
    authorize_topics,
    authorized_operations,
    is_cluster_authorized,
)
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.create_partitions import CreatePartitionsResponse, CreatePartitionsTopicResult
from kcli.protocol.messages.create_topics import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from kcli.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from kcli.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kcli.protocol.topics import INTERNAL_TOPICS, METADATA_TOPIC, check_topic_name
from kcli.protocol.uuids import ZERO_UUID
from kcli.security.acl import Operation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kcli.broker.config.broker_config import BrokerConfig
    from kcli.broker.metadata.metadata_image import MetadataImage, PartitionRegistration, TopicImage
    from kcli.broker.network.request_context import RequestContext
    from kcli.protocol.messages.create_partitions import CreatePartitionsRequest
    from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
    from kcli.protocol.messages.delete_topics import DeleteTopicsRequest
    from kcli.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest


T = TypeVar("T")


def topic_defaults(config: BrokerConfig) -> TopicDefaults:
    """Return the defaults of this node for new topics."""
    return TopicDefaults(
        partitions=config.num_partitions,
        replication_factor=config.default_replication_factor,
        configs=config.topic_defaults,
        groups=view(GroupConfig, config),
    )


def create_topics(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    """Create topics, or with `validate_only` check that they can be created."""
    config = context.node.config
    accepted: list[CreatableTopic] = []
    names = [topic.name for topic in request.topics]
    denied = authorize_topics(context, Operation.CREATE, names, cluster=Operation.CREATE)
    refused = {
        name: KafkaError(ErrorCode.INVALID_REQUEST, "named twice") for name in sorted(_repeated(names))
    }
    for topic in request.topics:
        if topic.name in denied:
            refused.setdefault(topic.name, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif topic.name == METADATA_TOPIC:
            refused[topic.name] = KafkaError(ErrorCode.INVALID_REQUEST, "it is reserved for the controller")
        elif topic.name not in refused:
            accepted.append(topic)
    results = [_not_created(name, error) for name, error in refused.items()]
    outcomes = context.node.controller.create_topics(
        [_new_topic(topic) for topic in accepted],
        defaults=topic_defaults(config),
        validate_only=request.validate_only,
    )
    shown = (topic.name for topic in accepted)
    unshown = authorize_topics(context, Operation.DESCRIBE_CONFIGS, shown, hides=True)
    for topic, outcome in zip(accepted, outcomes, strict=True):
        if isinstance(outcome, KafkaError):
            results.append(_not_created(topic.name, outcome))
        elif topic.name in unshown:
            results.append(_created_unshown(outcome))
        else:
            results.append(_created(config, topic, outcome))
    return CreateTopicsResponse(topics=results)


def delete_topics(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    """Delete topics by name or by id."""
    broker = context.node
    if not broker.config.delete_topic_enable:
        if context.api_version < 3:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "topic deletion is disabled")
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED)
    wanted, results = _authorize_deletions(_topics_to_delete(request), context)
    found, refused = _find_topics(broker.image, wanted)
    results += refused
    by_name = {name for name, _ in wanted}
    outcomes = broker.controller.delete_topics(topic.topic_id for topic in found)
    for topic, outcome in zip(found, outcomes, strict=True):
        # For a topic given by id, Kafka returns the name only if it was found.
        result = DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)
        if isinstance(outcome, KafkaError):
            result.name = topic.name if topic.name in by_name else None
            result.error_code, result.error_message = outcome.code, outcome.message
        results.append(result)
    return DeleteTopicsResponse(responses=results)


def failed_delete_topics(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(responses=[_not_deleted(*each, error) for each in _topics_to_delete(request)])


def create_partitions(request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    """Add partitions to topics, or with `validate_only` check that they can be added."""
    names = [topic.name for topic in request.topics]
    repeated = _repeated(names)
    results = [
        CreatePartitionsTopicResult(
            name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="named twice"
        )
        for name in sorted(repeated)
    ]
    denied = authorize_topics(context, Operation.ALTER, names)
    results += [
        CreatePartitionsTopicResult(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for name in sorted(denied - repeated)
    ]
    accepted = [topic for topic in request.topics if topic.name not in repeated | denied]
    wanted = [
        NewPartitions(
            topic.name,
            topic.count,
            None if topic.assignments is None else [each.broker_ids for each in topic.assignments],
        )
        for topic in accepted
    ]
    outcomes = context.node.controller.create_partitions(wanted, validate_only=request.validate_only)
    for topic, outcome in zip(accepted, outcomes, strict=True):
        result = CreatePartitionsTopicResult(name=topic.name)
        if isinstance(outcome, KafkaError):
            result.error_code, result.error_message = outcome.code, outcome.message
        results.append(result)
    return CreatePartitionsResponse(results=results)


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
            for entry in DescribedConfigs(config).new_topic(overrides)
        ],
    )


def _created_unshown(created: TopicImage) -> CreatableTopicResult:
    """Return the row of a new topic whose configuration the principal may not see (KIP-525)."""
    return CreatableTopicResult(
        name=created.name,
        topic_id=created.topic_id,
        topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        configs=[],
    )


def _topics_to_delete(request: DeleteTopicsRequest) -> list[tuple[str | None, bytes]]:
    return [
        *((name, ZERO_UUID) for name in request.topic_names),
        *((topic.name, topic.topic_id) for topic in request.topics),
    ]


def _authorize_deletions(
    wanted: list[tuple[str | None, bytes]], context: RequestContext
) -> tuple[list[tuple[str | None, bytes]], list[DeletableTopicResult]]:
    """Return the topics that may be deleted, and the rows for the others, which hide invisible topics."""
    if is_cluster_authorized(context, Operation.DELETE, is_alternative=True):
        return wanted, []
    image = context.node.image
    repeated = _repeated(wanted)
    by_id = {id: topic.name for _, id in wanted if (topic := image.topics_by_id.get(id)) is not None}
    names = [by_id.get(topic_id) if name is None else name for name, topic_id in wanted]
    known = [name for name in names if name is not None]
    hidden = authorize_topics(context, Operation.DESCRIBE, known)
    denied = authorize_topics(context, Operation.DELETE, known)
    allowed, rows = [], []
    for each, name in dict(zip(wanted, names, strict=True)).items():
        is_denied = name in hidden or (name in denied and name in image.topics)
        if is_denied and each not in repeated and None in (each[0], each[1].strip(b"\0") or None):
            shown = each[0] if name in hidden else name
            rows.append(_not_deleted(shown, each[1], KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
        else:
            allowed += [each] * wanted.count(each)
    return allowed, rows


def _not_deleted(name: str | None, topic_id: bytes, error: KafkaError) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=error.code, error_message=error.message
    )


def _find_topics(
    image: MetadataImage, wanted: list[tuple[str | None, bytes]]
) -> tuple[list[TopicImage], list[DeletableTopicResult]]:
    """Return the topics to delete, and the rows for unknown and repeated ones."""
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
    topic = image.topics_by_id.get(topic_id) if name is None else image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic


def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, context: RequestContext
) -> DescribeTopicPartitionsResponse:
    """Return one page."""
    image = context.node.image
    cursor = request.cursor
    names = _names(request, image)
    denied = authorize_topics(context, Operation.DESCRIBE, names)
    limit = context.node.config.max_request_partition_size_limit
    reachable = image.reachable_brokers(context.listener_name).keys()
    remaining = max(min(limit, request.response_partition_limit), 1)
    response = DescribeTopicPartitionsResponse(topics=[])
    for name in names:
        if name in denied:
            continue
        if remaining <= 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.get(name)
        if topic is None:
            response.topics.append(_unknown(name, context))
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        end = min(len(topic.partitions), first + remaining)
        response.topics.append(_topic(topic, range(first, end), context, reachable))
        if end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
        remaining -= max(end - first, 0)
    if request.topics:
        # Outside of any page: Kafka does not even look whether they exist.
        response.topics += [_hidden(name) for name in names if name in denied]
    return response


def _names(request: DescribeTopicPartitionsRequest, image: MetadataImage) -> list[str]:
    """Return the names to describe, from the cursor on."""
    cursor = request.cursor
    asked = {topic.name for topic in request.topics}
    if cursor is not None and cursor.partition_index < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"a cursor at partition {cursor.partition_index}")
    if cursor is not None and asked and cursor.topic_name not in asked:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"the cursor's topic is not asked for: {cursor.topic_name}"
        )
    start = "" if cursor is None else cursor.topic_name
    return sorted(name for name in asked or image.topics if name >= start)


def _hidden(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, topic_id=ZERO_UUID, partitions=[]
    )


def _unknown(name: str, context: RequestContext) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except KafkaError as error:
        code = error.code
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=authorized_operations(context, ResourceType.TOPIC, name),
    )


def _topic(
    topic: TopicImage, indexes: range, context: RequestContext, reachable: Collection[int]
) -> DescribeTopicPartitionsResponseTopic:
    image = context.node.image
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(index, topic.partitions[index], image, reachable) for index in indexes],
        topic_authorized_operations=authorized_operations(context, ResourceType.TOPIC, topic.name),
    )


def _partition(
    index: int, partition: PartitionRegistration, image: MetadataImage, reachable: Collection[int]
) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=partition.leader if partition.leader in reachable else -1,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=image.offline_replicas(partition, reachable),
    )
