"""CreateTopics, DeleteTopics, CreatePartitions and DescribeTopicPartitions, over a controller in memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kcli.broker.config.broker_config import BrokerConfig
from kcli.broker.controller.controller import Controller
from kcli.broker.handlers.topics import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_topic_partitions,
    failed_delete_topics,
)
from kcli.broker.network.apis import Api
from kcli.broker.network.request_context import RequestContext
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kcli.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kcli.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from kcli.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from kcli.protocol.schema.declaration import codec
from kcli.protocol.uuids import ZERO_UUID
from tests.support.metadata import running_controller, topic_id


class Node:
    """A node that has a controller and applies what it says at once."""

    def __init__(self, nodes: int = 3, **properties: str) -> None:
        self.node_id = 1
        self.controller: Controller = running_controller(nodes)
        self.config = BrokerConfig.from_properties(
            {name.replace("_", "."): value for name, value in properties.items()}
        )

    @property
    def image(self) -> Any:
        return self.controller.image

    def context(self, version: int = 7) -> RequestContext:
        context = RequestContext(SimpleNamespace(broker=self).broker, "PLAINTEXT", "127.0.0.1")  # type: ignore[arg-type]
        context.api_version = version
        return context

    def create(self, *topics: CreatableTopic, version: int = 7, validate_only: bool = False) -> list[Any]:
        request = CreateTopicsRequest(topics=list(topics), timeout_ms=1, validate_only=validate_only)
        response = create_topics(request, self.context(version))
        encoded = codec(CreateTopicsResponse, version).encode(response)
        return codec(CreateTopicsResponse, version).decode(encoded)[0].topics

    def delete(self, *names: str | None, version: int = 5, ids: tuple[bytes, ...] = ()) -> list[Any]:
        if version < 6:
            request = DeleteTopicsRequest(topic_names=[str(name) for name in names], timeout_ms=1)
        else:
            states = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names]
            states += [DeleteTopicState(topic_id=each) for each in ids]
            request = DeleteTopicsRequest(topics=states, timeout_ms=1)
        response = delete_topics(request, self.context(version))
        encoded = codec(DeleteTopicsResponse, version).encode(response)
        return codec(DeleteTopicsResponse, version).decode(encoded)[0].responses

    def grow(self, *topics: CreatePartitionsTopic, validate_only: bool = False) -> list[tuple[str, int]]:
        request = CreatePartitionsRequest(topics=list(topics), timeout_ms=1, validate_only=validate_only)
        response = create_partitions(request, self.context(3))
        encoded = codec(CreatePartitionsResponse, 3).encode(response)
        decoded = codec(CreatePartitionsResponse, 3).decode(encoded)[0]
        return [(result.name, result.error_code) for result in decoded.results]

    def describe(self, *names: str, limit: int = 2000, cursor: Cursor | None = None) -> tuple[Any, ...]:
        """Return (name, error code, partition indexes) of each topic, and the next cursor."""
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
            cursor=cursor,
        )
        response = describe_topic_partitions(request, self.context(0))
        encoded = codec(DescribeTopicPartitionsResponse, 0).encode(response)
        decoded = codec(DescribeTopicPartitionsResponse, 0).decode(encoded)[0]
        pages = [
            (topic.name, topic.error_code, [each.partition_index for each in topic.partitions])
            for topic in decoded.topics
        ]
        following = decoded.next_cursor
        return pages, following and (following.topic_name, following.partition_index)


def topic(
    name: str,
    partitions: int = -1,
    replicas: int = -1,
    assignments: dict[int, list[int]] | None = None,
    **configs: str | None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assignments or {}).items()
        ],
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
        ],
    )


def codes(results: list[Any]) -> list[tuple[str, int]]:
    return sorted((result.name, result.error_code) for result in results)


def test_a_topic_is_returned_with_its_counts_id_and_configuration() -> None:
    node = Node(num_partitions="4", default_replication_factor="2", log_retention_ms="9")
    (created,) = node.create(topic("a", segment_ms="5"))
    assert (created.error_code, created.num_partitions, created.replication_factor) == (0, 4, 2)
    assert created.topic_id == node.image.topics["a"].topic_id
    configs = {each.name: (each.value, each.config_source) for each in created.configs}
    assert len(configs) == 33
    assert configs["segment.ms"] == ("5", 1)
    assert configs["retention.ms"] == ("9", 4)
    assert configs["flush.ms"] == ("9223372036854775807", 5)


@pytest.mark.parametrize("version", range(8))
def test_every_version_creates(version: int) -> None:
    node = Node()
    (created,) = node.create(topic("a", 1, 1), version=version)
    assert (created.error_code, created.num_partitions) == (0, 1 if version >= 5 else -1)
    assert "a" in node.image.topics


def test_validating_only_answers_the_same_and_makes_nothing() -> None:
    node = Node()
    (created,) = node.create(topic("a", 2), validate_only=True)
    assert (created.error_code, created.num_partitions) == (0, 2)
    assert node.image.topics == {}


def test_each_topic_has_its_own_answer() -> None:
    node = Node()
    node.create(topic("old"))
    results = node.create(
        topic("old"),
        topic("new"),
        topic("twice"),
        topic("twice"),
        topic("a b"),
        topic("big", 1, 4),
        topic("bad", retention_ms="x"),
        topic("null", retention_ms=None),
        topic("__cluster_metadata"),
        topic("both", 1, -1, {0: [1]}),
    )
    assert codes(results) == [
        ("__cluster_metadata", ErrorCode.INVALID_REQUEST),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("bad", ErrorCode.INVALID_CONFIG),
        ("big", ErrorCode.INVALID_REPLICATION_FACTOR),
        ("both", ErrorCode.INVALID_REQUEST),
        ("new", ErrorCode.NONE),
        ("null", ErrorCode.INVALID_CONFIG),
        ("old", ErrorCode.TOPIC_ALREADY_EXISTS),
        ("twice", ErrorCode.INVALID_REQUEST),
    ]
    assert set(node.image.topics) == {"old", "new"}
    assert all(result.error_message for result in results if result.error_code)


@pytest.mark.parametrize("version", range(7))
def test_every_version_deletes(version: int) -> None:
    node = Node()
    node.create(topic("a"))
    (deleted,) = node.delete("a", version=version)
    assert (deleted.name, deleted.error_code) == ("a", 0)
    assert node.image.topics == {}


def test_deletion_by_name_and_by_id() -> None:
    node = Node()
    node.create(topic("a"), topic("b"), topic("c"))
    ids = (node.image.topics["b"].topic_id, topic_id(99), node.image.topics["c"].topic_id)
    results = node.delete("a", "none", "c", None, version=6, ids=ids)
    assert sorted((str(each.name), each.topic_id == ZERO_UUID, each.error_code) for each in results) == [
        ("None", False, ErrorCode.INVALID_REQUEST),  # c, once more
        ("None", False, ErrorCode.UNKNOWN_TOPIC_ID),
        ("None", True, ErrorCode.INVALID_REQUEST),
        ("a", False, ErrorCode.NONE),
        ("b", False, ErrorCode.NONE),
        ("none", True, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert set(node.image.topics) == {"c"}


def test_what_is_named_twice_is_not_deleted() -> None:
    node = Node()
    node.create(topic("a"))
    assert codes(node.delete("a", "a")) == [("a", ErrorCode.INVALID_REQUEST)]
    assert "a" in node.image.topics


@pytest.mark.parametrize(
    ("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)]
)
def test_deletion_may_be_switched_off(version: int, code: ErrorCode) -> None:
    node = Node(delete_topic_enable="false")
    node.create(topic("a"))
    with pytest.raises(KafkaError) as caught:
        node.delete("a", version=version)
    assert caught.value.code is code
    assert "a" in node.image.topics


def test_a_failure_of_the_whole_request_is_every_topics() -> None:
    error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "why")
    failed = Api("CreateTopics", "topics").failed
    assert failed is not None
    created = failed(CreateTopicsRequest(topics=[topic("a"), topic("b")]), error)
    assert codes(created.topics) == [("a", 56), ("b", 56)]
    deleted = failed_delete_topics(DeleteTopicsRequest(topic_names=["a"], timeout_ms=1), error)
    assert codes(deleted.responses) == [("a", 56)]


def growth(name: str, count: int, assignments: list[list[int]] | None = None) -> CreatePartitionsTopic:
    return CreatePartitionsTopic(
        name=name,
        count=count,
        assignments=None
        if assignments is None
        else [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments],
    )


def test_growth() -> None:
    node = Node()
    node.create(topic("a", 1, 1), topic("b", 2, 1))
    assert node.grow(growth("a", 3), validate_only=True) == [("a", 0)]
    assert len(node.image.topics["a"].partitions) == 1
    assert node.grow(growth("a", 3), growth("b", 3, [[2]]), growth("b", 4), growth("none", 3)) == [
        ("b", ErrorCode.INVALID_REQUEST),
        ("a", 0),
        ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert len(node.image.topics["a"].partitions) == 3
    assert node.grow(growth("b", 3, [[2]])) == [("b", 0)]
    assert node.image.topics["b"].partitions[2].replicas == (2,)


def test_pages() -> None:
    node = Node()
    node.create(topic("a", 3, 1), topic("b", 2, 1), topic("c", 1, 1))
    whole = [("a", 0, [0, 1, 2]), ("b", 0, [0, 1]), ("c", 0, [0])]
    assert node.describe() == (whole, None)
    assert node.describe("b", "a", "b") == (whole[:2], None)
    assert node.describe(limit=2) == ([("a", 0, [0, 1])], ("a", 2))
    assert node.describe(limit=3) == ([("a", 0, [0, 1, 2])], ("b", 0))
    assert node.describe(limit=4) == ([("a", 0, [0, 1, 2]), ("b", 0, [0])], ("b", 1))
    assert node.describe(limit=0) == ([("a", 0, [0])], ("a", 1))
    from_there = Cursor(topic_name="a", partition_index=2)
    assert node.describe(cursor=from_there) == ([("a", 0, [2]), *whole[1:]], None)
    assert node.describe("b", "c", limit=1, cursor=Cursor(topic_name="b", partition_index=1)) == (
        [("b", 0, [1])],
        ("c", 0),
    )


def test_pages_go_through_everything_once() -> None:
    node = Node()
    node.create(*[topic(name, count, 1) for name, count in (("a", 5), ("b", 1), ("c", 7), ("d", 2))])
    for limit in range(1, 16):
        seen: list[tuple[str, int]] = []
        cursor: Cursor | None = None
        while True:
            pages, following = node.describe(limit=limit, cursor=cursor)
            seen.extend((name, index) for name, _, indexes in pages for index in indexes)
            if following is None:
                break
            cursor = Cursor(topic_name=following[0], partition_index=following[1])
        assert seen == [
            (name, index)
            for name, count in (("a", 5), ("b", 1), ("c", 7), ("d", 2))
            for index in range(count)
        ]


def test_the_broker_bounds_a_page_as_well() -> None:
    node = Node(max_request_partition_size_limit="2")
    node.create(topic("a", 3, 1))
    assert node.describe() == ([("a", 0, [0, 1])], ("a", 2))


def test_topics_that_are_not_there() -> None:
    pages, _ = Node().describe("none", "a b")
    assert pages == [
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION, []),
        ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []),
    ]


@pytest.mark.parametrize(
    "cursor", [Cursor(topic_name="z", partition_index=0), Cursor(topic_name="a", partition_index=-1)]
)
def test_cursors_that_cannot_be(cursor: Cursor) -> None:
    node = Node()
    node.create(topic("a"))
    with pytest.raises(KafkaError) as caught:
        node.describe("a", cursor=cursor)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_fenced_brokers_are_offline_and_do_not_lead() -> None:
    node = Node()
    node.create(topic("a", -1, -1, {0: [2, 1], 1: [2, 3]}))
    for node_id in (2, 3):
        node.controller.fence_broker(node_id=node_id, epoch=node.image.brokers[node_id].epoch)
    request = DescribeTopicPartitionsRequest(topics=[])
    described = describe_topic_partitions(request, node.context(0)).topics[0]
    shapes = [
        (each.leader_id, each.leader_epoch, each.replica_nodes, each.isr_nodes, each.offline_replicas)
        for each in described.partitions
    ]
    assert shapes == [(1, 1, [2, 1], [1], [2]), (-1, 2, [2, 3], [], [2, 3])]
    assert described.partitions[1].eligible_leader_replicas == [3]
