"""Topics: what is decided, record by record, and every way to be refused."""

from __future__ import annotations

import itertools
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from kcli.broker.controller.replication_control import (
    NewPartitions,
    NewTopic,
    TopicDefaults,
    adopt_topic,
    create_partitions,
    create_topics,
    delete_topics,
)
from kcli.broker.controller.result import ControllerResult
from kcli.broker.metadata.metadata_image import BrokerRegistration, MetadataImage, TopicImage
from kcli.broker.metadata.metadata_replay import apply
from kcli.broker.metadata.registrations import UNASSIGNED_DIRECTORY
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.metadata_records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.support.metadata import broker, directory_of, image_of, topic_id, with_topic

ONE = image_of(broker(1))
THREE = image_of(broker(1), broker(2), broker(3))


def create(
    image: MetadataImage, *topics: NewTopic, defaults: TopicDefaults | None = None
) -> ControllerResult[list[TopicImage | KafkaError]]:
    numbers = itertools.count(1)
    return create_topics(
        image,
        topics,
        defaults=defaults or TopicDefaults(),
        random=Random(1),
        new_topic_id=lambda: topic_id(next(numbers)),
    )


def code_of(outcome: object) -> ErrorCode:
    assert isinstance(outcome, KafkaError), outcome
    return outcome.code


def test_a_topic_is_its_name_then_its_configuration_then_its_partitions() -> None:
    result = create(ONE, NewTopic("orders", partitions=2, configs={"retention.ms": "1000"}))

    def partition(index: int) -> PartitionRecord:
        return PartitionRecord(
            partition_id=index,
            topic_id=topic_id(1),
            replicas=[1],
            isr=[1],
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=[directory_of(1)],
        )

    assert result.records == (
        TopicRecord(name="orders", topic_id=topic_id(1)),
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1000"),
        partition(0),
        partition(1),
    )
    image, delta = apply(ONE, result.records)
    assert result.response == [image.topics["orders"]] == list(delta.created_topics)


def test_counts_default_to_what_the_serving_broker_says() -> None:
    result = create(THREE, NewTopic("a"), NewTopic("b", partitions=1), defaults=TopicDefaults(4, 2))
    shapes = [
        (len(topic.partitions), topic.replication_factor)
        for topic in result.response
        if isinstance(topic, TopicImage)
    ]
    assert shapes == [(4, 2), (1, 2)]


def test_a_given_assignment_is_taken_as_it_is() -> None:
    wanted = NewTopic("a", assignments=[(1, [1, 2, 0]), (0, [0, 1, 2]), (2, [2, 1, 0])])
    (topic,) = create(image_of(broker(0), broker(1), broker(2)), wanted).response
    assert isinstance(topic, TopicImage)
    assert [each.replicas for each in topic.partitions] == [(0, 1, 2), (1, 2, 0), (2, 1, 0)]
    assert [each.leader for each in topic.partitions] == [0, 1, 2]
    assert all(each.isr == each.replicas for each in topic.partitions)


@pytest.mark.parametrize("replication_factor", [1, 2, 3, 4])
def test_fenced_brokers_get_replicas_only_when_the_others_do_not_suffice(replication_factor: int) -> None:
    image = image_of(broker(1), broker(2, fenced=True), broker(3), broker(4, fenced=True))
    wanted = NewTopic("a", partitions=8, replication_factor=replication_factor)
    (topic,) = create(image, wanted).response
    assert isinstance(topic, TopicImage)
    for partition in topic.partitions:
        active = [replica for replica in partition.replicas if replica in {1, 3}]
        fenced = [replica for replica in partition.replicas if replica in {2, 4}]
        assert partition.replicas == (*active, *fenced)
        assert len(active) == min(replication_factor, 2)
        assert len(set(partition.replicas)) == replication_factor
        assert (partition.isr, partition.leader) == (tuple(active), active[0])
    used = {replica for partition in topic.partitions for replica in partition.replicas}
    assert used == ({1, 3} if replication_factor <= 2 else {1, 2, 3, 4})


def test_nothing_is_placed_while_all_brokers_are_fenced() -> None:
    image = image_of(broker(1, fenced=True), broker(2, fenced=True))
    (error,) = create(image, NewTopic("a", replication_factor=1)).response
    assert isinstance(error, KafkaError)
    assert (error.code, error.message) == (ErrorCode.INVALID_REPLICATION_FACTOR, "all brokers are fenced")


def test_a_broker_that_is_shutting_down_gets_no_replicas() -> None:
    leaving = replace(broker(2), in_controlled_shutdown=True)
    (error,) = create(image_of(broker(1), leaving), NewTopic("a", replication_factor=2)).response
    assert code_of(error) is ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_topic_that_moves_grows_by_partitions_as_large_as_before() -> None:
    image = with_topic(image_of(*(broker(node_id) for node_id in (1, 2, 3, 4))), "a", 1, [1, 2])
    moving = PartitionChangeRecord(
        topic_id=topic_id(1),
        partition_id=0,
        replicas=[3, 4, 1, 2],
        adding_replicas=[3, 4],
        removing_replicas=[1, 2],
    )
    image = apply(image, [moving])[0]
    (record,) = create_partitions(image, [NewPartitions("a", 2)]).records
    assert isinstance(record, PartitionRecord)
    assert len(record.replicas) == 2


def test_replicas_are_spread_over_racks() -> None:
    brokers = [broker(node_id, rack="abc"[node_id % 3]) for node_id in range(1, 7)]
    (topic,) = create(image_of(*brokers), NewTopic("a", partitions=12, replication_factor=3)).response
    assert isinstance(topic, TopicImage)
    for partition in topic.partitions:
        assert len({replica % 3 for replica in partition.replicas}) == 3


def test_fenced_brokers_neither_lead_nor_are_in_sync() -> None:
    image = image_of(broker(1, fenced=True), broker(2))
    (topic,) = create(image, NewTopic("a", assignments=[(0, [1, 2])])).response
    assert isinstance(topic, TopicImage)
    assert (topic.partitions[0].leader, topic.partitions[0].isr) == (2, (2,))


def test_a_broker_of_several_directories_has_a_choice() -> None:
    two = BrokerRegistration(1, 100, b"", fenced=False, directories=(b"a" * 16, b"b" * 16))
    (topic,) = create(image_of(two), NewTopic("a", partitions=1, replication_factor=1)).response
    assert isinstance(topic, TopicImage)
    assert topic.partitions[0].directories == (UNASSIGNED_DIRECTORY,)


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (NewTopic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("ä"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a\n"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("__cluster_metadata"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("old_topic"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("old.topic"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (NewTopic("a", partitions=0), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("a", partitions=-2), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("a", partitions=2**31 - 1), ErrorCode.POLICY_VIOLATION),
        (NewTopic("a", replication_factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("a", replication_factor=-2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("a", replication_factor=4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("a", partitions=1, assignments=[(0, [1])]), ErrorCode.INVALID_REQUEST),
        (NewTopic("a", replication_factor=1, assignments=[(0, [1])]), ErrorCode.INVALID_REQUEST),
        (NewTopic("a", assignments=[(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("a", assignments=[(0, [9])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("a", assignments=[(0, [1, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("a", assignments=[(0, [3])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("a", assignments=[(1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("a", assignments=[(0, [1]), (0, [2])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("a", assignments=[(0, [1]), (1, [1, 2])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("a", assignments=[(-1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("a", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (NewTopic("a", configs={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("a", configs={"retention": "1"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("a", configs={"min.compaction.lag.ms": "9"}), ErrorCode.INVALID_CONFIG),
    ],
)
def test_refusals(wanted: NewTopic, code: ErrorCode) -> None:
    image = with_topic(image_of(broker(1), broker(2), broker(3, fenced=True)), "old.topic", 9, [1])
    defaults: dict[str, Any] = {"max.compaction.lag.ms": 5, "min.compaction.lag.ms": 0}
    result = create(image, wanted, defaults=TopicDefaults(1, 1, defaults))
    assert code_of(result.response[0]) is code
    assert result.records == ()


def test_topics_fail_alone_and_do_not_get_into_each_others_way() -> None:
    wanted = [NewTopic(name, partitions=1, replication_factor=1) for name in ("a.b", "a_b", "a b", "c")]
    result = create(ONE, *wanted)
    outcomes = ["made" if isinstance(each, TopicImage) else code_of(each).value for each in result.response]
    assert outcomes == ["made", 17, 17, "made"]
    image, _ = apply(ONE, result.records)
    assert set(image.topics) == {"a.b", "c"}


def test_names_that_collided_before_are_both_known() -> None:
    image = with_topic(with_topic(ONE, "a.b", 1, [1]), "a_b", 2, [1])
    result = create(image, NewTopic("a.b"), NewTopic("a_b"))
    assert [code_of(each) for each in result.response] == [ErrorCode.TOPIC_ALREADY_EXISTS] * 2


def test_a_request_makes_no_more_records_than_one_batch_holds() -> None:
    wanted = [NewTopic(name, partitions=4000, replication_factor=1) for name in "abc"]
    result = create(ONE, *wanted)
    assert code_of(result.response[2]) is ErrorCode.POLICY_VIOLATION
    assert len(result.records) == 8002


def test_deletion_is_one_record_and_takes_the_configuration_along() -> None:
    result = create(ONE, NewTopic("a", configs={"retention.ms": "1"}), NewTopic("b"))
    image, _ = apply(ONE, result.records)
    deletion = delete_topics(image, [topic_id(1), topic_id(77)])
    assert deletion.records == (RemoveTopicRecord(topic_id=topic_id(1)),)
    assert deletion.response[0] == image.topics["a"]
    assert code_of(deletion.response[1]) is ErrorCode.UNKNOWN_TOPIC_ID
    after, delta = apply(image, deletion.records)
    assert set(after.topics) == {"b"}
    assert after.topic_config("a") == {}
    assert delta.deleted_topics == (image.topics["a"],)
    assert delta.changed_configs == {(2, "a")}


def test_growth_adds_partitions_behind_the_others() -> None:
    image = with_topic(image_of(*map(broker, range(5))), "a", 1, [2, 3, 4], [3, 4, 0], [4, 0, 1])
    result = create_partitions(image, [NewPartitions("a", 8)])
    assert result.response == [5]
    after, delta = apply(image, result.records)
    grown = [each.replicas for each in after.topics["a"].partitions[3:]]
    assert grown == [(0, 3, 4), (1, 4, 0), (2, 1, 3), (3, 2, 4), (4, 3, 0)]
    assert delta.changed_partitions == {topic_id(1): frozenset(range(3, 8))}
    assert delta.changed_topics == (after.topics["a"],)


def test_growth_with_an_assignment() -> None:
    image = with_topic(THREE, "a", 1, [1, 2])
    result = create_partitions(image, [NewPartitions("a", 3, [[2, 3], [3, 1]])])
    after, _ = apply(image, result.records)
    assert [each.replicas for each in after.topics["a"].partitions] == [(1, 2), (2, 3), (3, 1)]


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (NewPartitions("none", 5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (NewPartitions("a", 2), ErrorCode.INVALID_PARTITIONS),
        (NewPartitions("a", 1), ErrorCode.INVALID_PARTITIONS),
        (NewPartitions("a", -1), ErrorCode.INVALID_PARTITIONS),
        (NewPartitions("a", 20_000), ErrorCode.POLICY_VIOLATION),
        (NewPartitions("a", 4, [[1, 2]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("a", 3, [[1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("a", 3, [[1, 9]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_growth_refused(wanted: NewPartitions, code: ErrorCode) -> None:
    image = with_topic(THREE, "a", 1, [1, 2], [2, 3])
    result = create_partitions(image, [wanted])
    assert code_of(result.response[0]) is code
    assert result.records == ()


def test_growth_needs_as_many_brokers_as_replicas() -> None:
    image = with_topic(image_of(broker(1)), "a", 1, [1, 2])
    result = create_partitions(image, [NewPartitions("a", 2)])
    assert code_of(result.response[0]) is ErrorCode.INVALID_REPLICATION_FACTOR


def test_an_adopted_topic_keeps_the_id_that_its_data_has() -> None:
    result = adopt_topic(ONE, name="a", topic_id=topic_id(5), partitions=2, node_id=1)
    image, _ = apply(ONE, result.records)
    assert image.topics_by_id[topic_id(5)] == result.response
    assert [each.replicas for each in result.response.partitions] == [(1,), (1,)]


@pytest.mark.parametrize(("name", "number"), [("a", 6), ("b", 1)])
def test_what_is_taken_cannot_be_adopted(name: str, number: int) -> None:
    image = with_topic(ONE, "a", 1, [1])
    with pytest.raises(KafkaError) as caught:
        adopt_topic(image, name=name, topic_id=topic_id(number), partitions=1, node_id=1)
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_the_metadata_log_cannot_be_adopted_as_a_topic() -> None:
    with pytest.raises(KafkaError) as caught:
        adopt_topic(ONE, name="__cluster_metadata", topic_id=topic_id(5), partitions=1, node_id=1)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
