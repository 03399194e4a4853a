"""Every API in the table answers in every version it is advertised in."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from kcli.broker.network.apis import APIS
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_features,
    write_txn_markers,
)
from kcli.protocol.schema.declaration import message_info
from tests.broker.records import batch
from tests.broker.single_node import connected, running_node
from tests.broker.transactions.markers import writable_marker

if TYPE_CHECKING:
    from pathlib import Path

SPARSE_TOPIC = "the-topic"
GROUP = "a-group"


def request_for(key: int, version: int, topic_id: bytes) -> object:
    """Return a request that names one topic, as far as the API has topics."""
    match key:
        case 0:
            records = batch(b"v") if version >= 3 else b""
            by = {"topic_id": topic_id} if version >= 13 else {"name": SPARSE_TOPIC}
            partition = produce.PartitionProduceData(index=0, records=records)
            return produce.ProduceRequest(
                acks=1,
                timeout_ms=100,
                topic_data=[produce.TopicProduceData(partition_data=[partition], **by)],
            )
        case 1:
            by = {"topic_id": topic_id} if version >= 13 else {"topic": SPARSE_TOPIC}
            partition = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
            return fetch.FetchRequest(
                max_wait_ms=0, min_bytes=1, topics=[fetch.FetchTopic(partitions=[partition], **by)]
            )
        case 2:
            partition = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-2)
            return list_offsets.ListOffsetsRequest(
                replica_id=-1,
                topics=[list_offsets.ListOffsetsTopic(name=SPARSE_TOPIC, partitions=[partition])],
            )
        case 3:
            return metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=SPARSE_TOPIC)])
        case 8:
            by = {"topic_id": topic_id} if version >= 10 else {"name": SPARSE_TOPIC}
            offset = offset_commit.OffsetCommitRequestPartition(
                partition_index=0, committed_offset=version, committed_metadata=None
            )
            return offset_commit.OffsetCommitRequest(
                group_id=GROUP, topics=[offset_commit.OffsetCommitRequestTopic(partitions=[offset], **by)]
            )
        case 9 if version >= 8:
            by = {"topic_id": topic_id} if version >= 10 else {"name": SPARSE_TOPIC}
            wanted = offset_fetch.OffsetFetchRequestTopics(partition_indexes=[0], **by)
            group = offset_fetch.OffsetFetchRequestGroup(group_id=GROUP, topics=[wanted])
            return offset_fetch.OffsetFetchRequest(groups=[group])
        case 9:
            wanted = offset_fetch.OffsetFetchRequestTopic(name=SPARSE_TOPIC, partition_indexes=[0])
            return offset_fetch.OffsetFetchRequest(group_id=GROUP, topics=[wanted])
        case 11:
            protocol = join_group.JoinGroupRequestProtocol(name="range", metadata=b"")
            return join_group.JoinGroupRequest(
                group_id=f"{GROUP}-{version}",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                member_id="",
                protocol_type="consumer",
                protocols=[protocol],
            )
        case 12:
            return heartbeat.HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="nobody")
        case 13 if version >= 3:
            return leave_group.LeaveGroupRequest(
                group_id=GROUP, members=[leave_group.MemberIdentity(member_id="nobody")]
            )
        case 13:
            return leave_group.LeaveGroupRequest(group_id=GROUP, member_id="nobody")
        case 14:
            return sync_group.SyncGroupRequest(
                group_id=GROUP,
                generation_id=1,
                member_id="nobody",
                protocol_type="consumer" if version >= 5 else None,
                protocol_name="range" if version >= 5 else None,
                assignments=[],
            )
        case 15:
            return describe_groups.DescribeGroupsRequest(
                groups=[GROUP], include_authorized_operations=version >= 3
            )
        case 16:
            return list_groups.ListGroupsRequest()
        case 17:
            return sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN")
        case 36:
            return sasl_authenticate.SaslAuthenticateRequest(auth_bytes=b"")
        case 50:
            return describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=None)
        case 51:
            return alter_user_scram_credentials.AlterUserScramCredentialsRequest(
                deletions=[],
                upsertions=[
                    alter_user_scram_credentials.ScramCredentialUpsertion(
                        name="u", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p"
                    )
                ],
            )
        case 42:
            return delete_groups.DeleteGroupsRequest(groups_names=[GROUP])
        case 47:
            gone = offset_delete.OffsetDeleteRequestPartition(partition_index=0)
            return offset_delete.OffsetDeleteRequest(
                group_id=GROUP,
                topics=[offset_delete.OffsetDeleteRequestTopic(name=SPARSE_TOPIC, partitions=[gone])],
            )
        case 10:
            if version >= 4:
                return find_coordinator.FindCoordinatorRequest(coordinator_keys=[GROUP])
            return find_coordinator.FindCoordinatorRequest(key=GROUP)
        case 18:
            return api_versions.ApiVersionsRequest(client_software_name="a", client_software_version="1")
        case 19:
            topic = create_topics.CreatableTopic(
                name=f"new-{version}", num_partitions=1, replication_factor=1, assignments=[], configs=[]
            )
            return create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=100)
        case 20 if version >= 6:
            return delete_topics.DeleteTopicsRequest(
                topics=[delete_topics.DeleteTopicState(name="gone", topic_id=bytes(16))], timeout_ms=100
            )
        case 20:
            return delete_topics.DeleteTopicsRequest(topic_names=["gone"], timeout_ms=100)
        case 21:
            partition = delete_records.DeleteRecordsPartition(partition_index=0, offset=0)
            return delete_records.DeleteRecordsRequest(
                topics=[delete_records.DeleteRecordsTopic(name=SPARSE_TOPIC, partitions=[partition])],
                timeout_ms=100,
            )
        case 22:
            return init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
        case 23:
            partition = offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0)
            topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic=SPARSE_TOPIC, partitions=[partition])
            return offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=[topic])
        case 24:
            topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(name=SPARSE_TOPIC, partitions=[0])]
            if version < 4:
                return add_partitions_to_txn.AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id="nobody", v3_and_below_topics=topics
                )
            transaction = add_partitions_to_txn.AddPartitionsToTxnTransaction(
                transactional_id="nobody", producer_id=1, producer_epoch=0, topics=topics
            )
            return add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=[transaction])
        case 25:
            return add_offsets_to_txn.AddOffsetsToTxnRequest(
                transactional_id="nobody", producer_id=1, producer_epoch=0, group_id=GROUP
            )
        case 26:
            return end_txn.EndTxnRequest(
                transactional_id="nobody", producer_id=1, producer_epoch=0, committed=True
            )
        case 27:
            return write_txn_markers.WriteTxnMarkersRequest(markers=[writable_marker((SPARSE_TOPIC, 0))])
        case 28:
            # The topic exists in no node here, so no coordinator of the transaction is asked.
            offset = txn_offset_commit.TxnOffsetCommitRequestPartition(
                partition_index=0, committed_offset=1, committed_metadata=None
            )
            return txn_offset_commit.TxnOffsetCommitRequest(
                transactional_id="tid",
                group_id="group",
                producer_id=7,
                producer_epoch=0,
                topics=[txn_offset_commit.TxnOffsetCommitRequestTopic(name="none", partitions=[offset])],
            )
        case 32:
            resource = describe_configs.DescribeConfigsResource(
                resource_type=2, resource_name=SPARSE_TOPIC, configuration_keys=None
            )
            return describe_configs.DescribeConfigsRequest(resources=[resource])
        case 33:
            return alter_configs.AlterConfigsRequest(resources=[], validate_only=True)
        case 34:
            return alter_replica_log_dirs.AlterReplicaLogDirsRequest(dirs=[])
        case 35:
            return describe_log_dirs.DescribeLogDirsRequest(topics=None)
        case 37:
            return create_partitions.CreatePartitionsRequest(topics=[], timeout_ms=1, validate_only=True)
        case 43:
            wanted = [elect_leaders.TopicPartitions(topic=SPARSE_TOPIC, partitions=[0])]
            return elect_leaders.ElectLeadersRequest(topic_partitions=wanted)
        case 44:
            return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[], validate_only=True)
        case 45:
            moving = alter_partition_reassignments.ReassignablePartition(partition_index=0, replicas=[1])
            topic = alter_partition_reassignments.ReassignableTopic(name=SPARSE_TOPIC, partitions=[moving])
            return alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=[topic])
        case 46:
            return list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None)
        case 55:
            log = describe_quorum.QuorumPartition(partition_index=0)
            topic = describe_quorum.QuorumTopic(topic_name="__cluster_metadata", partitions=[log])
            return describe_quorum.DescribeQuorumRequest(topics=[topic])
        case 29:
            return describe_acls.DescribeAclsRequest(
                resource_type_filter=1, resource_name_filter=None, principal_filter=None, host_filter=None,
                operation=1, permission_type=1,
            )  # fmt: skip
        case 30:
            entry = create_acls.AclCreation(
                resource_type=2, resource_name="t", principal="User:a", host="*", operation=3,
                permission_type=3,
            )  # fmt: skip
            return create_acls.CreateAclsRequest(creations=[entry])
        case 31:
            return delete_acls.DeleteAclsRequest(filters=[])
        case 57:
            update = update_features.FeatureUpdateKey(feature="group.version", max_version_level=1)
            return update_features.UpdateFeaturesRequest(feature_updates=[update])
        case 48:
            component = describe_client_quotas.ComponentData(entity_type="user", match_type=2, match=None)
            return describe_client_quotas.DescribeClientQuotasRequest(components=[component], strict=True)
        case 49:
            return alter_client_quotas.AlterClientQuotasRequest(entries=[], validate_only=False)
        case 64:
            return unregister_broker.UnregisterBrokerRequest(broker_id=9)
        case 60:
            return describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True)
        case 61:
            topic = describe_producers.TopicRequest(name=SPARSE_TOPIC, partition_indexes=[0])
            return describe_producers.DescribeProducersRequest(topics=[topic])
        case 65:
            return describe_transactions.DescribeTransactionsRequest(transactional_ids=["nobody"])
        case 66:
            return list_transactions.ListTransactionsRequest(state_filters=["Empty"], producer_id_filters=[])
        case 68:
            return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
                group_id=f"new-{GROUP}",
                member_id=f"member-{version}",
                member_epoch=0,
                rebalance_timeout_ms=1000,
                subscribed_topic_names=[SPARSE_TOPIC],
                topic_partitions=[],
            )
        case 69:
            return consumer_group_describe.ConsumerGroupDescribeRequest(
                group_ids=[GROUP], include_authorized_operations=True
            )
        case 74:
            return list_config_resources.ListConfigResourcesRequest()
        case 75:
            return describe_topic_partitions.DescribeTopicPartitionsRequest(
                topics=[describe_topic_partitions.TopicRequest(name=SPARSE_TOPIC)]
            )
    raise AssertionError(f"no request for API {key}")


def error_codes(value: object) -> set[int]:
    """Return all error codes anywhere in a response."""
    if isinstance(value, list):
        return set().union(*map(error_codes, value)) if value else set()
    found = set()
    for name in getattr(type(value), "__slots__", ()):
        field = getattr(value, name)
        found |= {field} if name.endswith("error_code") else error_codes(field)
    return found


EXPECTED_ERRORS = {
    describe_acls.DescribeAclsRequest: (ErrorCode.SECURITY_DISABLED,),
    create_acls.CreateAclsRequest: (ErrorCode.SECURITY_DISABLED,),
    sasl_handshake.SaslHandshakeRequest: (ErrorCode.ILLEGAL_SASL_STATE,),
    sasl_authenticate.SaslAuthenticateRequest: (ErrorCode.ILLEGAL_SASL_STATE,),
    delete_topics.DeleteTopicsRequest: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,),
    join_group.JoinGroupRequest: (ErrorCode.MEMBER_ID_REQUIRED,),
    heartbeat.HeartbeatRequest: (ErrorCode.UNKNOWN_MEMBER_ID,),
    leave_group.LeaveGroupRequest: (ErrorCode.UNKNOWN_MEMBER_ID,),
    sync_group.SyncGroupRequest: (ErrorCode.UNKNOWN_MEMBER_ID,),
    describe_groups.DescribeGroupsRequest: (ErrorCode.GROUP_ID_NOT_FOUND,),
    consumer_group_describe.ConsumerGroupDescribeRequest: (ErrorCode.GROUP_ID_NOT_FOUND,),
    delete_groups.DeleteGroupsRequest: (ErrorCode.GROUP_ID_NOT_FOUND,),
    offset_delete.OffsetDeleteRequest: (ErrorCode.GROUP_ID_NOT_FOUND,),
    txn_offset_commit.TxnOffsetCommitRequest: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,),
    elect_leaders.ElectLeadersRequest: (ErrorCode.ELECTION_NOT_NEEDED,),
    add_partitions_to_txn.AddPartitionsToTxnRequest: (ErrorCode.INVALID_PRODUCER_ID_MAPPING,),
    add_offsets_to_txn.AddOffsetsToTxnRequest: (ErrorCode.INVALID_PRODUCER_ID_MAPPING,),
    end_txn.EndTxnRequest: (ErrorCode.INVALID_PRODUCER_ID_MAPPING,),
    describe_transactions.DescribeTransactionsRequest: (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,),
    unregister_broker.UnregisterBrokerRequest: (ErrorCode.BROKER_ID_NOT_REGISTERED,),
}


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
async def test_every_version_answers(api: object, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        topic = node.create_topic(SPARSE_TOPIC)
        # Which creates the coordinators' topics:
        await client.ask(request_for(10, 0, b""), 0)
        await client.ask(find_coordinator.FindCoordinatorRequest(key="nobody", key_type=1), 1)
        for version in range(api.min_version, api.max_version + 1):  # type: ignore[attr-defined]
            request = request_for(api.key, version, topic.topic_id)  # type: ignore[attr-defined]
            response = await client.ask(request, version)
            assert error_codes(response) <= {0, *EXPECTED_ERRORS.get(type(request), ())}, response


def test_the_table_has_each_api_once() -> None:
    keys = [api.key for api in APIS]
    assert len(keys) == len(set(keys))
    for api in APIS:
        info = message_info(api.request)
        assert (info.key, info.name) == (api.key, api.name)
        assert info.min_version <= api.min_version <= api.max_version <= info.max_version


def test_the_code_of_every_api_is_found_by_its_name() -> None:
    assert all(callable(api.handler) for api in APIS)
    assert [api.name for api in APIS if api.failed is None] == ["ApiVersions"]


async def test_api_versions_is_the_table(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        for version in range(5):
            request = request_for(18, version, b"")
            response = await client.ask(request, version)
            assert [
                (each.api_key, each.min_version, each.max_version) for each in response.api_keys
            ] == sorted((api.key, api.min_version, api.max_version) for api in APIS)
            if version >= 3:
                assert [(f.name, f.min_version_level) for f in response.finalized_features] == [
                    ("eligible.leader.replicas.version", 1),
                    ("group.version", 1),
                    ("metadata.version", 30),
                    ("transaction.version", 2),
                ]
                # Version 3 cannot carry a range that begins at 0 (KAFKA-17011).
                supported = {f.name: (f.min_version, f.max_version) for f in response.supported_features}
                everything = {
                    "eligible.leader.replicas.version": (0, 1),
                    "group.version": (0, 1),
                    "metadata.version": (7, 30),
                    "transaction.version": (0, 2),
                }
                assert supported == (everything if version >= 4 else {"metadata.version": (7, 30)})
                assert response.finalized_features_epoch == node.image.offset


@pytest.mark.parametrize("version", [5, 99, 0x7FFF, -1])
async def test_an_unknown_version_of_api_versions_is_answered_in_version_0(
    version: int, tmp_path: Path
) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        header = struct.pack(">hhih", 18, version, 7, -1)
        await client.stream.send_all(struct.pack(">i", len(header) + 3) + header + b"\x00\x01\x02")
        assert await client.receive_frame() == bytes.fromhex("00000007 0023 00000001 0012 0000 0004")
        # The connection is good for another try.
        assert (await client.ask(request_for(18, 4, b""), 4)).error_code == 0


@pytest.mark.parametrize(
    ("name", "software_version"), [("", "1"), ("a", ""), ("-a", "1"), ("a", "1."), ("a b", "1"), ("ä", "1")]
)
async def test_a_malformed_software_name_is_invalid(name: str, software_version: str, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        request = api_versions.ApiVersionsRequest(
            client_software_name=name, client_software_version=software_version
        )
        response = await client.ask(request, 3)
        assert (response.error_code, response.api_keys) == (ErrorCode.INVALID_REQUEST, [])


@pytest.mark.parametrize(("key", "version"), [(999, 0), (-1, 0), (56, 3), (0, 14), (3, -1), (4, 1)])
async def test_an_unknown_api_or_version_closes_the_connection(
    key: int, version: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_node(tmp_path) as node, connected(node) as client, connected(node) as other:
        header = struct.pack(">hhih", key, version, 1, -1)
        await client.stream.send_all(struct.pack(">i", len(header)) + header)
        assert await client.is_closed()
        assert (await other.ask(request_for(18, 4, b""), 4)).error_code == 0
    assert len(caplog.records) == 1
    assert "is not supported" in caplog.text
