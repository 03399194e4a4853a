"""FindCoordinator: the broker that coordinates a group or a transactional id (KIP-699 several at once).

* The coordinator of a group leads the partition of `__consumer_offsets` that the group's name hashes to, that
  of a transactional id the same of `__transaction_state`. The first request creates the topic, and is
  answered with the leader: Kafka answers COORDINATOR_NOT_AVAILABLE once.
* Addresses are those of the request's listener; a coordinator without it is COORDINATOR_NOT_AVAILABLE.
* There are no share groups (KIP-932): INVALID_REQUEST, as in a Kafka with share groups switched off.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kcli.broker.config.group_definitions import group_topic_configs
from kcli.broker.config.transaction_definitions import transaction_topic_configs
from kcli.broker.controller.replication_control import NewTopic, TopicDefaults
from kcli.broker.network.authorization import authorize_cluster, authorize_group, authorize_transactional_id
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from kcli.protocol.topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, partition_for
from kcli.security.acl import Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kcli.broker.metadata.metadata_image import TopicImage
    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.node_context import NodeContext
    from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest

_FIRST_BATCHED_VERSION = 4
_FIRST_SHARE_VERSION = 6
_GROUP = 0
_TRANSACTION = 1
_SHARE = 2
_log = logging.getLogger(__name__)


def find_coordinator(request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    """Return the address of the coordinator of each key, or an error."""
    is_of_share = request.key_type == _SHARE and context.api_version >= _FIRST_SHARE_VERSION
    if is_of_share and request.coordinator_keys:
        authorize_cluster(context, Operation.CLUSTER_ACTION)
    if context.api_version < _FIRST_BATCHED_VERSION:
        found = _coordinator(request.key, request.key_type, context)
        return FindCoordinatorResponse(
            error_code=found.error_code,
            # Kafka's brokers send the name of the code even if it is no error.
            error_message=found.error_message or ErrorCode.of(found.error_code).name,
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )
    return FindCoordinatorResponse(
        coordinators=[_coordinator(key, request.key_type, context) for key in request.coordinator_keys]
    )


def failed_find_coordinator(request: FindCoordinatorRequest, error: KafkaError) -> FindCoordinatorResponse:
    if request.coordinator_keys:
        return FindCoordinatorResponse(
            coordinators=[_not_found(key, error) for key in request.coordinator_keys]
        )
    return FindCoordinatorResponse(
        error_code=error.code, error_message=error.message, node_id=-1, host="", port=-1
    )


def _coordinator(key: str, key_type: int, context: RequestContext) -> Coordinator:
    try:
        if key_type == _GROUP:
            authorize_group(context, Operation.DESCRIBE, key)
            return _leader(key, group_metadata_topic(context.node), context)
        if key_type == _TRANSACTION:
            authorize_transactional_id(context, Operation.DESCRIBE, key)
            return _leader(key, transaction_state_topic(context.node), context)
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no coordinator of type {key_type}")
    except KafkaError as error:
        return _not_found(key, error)


def _leader(key: str, topic: TopicImage, context: RequestContext) -> Coordinator:
    node = context.node
    leader = topic.partitions[partition_for(key, len(topic.partitions))].leader
    for registration, endpoint in node.image.brokers_with_listener(context.listener_name, [leader]):
        if not registration.fenced:
            return Coordinator(
                key=key, node_id=leader, host=endpoint.host, port=endpoint.port, error_message=None
            )
    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator cannot be reached at present")


def group_metadata_topic(node: NodeContext) -> TopicImage:
    """Return the topic of groups and offsets; otherwise as `_internal_topic`."""
    config = node.config
    return _internal_topic(
        node,
        GROUP_METADATA_TOPIC,
        partitions=config.offsets_topic_num_partitions,
        replication_factor=config.offsets_topic_replication_factor,
        configs=lambda _replicas: group_topic_configs(config),
    )


def transaction_state_topic(node: NodeContext) -> TopicImage:
    """Return the topic of transactional ids; otherwise as `_internal_topic`."""
    config = node.config
    return _internal_topic(
        node,
        TRANSACTION_STATE_TOPIC,
        partitions=config.transaction_state_log_num_partitions,
        replication_factor=config.transaction_state_log_replication_factor,
        configs=lambda replicas: transaction_topic_configs(config, replicas),
    )


def _internal_topic(
    node: NodeContext,
    name: str,
    *,
    partitions: int,
    replication_factor: int,
    configs: Callable[[int], Mapping[str, str]],
) -> TopicImage:
    """Return the topic of a coordinator, and create it if it is missing, with `configs(replicas)`.

    It gets as many replicas as configured, or as there are active brokers: Kafka waits for more brokers, and
    a cluster of one node would wait forever. Raises `KafkaError` COORDINATOR_NOT_AVAILABLE.
    """
    topic = node.image.topics.get(name)
    if topic is not None:
        return topic
    active = sum(each.is_active for each in node.image.brokers.values())
    replicas = max(min(replication_factor, active), 1)
    wanted = NewTopic(name, partitions, replicas, configs=configs(replicas))
    defaults = TopicDefaults(configs=node.config.topic_defaults)
    (outcome,) = node.controller.create_topics([wanted], defaults=defaults)
    if isinstance(outcome, KafkaError):
        _log.error("cannot create `%s`: %s", name, outcome.message)
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, outcome.message)
    return node.image.topics.get(name, outcome)


def _not_found(key: str, error: KafkaError) -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=error.message
    )
