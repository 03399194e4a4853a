"""What the controller does of its own accord, and when."""

from __future__ import annotations

from dataclasses import replace

from kcli.broker.config.config_entries import ConfigChange
from kcli.broker.controller.controller import Controller
from kcli.broker.controller.replication_control import NewTopic, TopicDefaults
from kcli.broker.metadata.metadata_image import MetadataDelta, MetadataImage
from tests.support.metadata import running_controller

DEFAULTS = TopicDefaults()


def cluster() -> Controller:
    """Return a controller of three nodes that never go silent, in which 2 leads what prefers 1."""
    controller = running_controller(3)
    controller.settings = replace(controller.settings, broker_session_timeout_ms=10**9)
    controller.create_topics([NewTopic("a", assignments=[(0, [1, 2, 3])])], defaults=DEFAULTS)
    return controller


def bounce(controller: Controller, node_id: int) -> None:
    epoch = controller.image.brokers[node_id].epoch
    controller.fence_broker(node_id=node_id, epoch=epoch)
    controller.unfence_broker(node_id=node_id, epoch=epoch)


def return_to_sync(controller: Controller, isr: tuple[int, ...]) -> None:
    """Have every replica in sync again."""
    topic = controller.image.topics["a"]
    whole = replace(topic.partitions[0], isr=isr)
    image = replace(controller.image, topics={"a": replace(topic, partitions=(whole,))})
    controller.image = replace(image, topics_by_id={topic.topic_id: image.topics["a"]})


def leader(controller: Controller) -> int:
    return controller.image.topics["a"].partitions[0].leader


def test_leaders_are_balanced_five_seconds_after_an_epoch_begins_then_every_interval() -> None:
    controller = cluster()
    controller.settings = replace(controller.settings, leader_imbalance_check_interval_ms=60_000)
    controller.tick(1_000_000)
    bounce(controller, 1)
    return_to_sync(controller, (1, 2, 3))
    controller.tick(1_004_999)
    assert leader(controller) == 2
    controller.tick(1_005_000)
    assert leader(controller) == 1
    bounce(controller, 1)
    return_to_sync(controller, (1, 2, 3))
    controller.tick(1_064_999)
    assert leader(controller) == 2
    controller.tick(1_065_000)
    assert leader(controller) == 1


def test_leaders_stay_where_they_are_if_balancing_is_switched_off() -> None:
    controller = cluster()
    controller.settings = replace(controller.settings, auto_leader_rebalance=False)
    controller.tick(0)
    bounce(controller, 1)
    return_to_sync(controller, (1, 2, 3))
    controller.tick(10**8)
    assert leader(controller) == 2


def lose_the_last_in_sync(controller: Controller) -> None:
    for node_id in (2, 3, 1):
        controller.fence_broker(node_id=node_id, epoch=controller.image.brokers[node_id].epoch)
    controller.unfence_broker(node_id=2, epoch=controller.image.brokers[2].epoch)
    assert leader(controller) == -1


def allow_unclean(controller: Controller) -> None:
    change = ConfigChange("unclean.leader.election.enable", 0, "true")
    assert controller.incremental_alter_configs([((2, "a"), [change])], defaults=DEFAULTS) == [None]


def test_a_topic_that_is_allowed_to_lose_records_gets_a_leader_at_the_next_look() -> None:
    controller = cluster()
    controller.tick(0)
    lose_the_last_in_sync(controller)
    controller.tick(1)
    assert leader(controller) == -1
    allow_unclean(controller)
    assert leader(controller) == -1
    controller.tick(2)
    assert leader(controller) == 2


def test_a_topic_that_is_allowed_to_lose_records_gets_a_leader_when_its_nodes_come_and_go() -> None:
    controller = cluster()
    allow_unclean(controller)
    for node_id in (2, 3, 1):
        controller.fence_broker(node_id=node_id, epoch=controller.image.brokers[node_id].epoch)
    assert leader(controller) == -1
    controller.unfence_broker(node_id=3, epoch=controller.image.brokers[3].epoch)
    assert leader(controller) == 3


def test_what_a_subscriber_causes_is_told_to_all_afterwards() -> None:
    controller = running_controller(2)
    told: list[tuple[str, int]] = []

    def curious(image: MetadataImage, _: MetadataDelta) -> None:
        told.append(("curious", image.offset))
        if "b" not in image.topics:
            controller.create_topics([NewTopic("b")], defaults=DEFAULTS)

    controller.publisher.observe(curious)
    controller.publisher.observe(lambda image, _: told.append(("other", image.offset)))
    controller.create_topics([NewTopic("a")], defaults=DEFAULTS)
    first, second = controller.image.offset - 2, controller.image.offset
    assert told == [("curious", first), ("other", first), ("curious", second), ("other", second)]


def test_a_broker_of_very_many_partitions_goes_in_several_batches() -> None:
    controller = running_controller(2)
    for name in ("a", "b"):
        topic = NewTopic(name, assignments=[(index, [1, 2]) for index in range(6000)])
        controller.create_topics([topic], defaults=DEFAULTS)
    sizes: list[int] = []
    controller.publisher.observe(
        lambda _, delta: sizes.append(sum(map(len, delta.changed_partitions.values())))
    )
    controller.fence_broker(node_id=1, epoch=controller.image.brokers[1].epoch)
    assert sizes == [10_000, 2000]
    leaders = {each.leader for topic in controller.image.topics.values() for each in topic.partitions}
    assert leaders == {2}
    assert not controller.image.broker_is_active(1)
