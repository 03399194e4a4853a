"""Metadata: which topics and brokers each version shows, and automatic creation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kcli.broker.metadata.metadata_image import BrokerRegistration, Endpoint
from kcli.broker.network.authorization import NOT_ASKED_FOR
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kcli.protocol.uuids import ZERO_UUID
from tests.broker.single_node import LISTENER, Node, connected, running_node

if TYPE_CHECKING:
    from pathlib import Path

UNKNOWN_ID = bytes(range(16))
VERSIONS = range(14)

CLUSTER_OPERATIONS = 0b1_1111_1010_0000
TOPIC_OPERATIONS = 0b1101_1111_1000


def by_name(*names: str, **options: Any) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **options)


def shown(response: Any) -> dict[str | None, int]:
    return {topic.name: topic.error_code for topic in response.topics}


async def test_operations_are_shown_for_topics_that_do_not_exist(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        request = by_name(
            "no", "not legal", include_topic_authorized_operations=True, allow_auto_topic_creation=False
        )
        rows = (await client.ask(request, 9)).topics
        assert [(row.error_code, row.topic_authorized_operations) for row in rows] == [
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, TOPIC_OPERATIONS),
            (ErrorCode.INVALID_TOPIC_EXCEPTION, TOPIC_OPERATIONS),
        ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_brokers_and_topics_are_shown(version: int, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        topic = node.create_topic("t", partitions=3)
        for _ in range(2):  # Encoded, and from the cache.
            response = await client.ask(by_name("t"), version)
            assert [(b.node_id, b.host, b.port) for b in response.brokers] == [(1, "127.0.0.1", node.port)]
            assert response.cluster_id == (node.cluster_id if version >= 2 else None)
            assert response.controller_id == (1 if version >= 1 else -1)
            (row,) = response.topics
            assert (row.error_code, row.name, row.is_internal) == (0, "t", False)
            assert row.topic_id == (topic.topic_id if version >= 10 else ZERO_UUID)
            assert [
                (
                    p.error_code,
                    p.partition_index,
                    p.leader_id,
                    p.replica_nodes,
                    p.isr_nodes,
                    p.offline_replicas,
                )
                for p in row.partitions
            ] == [(0, index, 1, [1], [1], []) for index in range(3)]
            assert {p.leader_epoch for p in row.partitions} == {0 if version >= 7 else -1}
            assert row.topic_authorized_operations == NOT_ASKED_FOR
            assert response.error_code == 0


@pytest.mark.parametrize("version", VERSIONS)
async def test_all_topics_and_none(version: int, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        for name in ("a", "b"):
            node.create_topic(name)
        empty = shown(await client.ask(MetadataRequest(topics=[]), version))
        assert empty == ({"a": 0, "b": 0} if version == 0 else {})
        if version >= 1:
            assert shown(await client.ask(MetadataRequest(topics=None), version)) == {"a": 0, "b": 0}


@pytest.mark.parametrize("version", [0, 1, 4, 9, 13])
async def test_many_topics_have_a_long_count(version: int, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        for number in range(200):
            node.create_topic(f"t{number}")
        request = MetadataRequest(topics=None if version else [])
        assert len((await client.ask(request, version)).topics) == 200


async def test_a_topic_that_changes_is_shown_changed(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        topic = node.create_topic("t")
        assert len((await client.ask(by_name("t"), 9)).topics[0].partitions) == 1
        node.controller.delete_topics([topic.topic_id])
        assert shown(await client.ask(by_name("t", allow_auto_topic_creation=False), 9)) == {"t": 3}
        node.create_topic("t", partitions=2)
        assert len((await client.ask(by_name("t"), 9)).topics[0].partitions) == 2


async def test_nothing_is_kept_of_a_deleted_topic(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        gone, _ = node.create_topic("gone"), node.create_topic("kept")
        for version in (1, 9, 12):
            await client.ask(MetadataRequest(topics=None), version)
        encoded = node.replica_manager.encoded_metadata
        assert len(encoded) == 6
        node.controller.delete_topics([gone.topic_id])
        assert len(encoded) == 3


# --- by id ---------------------------------------------------------------------------------------


async def test_topics_are_asked_for_by_id(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        topic = node.create_topic("t")
        request = MetadataRequest(
            topics=[MetadataRequestTopic(topic_id=each, name=None) for each in (topic.topic_id, UNKNOWN_ID)]
        )
        rows = (await client.ask(request, 12)).topics
        assert [(row.error_code, row.name, row.topic_id) for row in rows] == [
            (0, "t", topic.topic_id),
            (ErrorCode.UNKNOWN_TOPIC_ID, None, UNKNOWN_ID),
        ]


@pytest.mark.parametrize(
    "wanted",
    [MetadataRequestTopic(topic_id=UNKNOWN_ID, name="t"), MetadataRequestTopic(name=None)],
    ids=["id", "no name"],
)
async def test_ids_need_version_12(wanted: MetadataRequestTopic, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        (row,) = (await client.ask(MetadataRequest(topics=[wanted]), 10)).topics
        assert row.error_code == ErrorCode.INVALID_REQUEST


# --- creation ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "allowed", "enabled", "error"),
    [(1, True, "true", 0), (4, True, "true", 0), (4, False, "true", 3), (13, True, "false", 3)],
)
async def test_a_missing_topic_is_created_where_allowed(
    version: int, allowed: bool, enabled: str, error: int, tmp_path: Path
) -> None:
    properties = {"auto.create.topics.enable": enabled, "num.partitions": "3"}
    async with running_node(tmp_path, properties) as node, connected(node) as client:
        response = await client.ask(by_name("new", "new", allow_auto_topic_creation=allowed), version)
        assert shown(response) == {"new": error}
        assert [len(topic.partitions) for topic in response.topics] == [0 if error else 3]
        assert ("new" in node.image.topics) is (error == 0)
        assert len(node.log_manager) == (0 if error else 3)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ä", "x" * 250])
async def test_an_illegal_name_is_not_created(name: str, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        assert shown(await client.ask(by_name(name, "fine"), 9)) == {
            name: ErrorCode.INVALID_TOPIC_EXCEPTION,
            "fine": 0,
        }


@pytest.mark.parametrize(
    "name", ["__cluster_metadata", "__consumer_offsets", "__transaction_state", "__share_group_state"]
)
async def test_asking_for_a_topic_of_the_cluster_itself_does_not_create_it(name: str, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        assert shown(await client.ask(by_name(name), 9)) == {name: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert not node.image.topics


async def test_a_topic_that_cannot_be_created_says_why(tmp_path: Path) -> None:
    properties = {"default.replication.factor": "2"}
    async with running_node(tmp_path, properties) as node, connected(node) as client:
        response = await client.ask(by_name("new"), 9)
        assert shown(response) == {"new": ErrorCode.INVALID_REPLICATION_FACTOR}


# --- brokers that are away -----------------------------------------------------------------------


def with_broker(node: Node, **changes: Any) -> None:
    """Add node 2 to the image, a replica and the leader of topic `t`."""
    broker = BrokerRegistration(
        **{
            "node_id": 2,
            "epoch": 1,
            "incarnation": UNKNOWN_ID,
            "endpoints": (Endpoint(LISTENER, "127.0.0.2", 9),),
            "fenced": False,
            **changes,
        }
    )
    topic = node.image.topics["t"]
    partition = replace(topic.partitions[0], replicas=(2, 1), isr=(2, 1), leader=2)
    topic = replace(topic, partitions=(partition,))
    node.image = replace(
        node.image, brokers={**node.image.brokers, 2: broker}, topics={**node.image.topics, "t": topic}
    )


@pytest.mark.parametrize(
    ("changes", "version", "expected"),
    [
        ({}, 5, (0, 2, [2, 1], [])),
        ({"fenced": True}, 0, (5, -1, [1], [])),
        ({"fenced": True}, 4, (5, -1, [2, 1], [])),
        ({"fenced": True}, 5, (5, -1, [2, 1], [2])),
        ({"endpoints": ()}, 5, (5, -1, [2, 1], [2])),
        ({"endpoints": ()}, 6, (72, -1, [2, 1], [2])),
    ],
)
async def test_a_leader_that_cannot_be_reached(
    changes: dict[str, Any], version: int, expected: tuple[int, int, list[int], list[int]], tmp_path: Path
) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        with_broker(node, **changes)
        response = await client.ask(by_name("t"), version)
        assert [broker.node_id for broker in response.brokers] == ([1] if changes else [1, 2])
        (row,) = response.topics[0].partitions
        assert (row.error_code, row.leader_id, row.replica_nodes, row.offline_replicas) == expected


# --- authorized operations -----------------------------------------------------------------------


@pytest.mark.parametrize("version", [8, 9, 10, 11, 13])
async def test_operations_are_shown_when_asked_for(version: int, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        request = by_name("t", include_topic_authorized_operations=True)
        if version <= 10:
            request.include_cluster_authorized_operations = True
        response = await client.ask(request, version)
        assert response.topics[0].topic_authorized_operations == TOPIC_OPERATIONS
        expected = CLUSTER_OPERATIONS if version <= 10 else NOT_ASKED_FOR
        assert response.cluster_authorized_operations == expected
