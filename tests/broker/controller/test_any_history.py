"""What holds after any history: nodes that come, go and fail, topics, moves, elections, features, time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.broker.controller.election_control import ElectionType
from kcli.broker.metadata.metadata_image import EMPTY_IMAGE, MetadataDelta, MetadataImage, delta_between
from kcli.broker.metadata.metadata_replay import MetadataBatch, apply, replay
from kcli.broker.metadata.registrations import LeaderRecoveryState, PartitionState, partition_state
from tests.broker.controller.world import World

if TYPE_CHECKING:
    from kcli.broker.metadata.metadata_image import PartitionRegistration

NODES = st.integers(1, 4)
NAMES = st.sampled_from("ab")
REPLICAS = st.lists(NODES, min_size=1, max_size=4, unique=True)
OPERATIONS = st.one_of(
    st.tuples(st.just("create"), NAMES, st.integers(1, 3), st.integers(1, 4)),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("grow"), NAMES, st.integers(2, 4)),
    st.tuples(
        st.just("config"), NAMES, st.sampled_from(["min.insync.replicas", "unclean"]), st.integers(0, 2)
    ),
    st.tuples(st.just("restart"), NODES, st.booleans()),
    st.tuples(st.just("beat"), NODES, st.integers(0, 3)),
    st.tuples(st.just("stop"), NODES),
    st.tuples(st.just("lose directory"), NODES, st.integers(0, 1)),
    st.tuples(st.just("unregister"), NODES),
    st.tuples(st.just("move"), NAMES, st.none() | REPLICAS),
    st.tuples(st.just("elect"), NAMES, st.sampled_from(ElectionType)),
    st.tuples(st.just("in sync"), NAMES, REPLICAS),
    st.tuples(st.just("time"), st.sampled_from([1000, 5000, 10_000])),
    st.tuples(st.just("eligible leaders"), st.integers(0, 1)),
    st.tuples(st.just("epoch")),
)
HISTORIES = st.lists(OPERATIONS, max_size=30)


def check_partition(image: MetadataImage, partition: PartitionRegistration) -> None:
    """Check what holds for every partition at any time."""
    replicas, isr, elr = set(partition.replicas), set(partition.isr), set(partition.elr)
    assert replicas
    assert len(replicas) == len(partition.replicas) == len(partition.directories)
    assert isr <= replicas
    assert elr <= replicas - isr
    assert {*partition.adding, *partition.removing} <= replicas
    if partition.leader != -1:
        assert partition.leader in isr
        assert image.broker_is_active(partition.leader)
        assert image.brokers[partition.leader].has_online(partition.directory_of(partition.leader))
    if partition.recovery_state is LeaderRecoveryState.RECOVERING:
        assert len(isr) <= 1


def check_step(before: PartitionRegistration, after: PartitionRegistration) -> None:
    """Check what holds between a partition and the same one after a decision."""
    assert after.partition_epoch > before.partition_epoch
    assert after.leader_epoch >= before.leader_epoch
    if after.leader != before.leader or not {*before.replicas} <= {*after.replicas}:
        assert after.leader_epoch > before.leader_epoch
    assert partition_state(after) is not PartitionState.NEW or partition_state(before) is PartitionState.NEW
    had_everything = {*before.isr, *before.elr}
    is_new_leader = after.leader not in {-1, before.leader}
    if is_new_leader and after.recovery_state is LeaderRecoveryState.RECOVERED:
        # A leader that lacks records is told so, whatever else has happened.
        assert after.leader in had_everything | {*after.isr}


@settings(max_examples=300, deadline=None)
@given(HISTORIES)
def test_the_image_is_what_the_log_says_and_every_partition_is_sound(
    history: list[tuple[object, ...]],
) -> None:
    world = World()
    images = [world.controller.image]

    def follow(image: MetadataImage, delta: MetadataDelta) -> None:
        before = images[-1]
        images.append(image)
        created = {topic.topic_id for topic in delta.created_topics}
        for topic_id, indexes in delta.changed_partitions.items():
            partitions = image.topics_by_id[topic_id].partitions
            for index in indexes:
                check_partition(image, partitions[index])
                if topic_id not in created and index < len(before.topics_by_id[topic_id].partitions):
                    check_step(before.topics_by_id[topic_id].partitions[index], partitions[index])

    world.controller.publisher.observe(follow)
    for operation in history:
        world.perform(operation)
    image = world.controller.image
    assert replay(MetadataBatch(*batch) for batch in world.log.batches) == image
    assert [each.offset for each in images] == sorted({each.offset for each in images})
    for topic in image.topics.values():
        for partition in topic.partitions:
            check_partition(image, partition)
            # Somebody can lead it again, unless it was made to forget who.
            can_lead = {*partition.isr, *partition.elr, *partition.last_known_elr}
            assert can_lead or any(operation[0] == "config" for operation in history)


@settings(max_examples=150, deadline=None)
@given(HISTORIES, st.integers(0, 60))
def test_who_hears_of_many_changes_as_one_knows_the_same(
    history: list[tuple[object, ...]], heard_first: int
) -> None:
    world = World()
    for operation in history:
        world.perform(operation)
    batches, image = world.log.batches, world.controller.image
    first = replay(MetadataBatch(*batch) for batch in batches[:heard_first])
    rest = [record for _, _, records in batches[heard_first:] for record in records]
    caught_up, delta = apply(first, rest, last_offset=image.offset, epoch=image.epoch)
    assert caught_up == image
    expected = delta_between(first, image)
    for kind in ("created_topics", "changed_topics", "deleted_topics"):
        assert set(getattr(delta, kind)) == set(getattr(expected, kind))
    assert delta.changed_partitions == expected.changed_partitions
    assert (delta.changed_configs, delta.changed_brokers) == (
        expected.changed_configs,
        expected.changed_brokers,
    )
    # A node that starts has everything to catch up with.
    assert set(MetadataDelta.from_nothing(image).created_topics) == set(image.topics.values())
    assert EMPTY_IMAGE.topics == {}


@settings(max_examples=150, deadline=None)
@given(
    HISTORIES,
    st.one_of(
        st.tuples(st.just("beat"), NODES, st.just(0)),
        st.tuples(st.just("delete"), NAMES),
        st.tuples(st.just("move"), NAMES, REPLICAS),
        st.tuples(st.just("elect"), NAMES, st.sampled_from(ElectionType)),
        st.tuples(st.just("lose directory"), NODES, st.integers(0, 1)),
        st.tuples(st.just("time"), st.just(0)),
    ),
)
def test_the_same_event_twice_is_as_once(
    history: list[tuple[object, ...]], event: tuple[object, ...]
) -> None:
    world = World()
    for operation in [*history, event]:
        world.perform(operation)
    once = world.controller.image
    world.perform(event)
    assert world.controller.image is once
