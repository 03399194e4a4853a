"""Heartbeats: what a broker becomes with each, and what silence does."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest

from kcli.broker.controller.cluster_control import BrokerRegistrationRequest
from kcli.broker.controller.controller import Controller
from kcli.broker.controller.directory_control import DirectoryAssignment
from kcli.broker.controller.feature_control import FeatureUpdate, UpgradeType
from kcli.broker.controller.heartbeat_control import (
    BrokerHeartbeatReply,
    BrokerState,
    Heartbeat,
    next_broker_state,
)
from kcli.broker.controller.replication_control import NewTopic, TopicDefaults
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.alter_partition import AlterPartitionRequest, PartitionData, TopicData
from tests.support.metadata import broker, directory_of, running_controller, topic_id

FENCED, UNFENCED = BrokerState.FENCED, BrokerState.UNFENCED
LEAVING, GO = BrokerState.CONTROLLED_SHUTDOWN, BrokerState.SHUTDOWN_NOW


class Situation:
    """Every answer to five questions."""

    def __init__(self, fence: bool, shutdown: bool, caught_up: bool, leads: bool, relieved: bool) -> None:
        self.fence, self.shutdown = fence, shutdown
        self.caught_up, self.leads, self.relieved = caught_up, leads, relieved


Condition = Callable[[Situation], bool]
EVERY_SITUATION = [Situation(*answers) for answers in itertools.product([False, True], repeat=5)]
RULES: list[tuple[BrokerState, Condition, BrokerState]] = [
    # state, what must hold, next state: the first rule that fits
    (FENCED, lambda s: s.shutdown, GO),
    (FENCED, lambda s: not s.fence and s.caught_up, UNFENCED),
    (FENCED, lambda s: True, FENCED),
    (UNFENCED, lambda s: s.fence and s.shutdown, GO),
    (UNFENCED, lambda s: s.fence, FENCED),
    (UNFENCED, lambda s: s.shutdown and s.leads, LEAVING),
    (UNFENCED, lambda s: s.shutdown, GO),
    (UNFENCED, lambda s: True, UNFENCED),
    (LEAVING, lambda s: s.leads or not s.relieved, LEAVING),
    (LEAVING, lambda s: True, GO),
    (GO, lambda s: True, GO),
]


@pytest.mark.parametrize("state", BrokerState)
def test_the_state_after_a_heartbeat(state: BrokerState) -> None:
    for situation in EVERY_SITUATION:
        heartbeat = Heartbeat(1, 1, 1, situation.fence, situation.shutdown)
        following = next_broker_state(
            state,
            heartbeat,
            is_caught_up=situation.caught_up,
            leads=situation.leads,
            is_relieved=situation.relieved,
        )
        expected = next(then for of, holds, then in RULES if of is state and holds(situation))
        assert following is expected, vars(situation)


def beat(
    controller: Controller,
    node_id: int,
    now_ms: int = 0,
    *,
    offline_dirs: Sequence[bytes] = (),
    **fields: object,
) -> BrokerHeartbeatReply:
    """Have a node say that it lives and has applied everything."""
    return controller.heartbeat(
        Heartbeat(
            node_id,
            controller.image.brokers[node_id].epoch,
            fields.pop("applied_offset", controller.image.offset),  # type: ignore[arg-type]
            **fields,  # type: ignore[arg-type]
        ),
        offline_dirs=offline_dirs,
        now_ms=now_ms,
    )


def register(controller: Controller, node_id: int, incarnation: str) -> int:
    was = broker(node_id)
    return controller.register_broker(
        BrokerRegistrationRequest(
            node_id=node_id,
            incarnation=incarnation.encode().ljust(16),
            endpoints=was.endpoints,
            directories=was.directories,
        )
    )


def cluster(*replicas: list[int]) -> Controller:
    """Return a controller of three nodes with topic `a`."""
    controller = running_controller(3)
    topic = NewTopic("a", assignments=list(enumerate(replicas)))
    controller.create_topics([topic], defaults=TopicDefaults())
    for node_id in (1, 2, 3):
        beat(controller, node_id)
    return controller


def leader_asks(controller: Controller, index: int, *, isr: list[int]) -> None:
    """Have the leader of a partition of `a` change its in-sync replicas."""
    topic = controller.image.topics["a"]
    partition = topic.partitions[index]
    data = PartitionData(
        partition_index=index,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        new_isr=isr,
    )
    request = AlterPartitionRequest(
        broker_id=partition.leader,
        broker_epoch=controller.image.brokers[partition.leader].epoch,
        topics=[TopicData(topic_id=topic.topic_id, partitions=[data])],
    )
    assert controller.alter_partition(request).topics[0].partitions[0].error_code == 0


def partitions(controller: Controller) -> list[tuple[int, tuple[int, ...]]]:
    """Return leader and in-sync replicas of each partition of `a`."""
    return [(each.leader, each.isr) for each in controller.image.topics["a"].partitions]


def test_a_broker_is_unfenced_when_it_has_applied_its_own_registration() -> None:
    controller = running_controller(0)
    epoch = register(controller, 1, "first")
    behind = beat(controller, 1, applied_offset=epoch - 1)
    assert behind == BrokerHeartbeatReply(is_caught_up=False, is_fenced=True)
    assert beat(controller, 1, applied_offset=epoch, want_fence=True).is_fenced
    assert beat(controller, 1, applied_offset=epoch) == BrokerHeartbeatReply(
        is_caught_up=True, is_fenced=False
    )
    assert controller.image.broker_is_active(1)


def test_a_heartbeat_that_changes_nothing_writes_nothing() -> None:
    controller = cluster([1, 2, 3])
    before = controller.image
    beat(controller, 1, now_ms=500)
    assert controller.image is before


@pytest.mark.parametrize(
    ("node_id", "epoch", "code"),
    [(4, 1, ErrorCode.BROKER_ID_NOT_REGISTERED), (1, 0, ErrorCode.STALE_BROKER_EPOCH)],
)
def test_a_broker_that_is_not_registered_like_this_has_to_register_again(
    node_id: int, epoch: int, code: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as caught:
        running_controller(1).heartbeat(Heartbeat(node_id, epoch, applied_offset=9), now_ms=0)
    assert caught.value.code is code


def test_nine_seconds_of_silence_fence_a_broker() -> None:
    controller = cluster([1, 2, 3], [2, 3, 1])
    for node_id in (2, 3):
        beat(controller, node_id, now_ms=5000)
    controller.tick(9000)
    assert controller.image.broker_is_active(1)
    controller.tick(9001)
    assert not controller.image.broker_is_active(1)
    assert partitions(controller) == [(2, (2, 3)), (2, (2, 3))]
    controller.tick(14_000)
    assert controller.image.broker_is_active(2)


def test_it_is_known_when_the_first_session_ends() -> None:
    controller = cluster([1, 2, 3])
    for node_id, now_ms in ((1, 300), (2, 100), (3, 200)):
        beat(controller, node_id, now_ms)
    assert controller.first_session_end_ms == 9_101
    controller.tick(9_100)
    assert not controller.image.brokers[2].fenced
    controller.tick(9_101)
    assert controller.image.brokers[2].fenced
    assert controller.first_session_end_ms == 9_201
    controller.tick(20_000)
    assert controller.first_session_end_ms is None


def test_brokers_that_are_silent_together_are_fenced_one_after_the_other() -> None:
    controller = cluster([1, 2, 3])
    seen: list[list[int]] = []
    controller.publisher.observe(
        lambda image, _: seen.append([each for each in (1, 2, 3) if image.broker_is_active(each)])
    )
    beat(controller, 2, now_ms=2)
    beat(controller, 3, now_ms=1)
    controller.tick(10_000)
    assert seen == [[2, 3], [2], []]
    assert partitions(controller) == [(-1, ())]
    assert controller.image.topics["a"].partitions[0].elr == (2,)


def test_a_broker_that_was_never_heard_of_is_fenced_a_session_after_the_epoch_begins() -> None:
    controller = running_controller(2)
    controller.begin_epoch()
    controller.tick(50_000)
    beat(controller, 2, now_ms=52_000)
    controller.tick(59_001)
    assert not controller.image.broker_is_active(1)
    assert controller.image.broker_is_active(2)


def test_a_broker_that_was_fenced_comes_back_with_its_next_heartbeat() -> None:
    controller = cluster([1, 2])
    controller.tick(20_000)
    assert partitions(controller) == [(-1, ())]
    assert beat(controller, 1, now_ms=20_001) == BrokerHeartbeatReply(is_caught_up=True, is_fenced=False)
    assert partitions(controller) == [(-1, ())]
    beat(controller, 2, now_ms=20_002)
    assert partitions(controller) == [(2, (2,))]


def test_a_controlled_shutdown_ends_when_all_others_know_the_new_leaders() -> None:
    controller = cluster([1, 2, 3], [2, 1, 3])
    leaving = BrokerHeartbeatReply(is_caught_up=True, is_fenced=False, in_controlled_shutdown=True)
    assert beat(controller, 1, want_shutdown=True) == leaving
    assert partitions(controller) == [(2, (2, 3)), (2, (2, 3))]
    assert not controller.image.brokers[1].is_active
    assert not controller.image.brokers[1].fenced
    beat(controller, 2)
    assert beat(controller, 1, want_shutdown=True) == leaving
    beat(controller, 3)
    gone = BrokerHeartbeatReply(is_caught_up=True, is_fenced=True, should_shut_down=True)
    assert beat(controller, 1, want_shutdown=True) == gone
    assert controller.image.brokers[1].fenced
    assert beat(controller, 1, want_shutdown=True) == gone


def test_a_broker_that_leads_nothing_may_stop_at_once() -> None:
    controller = cluster([2, 1])
    assert beat(controller, 1, want_shutdown=True).should_shut_down
    assert partitions(controller) == [(2, (2,))]


@pytest.mark.parametrize("keeps_eligible_leaders", [False, True])
def test_the_last_in_sync_replica_may_lead_again_and_stops_all_the_same(
    keeps_eligible_leaders: bool,
) -> None:
    controller = cluster([1])
    if not keeps_eligible_leaders:
        off = FeatureUpdate("eligible.leader.replicas.version", 0, UpgradeType.SAFE_DOWNGRADE)
        controller.update_features([off])
    assert beat(controller, 1, want_shutdown=True).in_controlled_shutdown
    assert partitions(controller) == [(-1, () if keeps_eligible_leaders else (1,))]
    for node_id in (2, 3):
        beat(controller, node_id)
    assert beat(controller, 1, want_shutdown=True).should_shut_down
    epoch = register(controller, 1, "again")
    assert not beat(controller, 1, applied_offset=epoch).is_fenced
    assert partitions(controller) == [(1, (1,))]


def test_a_fenced_broker_does_not_hold_up_a_controlled_shutdown() -> None:
    controller = cluster([1, 2, 3])
    for node_id in (1, 2):
        beat(controller, node_id, now_ms=10_000)
    controller.tick(10_000)
    beat(controller, 1, want_shutdown=True, now_ms=10_001)
    beat(controller, 2, now_ms=10_002)
    assert beat(controller, 1, want_shutdown=True, now_ms=10_003).should_shut_down


def test_a_broker_that_was_fenced_while_it_stopped_can_only_go() -> None:
    controller = cluster([1, 2, 3])
    assert beat(controller, 1, want_shutdown=True).in_controlled_shutdown
    controller.tick(20_000)
    assert controller.image.brokers[1].fenced
    assert beat(controller, 1, now_ms=20_001).should_shut_down
    epoch = register(controller, 1, "again")
    assert not beat(controller, 1, applied_offset=epoch, now_ms=20_003).is_fenced


def test_a_broker_without_any_directory_stays_fenced() -> None:
    controller = cluster([1, 2])
    lost = [directory_of(1)]
    assert beat(controller, 1, offline_dirs=lost).is_fenced
    before = controller.image
    assert beat(controller, 1, offline_dirs=lost).is_fenced
    assert controller.image is before


def test_directories_that_fail_lose_their_leaders_and_nothing_else() -> None:
    controller = running_controller(2)
    first, second = b"first directory.", b"second directory"
    epoch = controller.register_broker(
        BrokerRegistrationRequest(
            node_id=3, incarnation=b"with directories", endpoints=[], directories=[first, second]
        )
    )
    beat(controller, 3, applied_offset=epoch)
    topic = NewTopic("a", assignments=[(0, [3, 1]), (1, [3, 2]), (2, [3, 1])])
    controller.create_topics([topic], defaults=TopicDefaults())
    leader_asks(controller, 2, isr=[3])
    lies = [
        DirectoryAssignment(topic_id(1), index, each) for index, each in enumerate([first, second, first])
    ]
    assert controller.assign_directories(node_id=3, epoch=epoch, assignments=lies) == [None, None, None]
    beat(controller, 3, offline_dirs=[first, directory_of(9)])
    assert controller.image.brokers[3].directories == (second,)
    assert partitions(controller) == [(1, (1,)), (3, (3, 2)), (-1, ())]
    before = controller.image
    beat(controller, 3, offline_dirs=[first])
    assert controller.image is before
    beat(controller, 3, offline_dirs=[first, second])
    assert controller.image.brokers[3].fenced
    assert partitions(controller) == [(1, (1,)), (2, (2,)), (-1, ())]
