"""The API table: what the broker speaks. ApiVersions is this table.

An API is in it only if it works. The ranges go from the lowest version of Kafka 3.9 to the highest of 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kcli.broker.handlers import (
    api_versions,
    cluster,
    cluster_admin,
    configs,
    consumer_groups,
    coordinators,
    delete_records,
    describe_producers,
    elections,
    fetch,
    groups,
    init_producer_id,
    list_offsets,
    log_dirs,
    metadata,
    offset_for_leader_epoch,
    offsets,
    produce,
    produce_direct,
    produce_wire,
    quorum,
    reassignments,
    topic_partitions,
    topics,
)
from kcli.protocol.messages.alter_configs import AlterConfigsRequest
from kcli.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kcli.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kcli.protocol.messages.create_partitions import CreatePartitionsRequest
from kcli.protocol.messages.create_topics import CreateTopicsRequest
from kcli.protocol.messages.delete_groups import DeleteGroupsRequest
from kcli.protocol.messages.delete_records import DeleteRecordsRequest
from kcli.protocol.messages.delete_topics import DeleteTopicsRequest
from kcli.protocol.messages.describe_cluster import DescribeClusterRequest
from kcli.protocol.messages.describe_configs import DescribeConfigsRequest
from kcli.protocol.messages.describe_groups import DescribeGroupsRequest
from kcli.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kcli.protocol.messages.describe_producers import DescribeProducersRequest
from kcli.protocol.messages.describe_quorum import DescribeQuorumRequest
from kcli.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kcli.protocol.messages.elect_leaders import ElectLeadersRequest
from kcli.protocol.messages.fetch import FetchRequest
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.heartbeat import HeartbeatRequest
from kcli.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.join_group import JoinGroupRequest
from kcli.protocol.messages.leave_group import LeaveGroupRequest
from kcli.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kcli.protocol.messages.list_groups import ListGroupsRequest
from kcli.protocol.messages.list_offsets import ListOffsetsRequest
from kcli.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.messages.offset_commit import OffsetCommitRequest
from kcli.protocol.messages.offset_delete import OffsetDeleteRequest
from kcli.protocol.messages.offset_fetch import OffsetFetchRequest
from kcli.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kcli.protocol.messages.produce import ProduceRequest
from kcli.protocol.messages.sync_group import SyncGroupRequest
from kcli.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kcli.protocol.messages.update_features import UpdateFeaturesRequest
from kcli.protocol.schema import codec, message_info

if TYPE_CHECKING:
    from kcli.protocol.error_codes import KafkaError


Decoder = Callable[[memoryview, int, int], tuple[Any, int]]
"""Reads `buffer[position:end]`; returns the request and where it ended. Raises `DecodeError`."""


Direct = Callable[[Any, memoryview, int, int], Any]
"""Handles an API's commonest requests in one step: what lies behind the client id, `buffer[position:end]`.

Returns the whole frame of the answer, or a response, or None: the request is to be handled like any other.
"""


class Api:
    """One API: its request, the versions served, what answers it and what answers when that fails.

    `failed(request, error)` makes the error response, or returns None where only closing the connection
    tells the client. `decoder` gives what reads a request body of a version, as a rule the generated codec.
    `direct` is a shortcut for the commonest requests. With `sends_files` record data in the response may be
    slices of files.
    """

    __slots__ = (
        "decoder",
        "direct",
        "failed",
        "handler",
        "key",
        "max_version",
        "min_version",
        "name",
        "request",
        "sends_files",
    )

    def __init__(
        self,
        request: type[Any],
        versions: str,
        handler: Callable[[Any, Any], Any],
        failed: Callable[[Any, KafkaError], Any] | None = None,
        *,
        decoder: Callable[[int], Decoder] | None = None,
        direct: Direct | None = None,
        sends_files: bool = False,
    ) -> None:
        info = message_info(request)
        lowest, _, highest = versions.partition("-")
        self.request = request
        self.key = info.key
        self.name = info.name
        self.min_version = int(lowest)
        self.max_version = int(highest or lowest)
        self.handler = handler
        self.failed = failed
        self.decoder = decoder or (lambda version: codec(request, version).decode)
        self.direct = direct
        self.sends_files = sends_files


APIS = (
    Api(
        ProduceRequest,
        "0-13",
        produce.produce,
        produce.failed,
        decoder=produce_wire.decoder,
        direct=produce_direct.produce_directly,
    ),
    Api(FetchRequest, "0-18", fetch.fetch, fetch.failed, sends_files=True),
    Api(ListOffsetsRequest, "0-11", list_offsets.list_offsets, list_offsets.failed),
    Api(MetadataRequest, "0-13", metadata.metadata, metadata.failed),
    Api(OffsetCommitRequest, "0-10", offsets.offset_commit, offsets.failed_offset_commit),
    Api(OffsetFetchRequest, "0-10", offsets.offset_fetch, offsets.failed_offset_fetch),
    Api(FindCoordinatorRequest, "0-6", coordinators.find_coordinator, coordinators.failed),
    Api(JoinGroupRequest, "0-9", groups.join_group, groups.failed_join_group),
    Api(HeartbeatRequest, "0-4", groups.heartbeat, groups.failed_heartbeat),
    Api(LeaveGroupRequest, "0-5", groups.leave_group, groups.failed_leave_group),
    Api(SyncGroupRequest, "0-5", groups.sync_group, groups.failed_sync_group),
    Api(DescribeGroupsRequest, "0-6", groups.describe_groups, groups.failed_describe_groups),
    Api(ListGroupsRequest, "0-5", groups.list_groups, groups.failed_list_groups),
    Api(ApiVersionsRequest, "0-4", api_versions.api_versions),
    Api(CreateTopicsRequest, "0-7", topics.create_topics, topics.failed_create_topics),
    Api(DeleteTopicsRequest, "0-6", topics.delete_topics, topics.failed_delete_topics),
    Api(DeleteRecordsRequest, "0-2", delete_records.delete_records, delete_records.failed),
    Api(InitProducerIdRequest, "0-5", init_producer_id.init_producer_id, init_producer_id.failed),
    Api(
        OffsetForLeaderEpochRequest,
        "0-4",
        offset_for_leader_epoch.offset_for_leader_epoch,
        offset_for_leader_epoch.failed,
    ),
    Api(DescribeConfigsRequest, "0-4", configs.describe_configs, configs.failed_describe_configs),
    Api(AlterConfigsRequest, "0-2", configs.alter_configs, configs.failed_alter_configs),
    Api(
        AlterReplicaLogDirsRequest,
        "0-2",
        log_dirs.alter_replica_log_dirs,
        log_dirs.failed_alter_replica_log_dirs,
    ),
    Api(DescribeLogDirsRequest, "0-5", log_dirs.describe_log_dirs, log_dirs.failed),
    Api(CreatePartitionsRequest, "0-3", topics.create_partitions, topics.failed_create_partitions),
    Api(DeleteGroupsRequest, "0-2", groups.delete_groups, groups.failed_delete_groups),
    Api(ElectLeadersRequest, "0-2", elections.elect_leaders, elections.failed_elect_leaders),
    Api(
        IncrementalAlterConfigsRequest,
        "0-1",
        configs.incremental_alter_configs,
        configs.failed_incremental_alter_configs,
    ),
    Api(
        AlterPartitionReassignmentsRequest,
        "0-1",
        reassignments.alter_partition_reassignments,
        reassignments.failed_alter_partition_reassignments,
    ),
    Api(
        ListPartitionReassignmentsRequest,
        "0",
        reassignments.list_partition_reassignments,
        reassignments.failed_list_partition_reassignments,
    ),
    Api(OffsetDeleteRequest, "0", offsets.offset_delete, offsets.failed_offset_delete),
    Api(DescribeQuorumRequest, "0-2", quorum.describe_quorum, quorum.failed),
    Api(UpdateFeaturesRequest, "0-2", cluster_admin.update_features, cluster_admin.failed_update_features),
    Api(DescribeClusterRequest, "0-2", cluster.describe_cluster, cluster.failed),
    Api(DescribeProducersRequest, "0", describe_producers.describe_producers, describe_producers.failed),
    Api(
        UnregisterBrokerRequest, "0", cluster_admin.unregister_broker, cluster_admin.failed_unregister_broker
    ),
    Api(
        ConsumerGroupHeartbeatRequest,
        "0-1",
        consumer_groups.consumer_group_heartbeat,
        consumer_groups.failed_consumer_group_heartbeat,
    ),
    Api(
        ConsumerGroupDescribeRequest,
        "0-1",
        consumer_groups.consumer_group_describe,
        consumer_groups.failed_consumer_group_describe,
    ),
    Api(
        ListConfigResourcesRequest, "0-1", configs.list_config_resources, configs.failed_list_config_resources
    ),
    Api(
        DescribeTopicPartitionsRequest,
        "0",
        topic_partitions.describe_topic_partitions,
        topic_partitions.failed_describe_topic_partitions,
    ),
)
