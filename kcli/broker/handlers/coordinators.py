"""FindCoordinator: the broker that coordinates a group (KIP-699 several at once, KIP-932 share groups).

* The coordinator of a group leads the partition of `__consumer_offsets` that the group's name hashes to. The
  first request creates that topic.
* Addresses are those of the request's listener; a coordinator without it is COORDINATOR_NOT_AVAILABLE.
* There is no transaction coordinator: CLUSTER_AUTHORIZATION_FAILED with a message. At this error alone both
  librdkafka and Kafka's producer give up at once and show the message: librdkafka repeats the request after
  any other except TRANSACTIONAL_ID_AUTHORIZATION_FAILED, for which Kafka's producer shows a text of its own.
  The first such request of a connection is logged.
* There are no share groups: INVALID_REQUEST, as in a Kafka with share groups switched off.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kcli.broker.config.group_definitions import group_topic_configs
from kcli.broker.controller.replication_control import NewTopic, TopicDefaults
from kcli.broker.network.access import Operation
from kcli.broker.network.authorization import authorize_cluster, authorize_group, authorize_transactional_id
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from kcli.protocol.topics import GROUP_METADATA_TOPIC, partition_for

if TYPE_CHECKING:
    from kcli.broker.metadata.metadata_image import TopicImage
    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.node_context import NodeContext
    from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest

NO_TRANSACTIONS = "kcli has no transactions yet"

_FIRST_BATCHED_VERSION = 4
_GROUP = 0
_TRANSACTION = 1
_SHARE = 2
_log = logging.getLogger(__name__)


def find_coordinator(request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    """Return the address of the coordinator of each key, or an error."""
    if request.key_type == _SHARE:
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
            return _group_coordinator(key, context)
        if key_type == _TRANSACTION:
            authorize_transactional_id(context, Operation.DESCRIBE, key)
        raise _no_such_coordinator(key_type, context)
    except KafkaError as error:
        return _not_found(key, error)


def _group_coordinator(group_id: str, context: RequestContext) -> Coordinator:
    node = context.node
    topic = group_metadata_topic(node)
    leader = topic.partitions[partition_for(group_id, len(topic.partitions))].leader
    for registration, endpoint in node.image.brokers_with_listener(context.listener_name, [leader]):
        if not registration.fenced:
            return Coordinator(
                key=group_id, node_id=leader, host=endpoint.host, port=endpoint.port, error_message=None
            )
    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator cannot be reached at present")


def group_metadata_topic(node: NodeContext) -> TopicImage:
    """Return the topic of groups and offsets, and create it if it is missing.

    It gets as many replicas as configured, or as there are active brokers: Kafka waits for more brokers, and
    a cluster of one node would wait forever. Raises `KafkaError` COORDINATOR_NOT_AVAILABLE.
    """
    topic = node.image.topics.get(GROUP_METADATA_TOPIC)
    if topic is not None:
        return topic
    config, controller = node.config, node.controller
    replicas = sum(each.is_active for each in node.image.brokers.values())
    wanted = NewTopic(
        GROUP_METADATA_TOPIC,
        config.offsets_topic_num_partitions,
        max(min(config.offsets_topic_replication_factor, replicas), 1),
        configs=group_topic_configs(config),
    )
    (outcome,) = controller.create_topics([wanted], defaults=TopicDefaults(configs=config.topic_defaults))
    if isinstance(outcome, KafkaError):
        _log.error("cannot create `%s`: %s", GROUP_METADATA_TOPIC, outcome.message)
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, outcome.message)
    return node.image.topics.get(GROUP_METADATA_TOPIC, outcome)


def _no_such_coordinator(key_type: int, context: RequestContext) -> KafkaError:
    if key_type != _TRANSACTION:
        return KafkaError(ErrorCode.INVALID_REQUEST, f"there is no coordinator of type {key_type}")
    if not context.warned_no_transactions:
        context.warned_no_transactions = True
        _log.warning(
            "client `%s` from %s asks for a transaction coordinator: %s",
            context.client_id,
            context.peer_address,
            NO_TRANSACTIONS,
        )
    return KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, NO_TRANSACTIONS)


def _not_found(key: str, error: KafkaError) -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=error.message
    )
