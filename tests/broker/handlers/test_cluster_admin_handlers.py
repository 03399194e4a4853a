"""Elections, reassignments, features, the quorum and unregistering, as clients see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kcli.broker.controller.cluster_control import BrokerRegistrationRequest
from kcli.broker.controller.heartbeat_control import Heartbeat
from kcli.broker.controller.replication_control import NewTopic, TopicDefaults
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kcli.protocol.messages.describe_quorum import DescribeQuorumRequest, QuorumPartition, QuorumTopic
from kcli.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kcli.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kcli.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kcli.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.broker.single_node import connected, running_node
from tests.support.metadata import broker

if TYPE_CHECKING:
    from pathlib import Path

    from tests.broker.single_node import Node

OTHERS = (2, 3)


def add_brokers(node: Node) -> None:
    """Add two brokers to the cluster of this node."""
    for node_id in OTHERS:
        was = broker(node_id)
        epoch = node.controller.register_broker(
            BrokerRegistrationRequest(
                node_id=node_id,
                incarnation=was.incarnation,
                endpoints=was.endpoints,
                directories=was.directories,
            )
        )
        node.controller.unfence_broker(node_id=node_id, epoch=epoch)


def create(node: Node, name: str, *replicas: list[int]) -> None:
    topic = NewTopic(name, assignments=list(enumerate(replicas)))
    (outcome,) = node.controller.create_topics([topic], defaults=TopicDefaults())
    assert not isinstance(outcome, Exception)


def leaders(node: Node, topic: str) -> list[int]:
    return [partition.leader for partition in node.image.topics[topic].partitions]


def restart(node: Node, node_id: int) -> None:
    epoch = node.image.brokers[node_id].epoch
    node.controller.fence_broker(node_id=node_id, epoch=epoch)
    node.controller.unfence_broker(node_id=node_id, epoch=epoch)


def elected(response: Any) -> dict[str, list[tuple[int, int]]]:
    return {
        topic.topic: [(each.partition_id, each.error_code) for each in topic.partition_result]
        for topic in response.replica_election_results
    }


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_an_election_of_named_partitions(version: int, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        add_brokers(node)
        create(node, "a", [1, 2], [2, 3])
        wanted = [
            TopicPartitions(topic="a", partitions=[0, 1, 7]),
            TopicPartitions(topic="b", partitions=[0]),
        ]
        response = await client.ask(ElectLeadersRequest(topic_partitions=wanted), version)
        not_needed, unknown = ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert elected(response) == {
            "a": [(0, not_needed), (1, not_needed), (7, unknown)],
            "b": [(0, unknown)],
        }
        restart(node, 2)
        assert leaders(node, "a") == [1, 3]
        response = await client.ask(ElectLeadersRequest(topic_partitions=wanted), version)
        unavailable = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        assert elected(response)["a"][1] == (1, unavailable)
        assert response.error_code == 0


async def test_an_election_everywhere_tells_only_of_what_it_did(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        add_brokers(node)
        create(node, "a", [2, 1], [1, 2])
        create(node, "b", [3])
        node.controller.fence_broker(node_id=3, epoch=node.image.brokers[3].epoch)
        everything = ElectLeadersRequest(election_type=1, topic_partitions=None)
        response = await client.ask(everything, 2)
        nobody = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        assert elected(response) == {"a": [], "b": [(0, nobody)]}


async def test_an_unknown_type_of_election_is_an_invalid_request(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        create(node, "a", [1])
        wanted = [TopicPartitions(topic="a", partitions=[0])]
        response = await client.ask(ElectLeadersRequest(election_type=2, topic_partitions=wanted), 2)
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert elected(response) == {"a": [(0, ErrorCode.INVALID_REQUEST)]}


def move(*wanted: tuple[str, int, list[int] | None], **fields: bool) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=p, replicas=to)])
            for name, p, to in wanted
        ],
        **fields,
    )


def moved(response: Any) -> list[int]:
    return [each.error_code for topic in response.responses for each in topic.partitions]


async def test_moves_begin_are_listed_and_stop(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        add_brokers(node)
        create(node, "a", [1, 2], [2, 3])
        response = await client.ask(move(("a", 1, [3, 1]), ("a", 9, [1]), ("a", 0, None)), 0)
        assert moved(response) == [
            0,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ]
        everything = await client.ask(ListPartitionReassignmentsRequest(topics=None), 0)
        (topic,) = everything.topics
        (listed,) = topic.partitions
        assert (topic.name, listed.partition_index) == ("a", 1)
        assert (listed.replicas, listed.adding_replicas, listed.removing_replicas) == ([3, 1, 2], [1], [2])
        asked = [
            ListPartitionReassignmentsTopics(name="a", partition_indexes=[0, 1, 1, 9, -1]),
            ListPartitionReassignmentsTopics(name="b", partition_indexes=[0]),
            ListPartitionReassignmentsTopics(name="a", partition_indexes=[1]),
        ]
        some = await client.ask(ListPartitionReassignmentsRequest(topics=asked), 0)
        assert some.topics == everything.topics
        assert moved(await client.ask(move(("a", 1, None)), 1)) == [0]
        assert node.image.topics["a"].partitions[1].replicas == (3, 2)
        assert (await client.ask(ListPartitionReassignmentsRequest(topics=None), 0)).topics == []


async def test_a_move_may_be_forbidden_to_change_the_number_of_replicas(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        add_brokers(node)
        create(node, "a", [1, 2])
        response = await client.ask(move(("a", 0, [1]), allow_replication_factor_change=False), 1)
        assert moved(response) == [ErrorCode.INVALID_REPLICATION_FACTOR]
        assert response.allow_replication_factor_change is False
        assert moved(await client.ask(move(("a", 0, [1])), 1)) == [0]


def levels(version: int, feature: str, level: int, **fields: Any) -> UpdateFeaturesRequest:
    down = {"allow_downgrade": True} if version == 0 else {"upgrade_type": fields.pop("upgrade_type", 2)}
    update = FeatureUpdateKey(feature=feature, max_version_level=level, **down)  # type: ignore[arg-type]
    return UpdateFeaturesRequest(feature_updates=[update], **fields)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_level_is_lowered(version: int, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        if version >= 1:
            dry = await client.ask(levels(version, "group.version", 0, validate_only=True), version)
            assert (dry.error_code, node.image.features["group.version"]) == (0, 1)
        response = await client.ask(levels(version, "group.version", 0), version)
        assert response.error_code == 0
        assert [each.feature for each in response.results] == (["group.version"] if version <= 1 else [])
        assert "group.version" not in node.image.features


@pytest.mark.parametrize(("level", "upgrade_type"), [(2, 1), (0, 1), (1, 9)])
async def test_a_level_that_cannot_be_is_refused(level: int, upgrade_type: int, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        request = levels(2, "group.version", level, upgrade_type=upgrade_type)
        response = await client.ask(request, 2)
        assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert response.error_message
        assert node.image.features["group.version"] == 1


async def test_an_update_of_nothing_does_nothing_and_the_last_of_two_counts(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        response = await client.ask(UpdateFeaturesRequest(feature_updates=[]), 2)
        assert response.error_code == ErrorCode.NONE
        twice = [
            FeatureUpdateKey(feature="group.version", max_version_level=level, upgrade_type=2)
            for level in (99, 0)
        ]
        assert (
            await client.ask(UpdateFeaturesRequest(feature_updates=twice), 2)
        ).error_code == ErrorCode.NONE
        assert "group.version" not in node.image.features
        twice.reverse()
        response = await client.ask(UpdateFeaturesRequest(feature_updates=twice), 2)
        assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION


async def test_an_election_of_unknown_type_in_no_partition_is_no_error(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        for partitions, error in (([], ErrorCode.NONE), ([0], ErrorCode.INVALID_REQUEST)):
            topics = [TopicPartitions(topic="t", partitions=partitions)] if partitions else []
            request = ElectLeadersRequest(election_type=7, topic_partitions=topics, timeout_ms=1000)
            assert (await client.ask(request, 2)).error_code == error


async def test_the_only_broker_that_runs_is_not_unregistered(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        create(node, "a", [1])
        response = await client.ask(UnregisterBrokerRequest(broker_id=1), 0)
        assert (response.error_code, response.error_message) == (
            ErrorCode.POLICY_VIOLATION,
            "node 1 is the only node that runs: stop it first",
        )
        assert leaders(node, "a") == [1]


async def test_a_broker_is_unregistered_once(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        add_brokers(node)
        create(node, "a", [3, 1])
        create(node, "b", [3])
        refused = await client.ask(UnregisterBrokerRequest(broker_id=3), 0)
        assert (refused.error_code, refused.error_message) == (
            ErrorCode.POLICY_VIOLATION,
            "node 3 is running: stop it first",
        )
        assert leaders(node, "b") == [3]
        node.controller.fence_broker(node_id=3, epoch=node.image.brokers[3].epoch)
        assert (await client.ask(UnregisterBrokerRequest(broker_id=3), 0)).error_code == 0
        assert 3 not in node.image.brokers
        assert (leaders(node, "a"), leaders(node, "b")) == ([1], [-1])
        again = await client.ask(UnregisterBrokerRequest(broker_id=3), 0)
        assert (again.error_code, again.error_message) == (
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            "node 3 is not registered",
        )


def quorum_of(topic: str, partition: int) -> DescribeQuorumRequest:
    asked = QuorumTopic(topic_name=topic, partitions=[QuorumPartition(partition_index=partition)])
    return DescribeQuorumRequest(topics=[asked])


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_every_node_is_a_voter_of_the_metadata_log(version: int, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        add_brokers(node)
        end = node.image.offset + 1
        beat: dict[str, Any] = {"node_id": 2, "epoch": node.image.brokers[2].epoch}
        node.controller.heartbeat(Heartbeat(**beat, applied_offset=end - 1), now_ms=1000)
        node.controller.heartbeat(Heartbeat(**beat, applied_offset=end - 2), now_ms=4000)
        response = await client.ask(quorum_of("__cluster_metadata", 0), version)
        ((described,),) = [topic.partitions for topic in response.topics]
        assert (described.leader_id, described.leader_epoch, described.high_watermark) == (1, 1, end)
        voters = {each.replica_id: each for each in described.current_voters}
        assert {number: each.log_end_offset for number, each in voters.items()} == {1: end, 2: end - 1, 3: -1}
        assert described.observers == []
        if version >= 1:
            now = node.now_ms
            times = [(each.last_fetch_timestamp, each.last_caught_up_timestamp) for each in voters.values()]
            assert times == [(now, now), (now, now - 3000), (-1, -1)]
        if version >= 2:
            assert voters[2].replica_directory_id == broker(2).directories[0]
            assert [(each.node_id, each.listeners[0].host) for each in response.nodes] == [
                (1, "127.0.0.1"),
                (2, "host-2"),
                (3, "host-3"),
            ]


@pytest.mark.parametrize(("topic", "partition"), [("__cluster_metadata", 1), ("a", 0)])
async def test_there_is_one_log_with_a_quorum(topic: str, partition: int, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        response = await client.ask(quorum_of(topic, partition), 2)
        assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
