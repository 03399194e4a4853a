"""The cluster as a whole: DescribeCluster, DescribeQuorum, UpdateFeatures, UnregisterBroker.

* DescribeCluster (KIP-700, KIP-919, KIP-1073) lists brokers with the address of the request's listener,
  fenced ones only if asked for (version 2). Every node may be the controller and forwards requests to it, so
  the endpoints of controllers (type 2) are the same; Kafka's brokers refuse that type.
* DescribeQuorum (KIP-595, KIP-836, KIP-853): the only such log is `__cluster_metadata` partition 0; any other
  is UNKNOWN_TOPIC_OR_PARTITION. Every node keeps a copy and may become the controller, so all nodes are
  voters. The controller writes to all copies itself, so everything it has written is committed. The endpoint
  of a voter (version 2) is that of the request's listener.
* UpdateFeatures (KIP-584) changes all features or none, and answers with the first error. Version 0 says only
  whether a level may go down, later ones how (KIP-778). From version 2 on there is one result for all
  features.
* A broker that runs is not unregistered: POLICY_VIOLATION. Apache Kafka unregisters even the only one, whose
  partitions have no leader then until its next start; a request cannot say that this is wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.controller.feature_control import FeatureUpdate, UpgradeType
from kcli.broker.handlers.metadata import known_controller
from kcli.broker.network.authorization import NOT_ASKED_FOR, authorize_cluster, cluster_operations
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from kcli.protocol.messages.describe_quorum import (
    DescribedPartition,
    DescribedTopic,
    DescribeQuorumResponse,
    QuorumListener,
    QuorumNode,
    ReplicaState,
)
from kcli.protocol.messages.unregister_broker import UnregisterBrokerResponse
from kcli.protocol.messages.update_features import UpdatableFeatureResult, UpdateFeaturesResponse
from kcli.protocol.topics import METADATA_TOPIC
from kcli.security.acl import Operation

if TYPE_CHECKING:
    from kcli.broker.controller.quorum_view import QuorumReplica
    from kcli.broker.network.request_context import RequestContext
    from kcli.protocol.messages.describe_cluster import DescribeClusterRequest
    from kcli.protocol.messages.describe_quorum import DescribeQuorumRequest
    from kcli.protocol.messages.unregister_broker import UnregisterBrokerRequest
    from kcli.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest


_BROKERS, _CONTROLLERS = 1, 2


def describe_cluster(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    """Return the cluster id, the controller and the brokers of the metadata image."""
    broker = context.node
    if request.endpoint_type not in (_BROKERS, _CONTROLLERS):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"there is no endpoint type {request.endpoint_type}"
        )
    image, listener_name = broker.image, context.listener_name
    brokers = [
        DescribeClusterBroker(
            broker_id=registration.node_id,
            host=endpoint.host,
            port=endpoint.port,
            rack=registration.rack,
            is_fenced=registration.fenced,
        )
        for registration, endpoint in image.brokers_with_listener(listener_name)
        if request.include_fenced_brokers or not registration.fenced
    ]
    return DescribeClusterResponse(
        endpoint_type=request.endpoint_type,
        cluster_id=broker.cluster_id,
        controller_id=known_controller(context, image.reachable_brokers(listener_name)),
        brokers=brokers,
        cluster_authorized_operations=(
            cluster_operations(context) if request.include_cluster_authorized_operations else NOT_ASKED_FOR
        ),
    )


def unregister_broker(request: UnregisterBrokerRequest, context: RequestContext) -> UnregisterBrokerResponse:
    """Remove the registration of a broker that is fenced."""
    authorize_cluster(context, Operation.ALTER)
    context.node.controller.unregister_broker(node_id=request.broker_id, only_fenced=True)
    return UnregisterBrokerResponse()


def update_features(request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    """Change the levels of features, or with `validate_only` check that they can be changed."""
    authorize_cluster(context, Operation.ALTER)
    version = context.api_version
    context.node.controller.update_features(
        [
            FeatureUpdate(each.feature, each.max_version_level, _upgrade_type(each, version))
            for each in request.feature_updates
        ],
        validate_only=request.validate_only,
    )
    rows = request.feature_updates if version <= 1 else ()
    return UpdateFeaturesResponse(results=[UpdatableFeatureResult(feature=each.feature) for each in rows])


def _upgrade_type(update: FeatureUpdateKey, version: int) -> UpgradeType:
    if version == 0:
        return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    if update.upgrade_type not in set(UpgradeType):
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"unknown upgrade type {update.upgrade_type} of `{update.feature}`",
        )
    return UpgradeType(update.upgrade_type)


def describe_quorum(request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
    """Return the leader, the voters and their offsets of the metadata log."""
    authorize_cluster(context, Operation.DESCRIBE)
    broker = context.node
    asked = [
        (topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in request.topics
    ]
    if asked != [(METADATA_TOPIC, [0])]:
        return _unknown(request)
    view, now_ms = broker.controller.quorum(), broker.wall_ms()
    described = DescribedPartition(
        partition_index=0,
        leader_id=view.leader_id,
        leader_epoch=view.leader_epoch,
        high_watermark=view.end_offset,
        current_voters=[_replica_state(replica, now_ms) for replica in view.replicas],
    )
    response = DescribeQuorumResponse(
        topics=[DescribedTopic(topic_name=METADATA_TOPIC, partitions=[described])]
    )
    if context.api_version >= 2:
        for state, replica in zip(described.current_voters, view.replicas, strict=True):
            state.replica_directory_id = replica.directory
        voters = [replica.node_id for replica in view.replicas]
        response.nodes = [
            QuorumNode(
                node_id=registration.node_id,
                listeners=[QuorumListener(name=endpoint.name, host=endpoint.host, port=endpoint.port)],
            )
            for registration, endpoint in broker.image.brokers_with_listener(context.listener_name, voters)
        ]
    return response


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return DescribeQuorumResponse(
        topics=[
            DescribedTopic(
                topic_name=topic.topic_name,
                partitions=[
                    DescribedPartition(
                        partition_index=each.partition_index,
                        error_code=error.code,
                        error_message=error.message,
                        leader_id=0,
                        leader_epoch=0,
                        high_watermark=0,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _replica_state(replica: QuorumReplica, now_ms: int) -> ReplicaState:
    return ReplicaState(
        replica_id=replica.node_id,
        log_end_offset=replica.end_offset,
        last_fetch_timestamp=-1 if replica.heard_ago_ms is None else now_ms - replica.heard_ago_ms,
        last_caught_up_timestamp=-1 if replica.level_ago_ms is None else now_ms - replica.level_ago_ms,
    )
