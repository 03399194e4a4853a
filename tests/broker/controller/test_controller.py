"""The controller: in its epoch, in order, and always what its log says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.broker.config.config_entries import ConfigChange
from kcli.broker.controller.cluster_control import BrokerRegistrationRequest
from kcli.broker.controller.election_control import ElectionType
from kcli.broker.controller.reassignment_control import Reassignment
from kcli.broker.controller.replication_control import NewPartitions, NewTopic, TopicDefaults
from kcli.broker.metadata.metadata_image import MetadataDelta, MetadataImage, TopicImage
from kcli.broker.metadata.metadata_replay import MetadataBatch, replay
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.alter_partition import AlterPartitionRequest, PartitionData, TopicData
from tests.support.metadata import MemoryLog, broker, running_controller, topic_id

if TYPE_CHECKING:
    from kcli.broker.controller.controller import Controller

DEFAULTS = TopicDefaults()
NAMES = st.sampled_from(["a", "b", "c.d", "c_d", "bad name"])
OPERATIONS = st.one_of(
    st.tuples(st.just("create"), NAMES, st.integers(-1, 4), st.integers(-1, 4)),
    st.tuples(st.just("delete"), st.integers(1, 6)),
    st.tuples(st.just("grow"), NAMES, st.integers(0, 9)),
    st.tuples(st.just("config"), NAMES, st.sampled_from(["1", "2", "x", None])),
    st.tuples(st.just("fence"), st.integers(1, 3)),
    st.tuples(st.just("unfence"), st.integers(1, 3)),
    st.tuples(st.just("restart"), st.integers(1, 3)),
    st.tuples(st.just("move"), NAMES, st.none() | st.lists(st.integers(1, 4), max_size=4).map(tuple)),
    st.tuples(st.just("elect"), NAMES, st.sampled_from(ElectionType)),
    st.tuples(st.just("in sync"), NAMES, st.lists(st.integers(1, 4), max_size=4)),
    st.tuples(st.just("epoch")),
    st.tuples(st.just("producer ids")),
)


def perform(controller: Controller, operation: tuple[object, ...]) -> None:
    match operation:
        case ("create", str(name), int(partitions), int(replicas)):
            controller.create_topics([NewTopic(name, partitions, replicas)], defaults=DEFAULTS)
        case ("delete", int(number)):
            controller.delete_topics([topic_id(number)])
        case ("grow", str(name), int(count)):
            controller.create_partitions([NewPartitions(name, count)])
        case ("config", str(name), value):
            change = ConfigChange("retention.ms", 1 if value is None else 0, str(value))
            controller.incremental_alter_configs([((2, name), [change])], defaults=DEFAULTS)
        case ("fence", int(node_id)):
            controller.fence_broker(node_id=node_id, epoch=controller.image.brokers[node_id].epoch)
        case ("unfence", int(node_id)):
            controller.unfence_broker(node_id=node_id, epoch=controller.image.brokers[node_id].epoch)
        case ("restart", int(node_id)):
            was = broker(node_id)
            controller.register_broker(
                BrokerRegistrationRequest(
                    node_id=node_id,
                    incarnation=f"reborn at {controller.image.offset:06d}".encode(),
                    endpoints=was.endpoints,
                    directories=was.directories,
                )
            )
        case ("move", str(name), replicas):
            controller.alter_reassignments([Reassignment(name, 0, replicas)])  # type: ignore[arg-type]
        case ("elect", str(name), ElectionType() as type):
            controller.elect_leaders([(name, 0)], type=type)
        case ("in sync", str(name), list(isr)) if name in controller.image.topics:
            controller.alter_partition(leader_asks(controller.image, name, isr))
        case ("epoch",):
            controller.begin_epoch()
        case ("producer ids",):
            controller.allocate_producer_ids(node_id=1, broker_epoch=0)


def leader_asks(image: MetadataImage, name: str, isr: list[int]) -> AlterPartitionRequest:
    topic = image.topics[name]
    partition = topic.partitions[0]
    data = PartitionData(
        partition_index=0,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        new_isr=isr,
    )
    sender = max(partition.leader, 1)
    return AlterPartitionRequest(
        broker_id=sender,
        broker_epoch=image.brokers[sender].epoch,
        topics=[TopicData(topic_id=topic.topic_id, partitions=[data])],
    )


@settings(max_examples=200)
@given(st.lists(OPERATIONS, max_size=25))
def test_the_image_is_always_what_replaying_the_log_gives(operations: list[tuple[object, ...]]) -> None:
    log = MemoryLog()
    controller = running_controller(3, log=log)
    seen: list[MetadataImage] = [controller.image]
    controller.publisher.observe(lambda image, _: seen.append(image))
    for operation in operations:
        perform(controller, operation)
    replayed = replay(MetadataBatch(*batch) for batch in log.batches)
    assert replayed == controller.image
    assert replayed.offset == log.end_offset - 1
    assert [image.offset for image in seen] == sorted({image.offset for image in seen})
    for topic in controller.image.topics.values():
        for partition in topic.partitions:
            # An empty one of all three would be a partition that nobody could ever lead again.
            assert partition.isr or partition.elr or partition.last_known_elr
            assert set(partition.elr) <= set(partition.replicas) - set(partition.isr)
            assert set(partition.isr) <= set(partition.replicas)
            assert {*partition.adding, *partition.removing} <= set(partition.replicas)
            assert len(partition.directories) == len(partition.replicas)
            assert partition.leader in {-1, *partition.isr}
            assert partition.leader == -1 or controller.image.broker_is_active(partition.leader)


@given(st.lists(OPERATIONS, max_size=12))
def test_deltas_lead_from_image_to_image(operations: list[tuple[object, ...]]) -> None:
    controller = running_controller(3)
    known: dict[bytes, TopicImage] = {}

    def follow(image: MetadataImage, delta: MetadataDelta) -> None:
        for topic in delta.deleted_topics:
            assert known.pop(topic.topic_id) == topic
        for topic in delta.created_topics:
            assert topic.topic_id not in known
        for topic in (*delta.created_topics, *delta.changed_topics):
            known[topic.topic_id] = topic
            assert delta.changed_partitions[topic.topic_id]
        assert known == image.topics_by_id

    controller.publisher.observe(follow)
    for operation in operations:
        perform(controller, operation)


def test_a_failed_append_changes_nothing() -> None:
    log = MemoryLog()
    controller = running_controller(log=log)
    before = controller.image
    log.failure = OSError(28, "No space left on device")
    with pytest.raises(KafkaError, match="No space left on device") as caught:
        controller.create_topics([NewTopic("a")], defaults=DEFAULTS)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert controller.image is before
    log.failure = None
    controller.create_topics([NewTopic("a")], defaults=DEFAULTS)
    assert "a" in controller.image.topics


def test_validating_only_decides_and_writes_nothing() -> None:
    log = MemoryLog()
    controller = running_controller(log=log)
    batches = len(log.batches)
    (topic,) = controller.create_topics([NewTopic("a", 3)], defaults=DEFAULTS, validate_only=True)
    assert isinstance(topic, TopicImage)
    assert len(topic.partitions) == 3
    assert (len(log.batches), controller.image.topics) == (batches, {})


def test_a_refusal_writes_nothing() -> None:
    log = MemoryLog()
    controller = running_controller(log=log)
    batches = len(log.batches)
    controller.create_topics([NewTopic("a b")], defaults=DEFAULTS)
    assert len(log.batches) == batches


def test_one_request_is_one_batch() -> None:
    log = MemoryLog()
    controller = running_controller(log=log)
    controller.create_topics([NewTopic("a", 2), NewTopic("b", 2)], defaults=DEFAULTS)
    assert len(log.batches[-1][2]) == 6


def test_producer_id_blocks_follow_each_other_over_terms() -> None:
    controller = running_controller()
    blocks = [controller.allocate_producer_ids(node_id=1, broker_epoch=2) for _ in range(2)]
    controller.begin_epoch()
    blocks.append(controller.allocate_producer_ids(node_id=1, broker_epoch=2))
    assert blocks == [(0, 1000), (1000, 1000), (2000, 1000)]


def test_producer_ids_that_adopted_data_knows_are_skipped() -> None:
    controller = running_controller()
    for first in (1500, 700):
        controller.skip_producer_ids(node_id=1, broker_epoch=2, first=first)
    assert controller.allocate_producer_ids(node_id=1, broker_epoch=2) == (1500, 1000)


def test_a_new_cluster_works_at_the_highest_features() -> None:
    controller = running_controller()
    assert controller.image.features == {
        "metadata.version": 30,
        "group.version": 1,
        "eligible.leader.replicas.version": 1,
        "transaction.version": 2,
    }
    before = controller.image.offset
    controller.begin_epoch()
    assert controller.image.offset == before + 1
    assert controller.image.epoch == 2
