"""Elections and reassignments: requests to the controller, and the results."""

from __future__ import annotations

import pytest

from kcli.client import admin
from kcli.client.admin import (
    ElectionType,
    LogDirDescription,
    PartitionReassignment,
    ReplicaLog,
    ReplicaPlace,
    TopicPartition,
    TopicPartitionReplica,
    replica_places,
)
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)
from kcli.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kcli.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from kcli.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from tests.client.fake_brokers import fake_cluster

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def code_of(result: KafkaError | None) -> ErrorCode:
    assert result is not None
    return result.code


def elected(**codes: dict[int, int]) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=code) for index, code in found.items()
                ],
            )
            for topic, found in codes.items()
        ]
    )


async def test_each_partition_has_its_own_election(autojump_clock: object) -> None:
    async with fake_cluster() as (brokers, client):
        brokers.script(ElectLeadersRequest, ElectLeadersResponse(error_code=41, replica_election_results=[]))
        brokers.script(ElectLeadersRequest, elected(a={0: 0, 1: 84}))
        results = await admin.elect_leaders(client, ElectionType.PREFERRED, [A0, A1, B0])
    assert results[A0] is None
    assert code_of(results[A1]) == ErrorCode.ELECTION_NOT_NEEDED
    assert code_of(results[B0]) == ErrorCode.UNKNOWN_SERVER_ERROR, "left out of the answer"
    request = brokers.received(ElectLeadersRequest)[-1]
    assert request.topic_partitions == [
        TopicPartitions(topic="a", partitions=[0, 1]),
        TopicPartitions(topic="b", partitions=[0]),
    ]


async def test_all_partitions_are_no_list(autojump_clock: object) -> None:
    async with fake_cluster() as (brokers, client):
        brokers.script(ElectLeadersRequest, elected(b={0: 0}))
        assert await admin.elect_leaders(client, ElectionType.UNCLEAN) == {B0: None}
        request = brokers.received(ElectLeadersRequest)[0]
    assert (request.election_type, request.topic_partitions) == (1, None)


async def test_an_election_that_is_refused_as_a_whole_raises(autojump_clock: object) -> None:
    async with fake_cluster() as (brokers, client):
        brokers.script(ElectLeadersRequest, ElectLeadersResponse(error_code=31, replica_election_results=[]))
        with pytest.raises(KafkaError) as refused:
            await admin.elect_leaders(client, ElectionType.PREFERRED)
    assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_moves_start_and_stop_partition_by_partition(autojump_clock: object) -> None:
    answer = AlterPartitionReassignmentsResponse(
        responses=[
            ReassignableTopicResponse(
                name="a",
                partitions=[
                    ReassignablePartitionResponse(partition_index=0),
                    ReassignablePartitionResponse(partition_index=1, error_code=85, error_message="no"),
                ],
            )
        ]
    )
    async with fake_cluster() as (brokers, client):
        brokers.script(AlterPartitionReassignmentsRequest, answer)
        results = await admin.alter_partition_reassignments(
            client, {A0: (2, 3), A1: None}, allow_replication_factor_change=False
        )
        request = brokers.received(AlterPartitionReassignmentsRequest)[0]
    assert results[A0] is None
    assert code_of(results[A1]) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert not request.allow_replication_factor_change
    assert request.topics == [
        ReassignableTopic(
            name="a",
            partitions=[
                ReassignablePartition(partition_index=0, replicas=[2, 3]),
                ReassignablePartition(partition_index=1, replicas=None),
            ],
        )
    ]


async def test_moves_under_way_are_listed_in_order(autojump_clock: object) -> None:
    def moving(topic: str, index: int) -> OngoingTopicReassignment:
        return OngoingTopicReassignment(
            name=topic,
            partitions=[
                OngoingPartitionReassignment(
                    partition_index=index, replicas=[3, 1, 2], adding_replicas=[3], removing_replicas=[1]
                )
            ],
        )

    async with fake_cluster() as (brokers, client):
        brokers.script(
            ListPartitionReassignmentsRequest,
            ListPartitionReassignmentsResponse(error_code=41, topics=[]),
            ListPartitionReassignmentsResponse(topics=[moving("b", 0), moving("a", 1)]),
        )
        found = await admin.list_partition_reassignments(client)
    assert list(found) == [A1, B0]
    assert found[A1] == PartitionReassignment((3, 1, 2), (3,), (1,))


async def test_each_broker_is_asked_about_its_own_log_directories(autojump_clock: object) -> None:
    def answer(index: int, code: int) -> AlterReplicaLogDirsResponse:
        return AlterReplicaLogDirsResponse(
            results=[
                AlterReplicaLogDirTopicResult(
                    topic_name="a",
                    partitions=[AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)],
                )
            ]
        )

    moves = {TopicPartitionReplica("a", 0, 1): "/d1", TopicPartitionReplica("a", 1, 1): "/d2"}
    async with fake_cluster() as (brokers, client):
        brokers.script(AlterReplicaLogDirsRequest, answer(0, 9))
        results = await admin.alter_replica_log_dirs(client, moves)
        (request,) = brokers.received(AlterReplicaLogDirsRequest)
    assert [(each.path, each.topics[0].partitions) for each in request.dirs] == [("/d1", [0]), ("/d2", [1])]
    assert [code_of(results[replica]) for replica in moves] == [
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ]


def test_a_replica_on_its_way_to_another_directory_has_two_logs() -> None:
    log = ReplicaLog("a", 0, 700, 0, False)
    described = {
        1: (
            LogDirDescription("/d2", (log._replace(size_bytes=300, is_future=True),)),
            LogDirDescription("/d1", (log,)),
        ),
        2: KcliError("unreachable"),
    }
    assert replica_places(described) == {
        TopicPartitionReplica("a", 0, 1): ReplicaPlace("/d1", 700, "/d2", 300)
    }
