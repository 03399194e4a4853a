"""What holds after any history: nodes that come, go and fail, topics, moves, elections, features, time."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.broker.controller.configuration_control import ConfigChange
from kcli.broker.controller.controller_settings import ControllerSettings
from kcli.broker.controller.election_control import ElectionType
from kcli.broker.controller.feature_control import FeatureUpdate, UpgradeType
from kcli.broker.controller.partition_state import PartitionState, partition_state
from kcli.broker.controller.reassignment_control import Reassignment
from kcli.broker.controller.replication_control import NewPartitions, NewTopic, TopicDefaults
from kcli.broker.metadata_image import EMPTY_IMAGE, MetadataDelta, MetadataImage, delta_between
from kcli.broker.metadata_replay import MetadataBatch, apply, replay
from kcli.broker.registrations import LeaderRecoveryState
from kcli.protocol.error_codes import KafkaError
from kcli.protocol.messages.alter_partition import AlterPartitionRequest, PartitionData, TopicData
from tests.support.metadata import MemoryJournal, broker, running_controller

if TYPE_CHECKING:
    from kcli.broker.metadata_image import PartitionRegistration

DEFAULTS = TopicDefaults()
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
    st.tuples(st.just("term")),
)
HISTORIES = st.lists(OPERATIONS, max_size=30)


class World:
    """A controller, its log and a clock."""

    def __init__(self) -> None:
        self.journal = MemoryJournal()
        self.controller = running_controller(0, journal=self.journal)
        self.controller.settings = ControllerSettings(leader_imbalance_check_interval_ms=7000)
        self.now_ms = 0
        self.incarnations = itertools.count()
        for node_id in (1, 2, 3):
            self.restart(node_id, clean=True)

    def perform(self, operation: tuple[object, ...]) -> None:
        """Do something; what is refused changes nothing."""
        before = len(self.journal.batches)
        try:
            self._perform(operation)
        except KafkaError:
            assert len(self.journal.batches) == before

    def _perform(self, operation: tuple[object, ...]) -> None:
        controller = self.controller
        match operation:
            case ("create", str(name), int(partitions), int(replicas)):
                controller.create_topics([NewTopic(name, partitions, replicas)], defaults=DEFAULTS)
            case ("delete", str(name)) if name in controller.image.topics:
                controller.delete_topics([controller.image.topics[name].topic_id])
            case ("grow", str(name), int(count)):
                controller.create_partitions([NewPartitions(name, count)])
            case ("config", str(name), str(key), int(value)):
                self.configure(name, key, value)
            case ("restart", int(node_id), bool(clean)):
                self.restart(node_id, clean=clean)
            case ("beat", int(node_id), int(lag)):
                self.beat(node_id, lag=lag)
            case ("stop", int(node_id)):
                self.beat(node_id, want_shutdown=True)
            case ("lose directory", int(node_id), int(which)):
                self.beat(node_id, offline_dirs=[directories(node_id)[which]])
            case ("unregister", int(node_id)):
                controller.unregister_broker(node_id=node_id)
            case ("move", str(name), replicas):
                target = tuple(replicas) if isinstance(replicas, list) else None
                controller.alter_reassignments([Reassignment(name, 0, target)])
            case ("elect", str(name), ElectionType() as type):
                controller.elect_leaders([(name, 0)], type=type)
            case ("in sync", str(name), list(isr)) if name in controller.image.topics:
                self.leader_asks(name, isr)
            case ("time", int(passed_ms)):
                self.now_ms += passed_ms
                controller.tick(self.now_ms)
            case ("eligible leaders", int(level)):
                type_ = UpgradeType.UPGRADE if level else UpgradeType.SAFE_DOWNGRADE
                controller.update_features([FeatureUpdate("eligible.leader.replicas.version", level, type_)])
            case ("term",):
                controller.begin_term()

    def restart(self, node_id: int, *, clean: bool) -> None:
        incarnation = f"incarnation {next(self.incarnations):04d}".encode()
        self.controller.register_broker(
            node_id=node_id,
            incarnation=incarnation,
            endpoints=broker(node_id).endpoints,
            directories=directories(node_id),
            had_clean_stop=clean,
        )
        self.beat(node_id)

    def beat(self, node_id: int, *, lag: int = 0, **wishes: object) -> None:
        known = self.controller.image.brokers.get(node_id)
        self.controller.heartbeat(
            node_id=node_id,
            epoch=known.epoch if known else 0,
            applied_offset=self.controller.image.offset - lag,
            now_ms=self.now_ms,
            **wishes,  # type: ignore[arg-type]
        )

    def configure(self, name: str, key: str, value: int) -> None:
        if key == "unclean":
            change = ConfigChange("unclean.leader.election.enable", 0, "true" if value else "false")
        else:
            change = ConfigChange(key, 0 if value else 1, str(value))
        self.controller.incremental_alter_configs([((2, name), [change])], defaults=DEFAULTS)

    def leader_asks(self, name: str, isr: list[int]) -> None:
        topic = self.controller.image.topics[name]
        partition = topic.partitions[0]
        sender = self.controller.image.brokers.get(partition.leader)
        data = PartitionData(
            partition_index=0,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr=isr,
        )
        request = AlterPartitionRequest(
            broker_id=partition.leader,
            broker_epoch=-1 if sender is None else sender.epoch,
            topics=[TopicData(topic_id=topic.topic_id, partitions=[data])],
        )
        self.controller.alter_partition(request)


def directories(node_id: int) -> list[bytes]:
    return [f"directory {node_id}-{index}   ".encode()[:16].ljust(16) for index in (0, 1)]


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

    world.controller.subscribe(follow)
    for operation in history:
        world.perform(operation)
    image = world.controller.image
    assert replay(MetadataBatch(*batch) for batch in world.journal.batches) == image
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
    batches, image = world.journal.batches, world.controller.image
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
