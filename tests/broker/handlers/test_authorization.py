"""Every handler and every short path asks before it does anything: at least one row for each API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kcli.broker.handlers.fetch import short_path as short_fetch
from kcli.broker.handlers.produce import short_path as short_produce
from kcli.broker.network.apis import APIS
from kcli.broker.network.request_context import CloseConnection, RequestContext
from kcli.broker.network.request_engine import RequestEngine
from kcli.broker.network.responses import frame_of
from kcli.protocol.frames import RequestHeader, decode_response, encode_request
from kcli.protocol.messages import alter_client_quotas as quotas
from kcli.protocol.messages import alter_configs as legacy
from kcli.protocol.messages import alter_partition_reassignments as reassignments
from kcli.protocol.messages import alter_replica_log_dirs as log_dirs
from kcli.protocol.messages import describe_configs as configs
from kcli.protocol.messages import incremental_alter_configs as incremental
from kcli.protocol.messages import offset_commit, offset_delete, offset_fetch
from kcli.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kcli.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kcli.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kcli.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kcli.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kcli.protocol.messages.delete_groups import DeleteGroupsRequest
from kcli.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kcli.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kcli.protocol.messages.describe_acls import DescribeAclsRequest
from kcli.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from kcli.protocol.messages.describe_cluster import DescribeClusterRequest
from kcli.protocol.messages.describe_groups import DescribeGroupsRequest
from kcli.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kcli.protocol.messages.describe_producers import DescribeProducersRequest
from kcli.protocol.messages.describe_producers import TopicRequest as ProducersOfTopic
from kcli.protocol.messages.describe_quorum import DescribeQuorumRequest
from kcli.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kcli.protocol.messages.describe_topic_partitions import TopicRequest as PartitionsOfTopic
from kcli.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kcli.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kcli.protocol.messages.elect_leaders import ElectLeadersRequest
from kcli.protocol.messages.end_txn import EndTxnRequest
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.heartbeat import HeartbeatRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.join_group import JoinGroupRequest
from kcli.protocol.messages.leave_group import LeaveGroupRequest
from kcli.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kcli.protocol.messages.list_groups import ListGroupsRequest
from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcli.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kcli.protocol.messages.list_transactions import ListTransactionsRequest
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kcli.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kcli.protocol.messages.produce import ProduceRequest
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kcli.protocol.messages.sync_group import SyncGroupRequest
from kcli.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kcli.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kcli.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kcli.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from kcli.protocol.schema.declaration import message_info
from kcli.protocol.schema.fields import fields_of
from kcli.protocol.uuids import ZERO_UUID
from kcli.security.acl import Operation, ResourceType
from kcli.security.principal import ANONYMOUS, Principal
from tests.broker.records import batch, fetch_request, fill, produce_request
from tests.broker.single_node import LISTENER, connected, running_node
from tests.broker.transactions.markers import writable_marker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.broker.single_node import Node

TOPIC, GROUP, CLUSTER, TRANSACTION = 29, 30, 31, 53
"""The errors that deny."""


class Recorder:
    """An authorizer's answers for one connection: `allows` all or nothing, and remembers every question."""

    def __init__(self, *, allows: bool) -> None:
        self.allows = allows
        self.asked: set[str] = set()
        self.noted: list[tuple[str, int]] = []

    def may(self, operation: Operation, type: ResourceType, name: str) -> bool:
        self.asked.add(f"{operation.name} {type.name} {name}")
        return self.allows

    def may_any(self, operation: Operation, type: ResourceType) -> bool:
        self.asked.add(f"{operation.name} {type.name} any")
        return self.allows

    notes_allowances = False

    def note(self, api_key: int, operation: Operation, type: ResourceType, name: str, count: int) -> None:
        self.noted.append((f"{operation.name} {type.name} {name}", count))


class Selective(Recorder):
    """Allows everything with resources of some types, and nothing else."""

    def __init__(self, *types: ResourceType) -> None:
        super().__init__(allows=False)
        self.types = types

    def may(self, operation: Operation, type: ResourceType, name: str) -> bool:
        super().may(operation, type, name)
        return type in self.types


async def ask(node: Node, request: object, version: int, access: Recorder | None) -> Any:
    """Feed a request to an engine as a connection does; return the response, None if there is none."""
    key = message_info(type(request)).key
    frame = memoryview(bytearray(encode_request(RequestHeader(key, version, 1, "test"), request)))
    context = RequestContext(node, LISTENER, "here", APIS)  # type: ignore[arg-type]
    context.access = access
    response = RequestEngine(APIS).feed(context, frame, 4, len(frame))
    parts = await frame_of(response, node.purgatory)
    whole = b"".join(part if isinstance(part, bytes) else part.read() for part in parts)
    return decode_response(key, version, memoryview(whole)[4:])[1] if parts else None


def errors(value: Any) -> Iterator[int]:
    """Yield every error code in a response."""
    for field in fields_of(type(value)):
        content = getattr(value, field.name)
        if field.name in ("error_code", "topic_config_error_code", "partition_error_code"):
            yield content
        elif field.struct is not None and content is not None:
            for each in content if field.is_array else (content,):
                yield from errors(each)


def configs_of(kind: int, name: str) -> list[configs.DescribeConfigsResource]:
    return [configs.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)]


def producing(transactional_id: str | None = None, acks: int = 1) -> ProduceRequest:
    marks: dict[str, Any] = {}
    if transactional_id is not None:
        marks = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    return produce_request("t", batch(b"v", **marks), acks=acks, transactional_id=transactional_id)


def fetching(**fields: Any) -> Any:
    return fetch_request("t", **fields)


def adding(**fields: Any) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(**fields)


def committing() -> offset_commit.OffsetCommitRequest:
    row = offset_commit.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=None
    )
    topic = offset_commit.OffsetCommitRequestTopic(name="t", partitions=[row])
    return offset_commit.OffsetCommitRequest(group_id="g", topics=[topic])


def committing_in_transaction() -> TxnOffsetCommitRequest:
    row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)
    topic = TxnOffsetCommitRequestTopic(name="t", partitions=[row])
    return TxnOffsetCommitRequest(
        transactional_id="tid", group_id="g", producer_id=1, producer_epoch=0, topics=[topic]
    )


def fetching_offsets() -> offset_fetch.OffsetFetchRequest:
    return offset_fetch.OffsetFetchRequest(
        group_id="g", topics=[offset_fetch.OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    )


def deleting_offsets() -> offset_delete.OffsetDeleteRequest:
    row = offset_delete.OffsetDeleteRequestPartition(partition_index=0)
    topic = offset_delete.OffsetDeleteRequestTopic(name="t", partitions=[row])
    return offset_delete.OffsetDeleteRequest(group_id="g", topics=[topic])


def joining() -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g", session_timeout_ms=6000, member_id="", protocol_type="consumer", protocols=[]
    )


def beating(**fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0, **fields)


def listing_offsets() -> ListOffsetsRequest:
    row = ListOffsetsPartition(partition_index=0, timestamp=-1)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[row])])


def asking_for_epochs() -> OffsetForLeaderEpochRequest:
    row = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    return OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[row])])


def deleting_records() -> DeleteRecordsRequest:
    row = DeleteRecordsPartition(partition_index=0, offset=0)
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[row])], timeout_ms=10)


def creating_topics() -> CreateTopicsRequest:
    topic = CreatableTopic(name="new", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    return CreateTopicsRequest(topics=[topic], timeout_ms=10)


def deleting_topics() -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name="t", topic_id=ZERO_UUID)], timeout_ms=10)


def moving(name: str) -> Any:
    topic = reassignments.ReassignableTopic(
        name=name, partitions=[reassignments.ReassignablePartition(partition_index=0, replicas=[1])]
    )
    return reassignments.AlterPartitionReassignmentsRequest(timeout_ms=10, topics=[topic])


def altering(module: Any, kind: int, name: str) -> Any:
    if module is legacy:
        resource = legacy.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
        return legacy.AlterConfigsRequest(resources=[resource], validate_only=False)
    each = incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
    return incremental.IncrementalAlterConfigsRequest(resources=[each], validate_only=False)


ANY_ACL: dict[str, Any] = {
    "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
    "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip
ACL = AclCreation(
    resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3
)
NAMED = [MetadataRequestTopic(name="t"), MetadataRequestTopic(name="new")]
C = "CLUSTER kafka-cluster"
Row = tuple[Any, int, set[str], set[int]]
"""A request, its version, and if all is denied the questions of its handler and the errors it returns."""
ROWS: dict[str, Row] = {
    "Produce, short": (producing(), 9, {"WRITE TOPIC t"}, {TOPIC}),
    "Produce, short and plain": (producing(), 7, {"WRITE TOPIC t"}, {TOPIC}),
    "Produce, full": (producing(), 3, {"WRITE TOPIC t"}, {TOPIC}),
    "Produce, transactional": (producing("x"), 9, {"WRITE TRANSACTIONAL_ID x"}, {TRANSACTION}),
    "Fetch, short": (fetching(session_epoch=-1), 11, {"READ TOPIC t"}, {0, TOPIC}),
    "Fetch, full": (fetching(), 12, {"READ TOPIC t"}, {0, TOPIC}),
    "Fetch of a follower": (fetching(replica_id=2), 12, {f"CLUSTER_ACTION {C}"}, {0, TOPIC}),
    "ListOffsets": (listing_offsets(), 5, {"DESCRIBE TOPIC t"}, {TOPIC}),
    "OffsetForLeaderEpoch": (
        asking_for_epochs(), 4, {f"CLUSTER_ACTION {C}", "DESCRIBE TOPIC t"}, {TOPIC}
    ),
    "DeleteRecords": (deleting_records(), 2, {"DELETE TOPIC t"}, {TOPIC}),
    "Metadata of all": (MetadataRequest(topics=None), 9, {"DESCRIBE TOPIC t"}, {0}),
    "Metadata by name": (
        MetadataRequest(topics=NAMED), 9, {"DESCRIBE TOPIC t", "DESCRIBE TOPIC new"}, {0, TOPIC}
    ),
    "Metadata of the cluster": (
        MetadataRequest(topics=[], include_cluster_authorized_operations=True), 9, {f"DESCRIBE {C}"}, {0}
    ),
    "OffsetCommit": (committing(), 8, {"READ GROUP g"}, {GROUP}),
    "TxnOffsetCommit": (
        committing_in_transaction(), 3, {"WRITE TRANSACTIONAL_ID tid"}, {TRANSACTION}
    ),
    "OffsetFetch": (fetching_offsets(), 7, {"DESCRIBE GROUP g"}, {GROUP}),
    "OffsetDelete": (deleting_offsets(), 0, {"DELETE GROUP g"}, {GROUP}),
    "FindCoordinator of a group": (
        FindCoordinatorRequest(key="g", key_type=0), 3, {"DESCRIBE GROUP g"}, {GROUP}
    ),
    "FindCoordinator of a transaction": (
        FindCoordinatorRequest(coordinator_keys=["x"], key_type=1),
        4, {"DESCRIBE TRANSACTIONAL_ID x"}, {0, TRANSACTION},
    ),
    "FindCoordinator of a share group": (
        FindCoordinatorRequest(coordinator_keys=["s"], key_type=2), 6, {f"CLUSTER_ACTION {C}"}, {0, CLUSTER}
    ),
    "JoinGroup": (joining(), 5, {"READ GROUP g"}, {GROUP}),
    "SyncGroup": (
        SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=[]),
        4, {"READ GROUP g"}, {GROUP},
    ),
    "Heartbeat": (
        HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4, {"READ GROUP g"}, {GROUP}
    ),
    "LeaveGroup": (LeaveGroupRequest(group_id="g", members=[]), 4, {"READ GROUP g"}, {GROUP}),
    "DescribeGroups": (DescribeGroupsRequest(groups=["g"]), 4, {"DESCRIBE GROUP g"}, {GROUP}),
    "ListGroups": (ListGroupsRequest(), 4, {f"DESCRIBE {C}", "DESCRIBE GROUP g"}, {0}),
    "DeleteGroups": (DeleteGroupsRequest(groups_names=["g"]), 2, {"DELETE GROUP g"}, {GROUP}),
    "ConsumerGroupHeartbeat": (beating(), 0, {"READ GROUP g"}, {GROUP}),
    "ConsumerGroupDescribe": (
        ConsumerGroupDescribeRequest(group_ids=["g"]), 0, {"DESCRIBE GROUP g"}, {GROUP}
    ),
    "ApiVersions": (
        ApiVersionsRequest(client_software_name="n", client_software_version="1"), 3, set(), {0}
    ),
    "CreateTopics": (
        creating_topics(),
        7, {f"CREATE {C}", "CREATE TOPIC new"}, {TOPIC, 0},
    ),
    "DeleteTopics": (
        deleting_topics(), 6, {f"DELETE {C}", "DESCRIBE TOPIC t", "DELETE TOPIC t"}, {TOPIC}
    ),
    "CreatePartitions": (
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=2, assignments=None)],
                                timeout_ms=10, validate_only=False),
        3, {"ALTER TOPIC t"}, {TOPIC},
    ),
    "DescribeTopicPartitions": (
        DescribeTopicPartitionsRequest(topics=[PartitionsOfTopic(name="t")]),
        0, {"DESCRIBE TOPIC t"}, {TOPIC},
    ),
    "DescribeTopicPartitions of all": (
        DescribeTopicPartitionsRequest(topics=[]), 0, {"DESCRIBE TOPIC t"}, set()
    ),
    "InitProducerId": (
        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1),
        4, {f"IDEMPOTENT_WRITE {C}", "WRITE TOPIC any"}, {CLUSTER},
    ),
    "InitProducerId, transactional": (
        InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1),
        4, {"WRITE TRANSACTIONAL_ID x"}, {TRANSACTION},
    ),
    "DescribeProducers": (
        DescribeProducersRequest(topics=[ProducersOfTopic(name="t", partition_indexes=[0])]),
        0, {"READ TOPIC t"}, {TOPIC},
    ),
    "AddPartitionsToTxn of a client": (
        adding(
            v3_and_below_transactional_id="x",
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        ),
        3, {"WRITE TRANSACTIONAL_ID x"}, {0, TRANSACTION},
    ),
    "AddPartitionsToTxn of a broker": (
        adding(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id="x",
                    producer_id=1,
                    producer_epoch=0,
                    topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
                )
            ]
        ),
        5, {f"CLUSTER_ACTION {C}"}, {CLUSTER},
    ),
    "AddOffsetsToTxn": (
        AddOffsetsToTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0, group_id="g"),
        4, {"WRITE TRANSACTIONAL_ID x"}, {TRANSACTION},
    ),
    "EndTxn": (
        EndTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0, committed=True),
        5, {"WRITE TRANSACTIONAL_ID x"}, {TRANSACTION},
    ),
    "DescribeTransactions": (
        DescribeTransactionsRequest(transactional_ids=["x"]),
        0, {"DESCRIBE TRANSACTIONAL_ID x"}, {TRANSACTION},
    ),
    "ListTransactions": (
        ListTransactionsRequest(state_filters=[], producer_id_filters=[]),
        2, {"DESCRIBE TRANSACTIONAL_ID x"}, {0},
    ),
    "WriteTxnMarkers": (
        WriteTxnMarkersRequest(markers=[writable_marker(("t", 0))]),
        2, {f"ALTER {C}", f"CLUSTER_ACTION {C}"}, {CLUSTER},
    ),
    "DescribeAcls": (DescribeAclsRequest(**ANY_ACL), 3, {f"DESCRIBE {C}"}, {CLUSTER}),
    "CreateAcls": (CreateAclsRequest(creations=[ACL]), 3, {f"ALTER {C}"}, {CLUSTER}),
    "DeleteAcls": (DeleteAclsRequest(filters=[DeleteAclsFilter(**ANY_ACL)]), 3, {f"ALTER {C}"}, {CLUSTER}),
    "DescribeConfigs of a topic": (
        configs.DescribeConfigsRequest(resources=configs_of(2, "t")),
        4, {"DESCRIBE_CONFIGS TOPIC t"}, {TOPIC},
    ),
    "DescribeConfigs of a group": (
        configs.DescribeConfigsRequest(resources=configs_of(32, "g")),
        4, {"DESCRIBE_CONFIGS GROUP g"}, {GROUP},
    ),
    "DescribeConfigs of a broker": (
        configs.DescribeConfigsRequest(resources=configs_of(4, "1")), 4, {f"DESCRIBE_CONFIGS {C}"}, {CLUSTER}
    ),
    "AlterConfigs": (altering(legacy, 2, "t"), 2, {"ALTER_CONFIGS TOPIC t"}, {TOPIC}),
    "AlterConfigs of a broker": (altering(legacy, 4, "1"), 2, {f"ALTER_CONFIGS {C}"}, {CLUSTER}),
    "IncrementalAlterConfigs": (
        altering(incremental, 2, "t"), 1, {"ALTER_CONFIGS TOPIC t"}, {TOPIC}
    ),
    "IncrementalAlterConfigs of loggers": (
        altering(incremental, 8, "1"), 1, {f"ALTER_CONFIGS {C}"}, {CLUSTER}
    ),
    "ListConfigResources": (
        ListConfigResourcesRequest(resource_types=[]), 1, {f"DESCRIBE_CONFIGS {C}"}, {CLUSTER}
    ),
    "AlterReplicaLogDirs": (
        log_dirs.AlterReplicaLogDirsRequest(dirs=[log_dirs.AlterReplicaLogDir(
            path="/p", topics=[log_dirs.AlterReplicaLogDirTopic(name="t", partitions=[0])])]),
        2, {f"ALTER {C}"}, {CLUSTER},
    ),
    "DescribeLogDirs": (DescribeLogDirsRequest(topics=None), 3, {f"DESCRIBE {C}"}, {CLUSTER}),
    "DescribeLogDirs without an error": (DescribeLogDirsRequest(topics=None), 2, {f"DESCRIBE {C}"}, {0}),
    "ElectLeaders": (
        ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=10),
        2, {f"ALTER {C}"}, {CLUSTER},
    ),
    "AlterPartitionReassignments": (moving("t"), 0, {f"ALTER {C}"}, {CLUSTER}),
    "ListPartitionReassignments": (
        ListPartitionReassignmentsRequest(topics=None, timeout_ms=10), 0, {f"DESCRIBE {C}"}, {CLUSTER}
    ),
    "DescribeClientQuotas": (
        DescribeClientQuotasRequest(components=[], strict=False), 1, {f"DESCRIBE_CONFIGS {C}"}, {CLUSTER}
    ),
    "AlterClientQuotas": (
        quotas.AlterClientQuotasRequest(entries=[quotas.EntryData(entity=[], ops=[])], validate_only=False),
        1, {f"ALTER_CONFIGS {C}"}, {CLUSTER},
    ),
    "SaslHandshake": (SaslHandshakeRequest(mechanism="PLAIN"), 1, set(), {34}),
    "SaslAuthenticate": (SaslAuthenticateRequest(auth_bytes=b""), 2, set(), {34}),
    "DescribeUserScramCredentials": (
        DescribeUserScramCredentialsRequest(users=None), 0, {f"DESCRIBE {C}"}, {CLUSTER}
    ),
    "AlterUserScramCredentials": (
        AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name="u", mechanism=1)], upsertions=[]
        ),
        0, {f"ALTER {C}"}, {CLUSTER},
    ),
    "DescribeQuorum": (DescribeQuorumRequest(topics=[]), 1, {f"DESCRIBE {C}"}, {CLUSTER}),
    "UpdateFeatures": (
        UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(feature="f", max_version_level=1)], timeout_ms=10
        ),
        1, {f"ALTER {C}"}, {CLUSTER},
    ),
    "UnregisterBroker": (UnregisterBrokerRequest(broker_id=9), 0, {f"ALTER {C}"}, {CLUSTER}),
    "DescribeCluster": (
        DescribeClusterRequest(include_cluster_authorized_operations=True), 1, {f"DESCRIBE {C}"}, {0}
    ),
}  # fmt: skip


def test_every_api_has_a_row() -> None:
    keys = {message_info(type(request)).key for request, *_ in ROWS.values()}
    assert keys == {api.key for api in APIS}


async def fill_node(node: Node) -> None:
    """Give a node a topic with a record, and a group with an offset."""
    node.create_topic("t")
    async with connected(node) as client:
        await fill(client, "t", b"v")
        await client.ask(FindCoordinatorRequest(key="g", key_type=0), 3)
        await client.ask(FindCoordinatorRequest(key="x", key_type=1), 3)
        await client.ask(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000), 4)
        response = await client.ask(committing(), 8)
        assert response.topics[0].partitions[0].error_code == 0


@pytest.mark.parametrize("what", ROWS)
async def test_what_is_denied_is_asked_first_and_refused(what: str, tmp_path: Path) -> None:
    request, version, questions, codes = ROWS[what]
    async with running_node(tmp_path, {"auto.create.topics.enable": "true"}) as node:
        await fill_node(node)
        image, end = node.image, node.replica_manager.partition("t", 0).log.log_end_offset
        denying = Recorder(allows=False)
        response = await ask(node, request, version, denying)
        # The topics of the coordinators are topics like any other.
        asked = {each for each in denying.asked if " __" not in each}
        assert (asked, set(errors(response))) == (questions, codes)
        assert node.image is image
        assert node.replica_manager.partition("t", 0).log.log_end_offset == end


@pytest.mark.parametrize(
    "what",
    [
        "Fetch, short", "Fetch, full", "ListOffsets", "OffsetForLeaderEpoch", "Metadata of all",
        "Metadata of the cluster", "OffsetFetch", "FindCoordinator of a group", "DescribeGroups",
        "ListGroups", "DescribeTransactions", "ListTransactions",
        "DescribeTopicPartitions", "DescribeTopicPartitions of all", "DescribeProducers",
        "DescribeConfigs of a topic", "DescribeConfigs of a group", "DescribeConfigs of a broker",
        "ListConfigResources", "ListPartitionReassignments", "DescribeClientQuotas", "DescribeCluster",
        "DescribeLogDirs", "ApiVersions",
    ],
)  # fmt: skip
async def test_who_may_do_everything_gets_what_everybody_gets_without_an_authorizer(
    what: str, tmp_path: Path
) -> None:
    request, version, *_ = ROWS[what]
    async with running_node(tmp_path) as node:
        await fill_node(node)
        allowed = await ask(node, request, version, Recorder(allows=True))
        assert allowed == await ask(node, request, version, None)


SECOND_QUESTIONS: dict[str, Row] = {
    "OffsetCommit": (committing(), 8, {"READ GROUP g", "READ TOPIC t"}, {TOPIC}),
    "TxnOffsetCommit": (
        committing_in_transaction(),
        3, {"WRITE TRANSACTIONAL_ID tid", "READ GROUP g"}, {GROUP},
    ),
    "OffsetFetch": (fetching_offsets(), 7, {"DESCRIBE GROUP g", "DESCRIBE TOPIC t"}, {0, TOPIC}),
    "OffsetDelete": (deleting_offsets(), 0, {"DELETE GROUP g", "READ TOPIC t"}, {0, TOPIC}),
    "AddOffsetsToTxn": (
        AddOffsetsToTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0, group_id="g"),
        4, {"WRITE TRANSACTIONAL_ID x", "READ GROUP g"}, {GROUP},
    ),
    "AddPartitionsToTxn of a client": (
        adding(
            v3_and_below_transactional_id="x",
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        ),
        3, {"WRITE TRANSACTIONAL_ID x", "WRITE TOPIC t"}, {0, TOPIC},
    ),
    "ConsumerGroupHeartbeat": (
        beating(subscribed_topic_names=["t"], rebalance_timeout_ms=1000, topic_partitions=[]),
        0, {"READ GROUP g", "DESCRIBE TOPIC t"}, {TOPIC},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", SECOND_QUESTIONS)
async def test_what_comes_second_is_asked_for_once_the_first_is_allowed(what: str, tmp_path: Path) -> None:
    class OnlyTheFirst(Recorder):
        first: ResourceType | None = None

        def may(self, operation: Operation, type: ResourceType, name: str) -> bool:
            super().may(operation, type, name)
            self.first = self.first or type
            return type is self.first

    request, version, questions, codes = SECOND_QUESTIONS[what]
    async with running_node(tmp_path) as node:
        await fill_node(node)
        access = OnlyTheFirst(allows=False)
        response = await ask(node, request, version, access)
        assert (access.asked, set(errors(response))) == (questions, codes)


async def test_topics_are_asked_for_once_the_transaction_and_the_group_are_allowed(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        await fill_node(node)
        access = Selective(ResourceType.TRANSACTIONAL_ID, ResourceType.GROUP)
        response = await ask(node, committing_in_transaction(), 3, access)
        assert access.asked == {"WRITE TRANSACTIONAL_ID tid", "READ GROUP g", "READ TOPIC t"}
        assert set(errors(response)) == {TOPIC}


async def test_a_denied_write_without_acknowledgement_closes_the_connection(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        await fill_node(node)
        with pytest.raises(CloseConnection):
            await ask(node, producing(acks=0), 9, Recorder(allows=False))


async def test_a_denied_request_of_short_shape_reads_and_appends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("a log is touched")

    async with running_node(tmp_path) as node:
        await fill_node(node)
        partition = node.replica_manager.partition("t", 0)
        for name in ("append_plain", "append", "append_validated", "read"):
            monkeypatch.setattr(type(partition), name, fail)
        monkeypatch.setattr(type(partition.log), "read", fail)
        for what in ("Produce, short", "Produce, short and plain", "Fetch, short"):
            request, version, _, codes = ROWS[what]
            assert set(errors(await ask(node, request, version, Recorder(allows=False)))) == codes


async def test_the_short_paths_are_taken_by_who_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("read in full")

    async with running_node(tmp_path) as node:
        await fill_node(node)
        monkeypatch.setattr(short_fetch, "in_full", fail)
        monkeypatch.setattr(short_produce, "in_full", fail)
        for what in ("Produce, short", "Produce, short and plain", "Fetch, short"):
            request, version, questions, _ = ROWS[what]
            allowing = Recorder(allows=True)
            assert set(errors(await ask(node, request, version, allowing))) == {0}
            assert allowing.asked == questions


def test_a_plain_connection_is_anonymous_and_unlimited() -> None:
    context = RequestContext(None, LISTENER, "here")  # type: ignore[arg-type]
    assert context.principal == ANONYMOUS == Principal("User", "ANONYMOUS", is_token=False)
    assert (context.security_protocol, context.access, context.session_ends_ms) == ("PLAINTEXT", None, 0)
    with pytest.raises(AttributeError):
        context.principal.name = "alice"  # type: ignore[misc]
