"""A process that starts again: its nodes have lost nothing against one another."""

from __future__ import annotations

from random import Random

from kcli.broker.controller.cluster_control import BrokerRegistrationRequest
from kcli.broker.controller.controller import Controller
from kcli.broker.controller.replication_control import NewTopic, TopicDefaults
from kcli.broker.metadata.metadata_image import EMPTY_IMAGE, Endpoint
from tests.support.metadata import MemoryLog


def registered(controller: Controller, node_id: int, start: int) -> int:
    return controller.register_broker(
        BrokerRegistrationRequest(
            node_id=node_id,
            incarnation=bytes([node_id, start] * 8),
            endpoints=[Endpoint("PLAINTEXT", "h", 9091 + node_id)],
            directories=[bytes([node_id] * 16)],
        )
    )


def cluster_of_three() -> Controller:
    controller = Controller(MemoryLog(), EMPTY_IMAGE, random=Random(0))
    controller.begin_epoch()
    controller.nodes_came_up({node_id: registered(controller, node_id, 0) for node_id in (1, 2, 3)}, {})
    wanted = [NewTopic("t", assignments=[(0, [1, 2, 3]), (1, [2, 3, 1]), (2, [3, 1, 2])])]
    assert not isinstance(controller.create_topics(wanted, defaults=TopicDefaults())[0], Exception)
    return controller


def states(controller: Controller) -> list[tuple[int, tuple[int, ...]]]:
    return [(each.leader, each.isr) for each in controller.image.topics["t"].partitions]


def test_all_nodes_are_in_sync_again_and_every_preferred_replica_leads() -> None:
    controller = cluster_of_three()
    before = [each.leader_epoch for each in controller.image.topics["t"].partitions]
    controller.nodes_went_down(returning=[1, 2, 3])
    assert states(controller) == [(-1, (1, 2, 3)), (-1, (2, 3, 1)), (-1, (3, 1, 2))]
    assert all(broker.fenced for broker in controller.image.brokers.values())
    controller.nodes_came_up({node_id: registered(controller, node_id, 1) for node_id in (1, 2, 3)}, {})
    assert states(controller) == [(1, (1, 2, 3)), (2, (2, 3, 1)), (3, (3, 1, 2))]
    after = [each.leader_epoch for each in controller.image.topics["t"].partitions]
    assert all(new > old for old, new in zip(before, after, strict=True))
    assert all(broker.is_active for broker in controller.image.brokers.values())


def test_a_node_that_does_not_return_is_in_sync_with_nothing() -> None:
    controller = cluster_of_three()
    controller.nodes_went_down(returning=[1, 3])
    controller.nodes_came_up({node_id: registered(controller, node_id, 1) for node_id in (1, 3)}, {})
    assert states(controller) == [(1, (1, 3)), (3, (3, 1)), (3, (3, 1))]
    assert controller.image.brokers[2].fenced


def test_who_had_been_out_of_sync_stays_out() -> None:
    controller = cluster_of_three()
    controller.fence_broker(node_id=2, epoch=controller.image.brokers[2].epoch)
    controller.nodes_went_down(returning=[1, 2, 3])
    controller.nodes_came_up({node_id: registered(controller, node_id, 1) for node_id in (1, 2, 3)}, {})
    assert states(controller) == [(1, (1, 3)), (3, (3, 1)), (3, (3, 1))]


def test_a_first_start_decides_nothing_about_partitions() -> None:
    controller = Controller(MemoryLog(), EMPTY_IMAGE, random=Random(0))
    controller.begin_epoch()
    offset = controller.image.offset
    controller.nodes_went_down(returning=[1])
    assert controller.image.offset == offset
