"""Eligible leader replicas (KIP-966): who may lead again although nobody is in sync."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.broker.config.config_entries import ConfigChange
from kcli.broker.controller.cluster_control import BrokerRegistrationRequest
from kcli.broker.controller.controller import Controller
from kcli.broker.controller.feature_control import FeatureUpdate, UpgradeType
from kcli.broker.controller.partition_change import Election, EligibleLeaders, PartitionChangeBuilder
from kcli.broker.controller.replication_control import NewTopic, TopicDefaults
from kcli.broker.metadata.metadata_image import LeaderRecoveryState, PartitionRegistration
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.internal.metadata_records import PartitionChangeRecord
from tests.support.metadata import broker, running_controller

TOPIC = b"the topic's id.."


def partition(isr: str, leader: int, elr: str = "", last: str = "") -> PartitionRegistration:
    return PartitionRegistration(
        replicas=(1, 2, 3),
        isr=tuple(map(int, isr)),
        leader=leader,
        elr=tuple(map(int, elr)),
        last_known_elr=tuple(map(int, last)),
    )


def change(
    before: PartitionRegistration,
    alive: str,
    isr: str | None = None,
    *,
    election: Election = Election.ONLINE,
    min_isr: int = 2,
    unclean: str = "",
) -> PartitionChangeRecord | None:
    return PartitionChangeBuilder(
        partition=before,
        topic_id=TOPIC,
        partition_id=0,
        is_acceptable=lambda replica: str(replica) in alive,
        election=election,
        isr=None if isr is None else tuple(map(int, isr)),
        eligible_leaders=EligibleLeaders(min_isr, frozenset(map(int, unclean))),
    ).build()


def record(**fields: object) -> PartitionChangeRecord:
    fields = {
        {
            "elr": "eligible_leader_replicas",
            "last": "last_known_elr",
            "recovery": "leader_recovery_state",
        }.get(name, name): value
        for name, value in fields.items()
    }
    return PartitionChangeRecord(topic_id=TOPIC, partition_id=0, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "alive", "isr", "expected"),
    [
        # Enough are in sync: nobody else is kept.
        (partition("123", 1), "123", "12", record(isr=[1, 2])),
        # Too few are: whoever falls out stays eligible.
        (partition("12", 1), "13", "1", record(isr=[1], elr=[2])),
        (partition("123", 1), "1", "1", record(isr=[1], elr=[2, 3])),
        (partition("1", 1, "2"), "3", "", record(isr=[], elr=[1, 2], leader=-1, last=[1])),
        # Who comes back may lead, and is in sync alone.
        (partition("", -1, "12", "1"), "2", None, record(isr=[2], elr=[1], leader=2, last=[])),
        (partition("", -1, "12", "1"), "123", None, record(isr=[1], elr=[2], leader=1, last=[])),
        (partition("", -1, "12", "1"), "3", None, None),
        # Enough are in sync again: nobody else is needed.
        (partition("1", 1, "23"), "123", "13", record(isr=[1, 3], elr=[])),
    ],
)
def test_the_next_state(
    before: PartitionRegistration, alive: str, isr: str | None, expected: PartitionChangeRecord | None
) -> None:
    assert change(before, alive, isr) == expected


def test_a_replica_that_may_have_lost_records_is_not_eligible() -> None:
    assert change(partition("1", 1, "2"), "3", "", unclean="1") == record(isr=[], leader=-1, last=[1])
    assert change(partition("1", 1, "23"), "3", "", unclean="1") == record(isr=[3], elr=[2], leader=3)


def test_who_led_last_is_elected_when_nobody_is_known_to_have_everything() -> None:
    before = partition("", -1, last="2")
    assert change(before, "13") is None
    assert change(before, "123") == record(isr=[2], leader=2, recovery=1, last=[])


def test_an_unclean_election_forgets_the_eligible() -> None:
    before = partition("", -1, "12", "1")
    assert change(before, "3", election=Election.UNCLEAN) == record(
        isr=[3], elr=[], leader=3, recovery=1, last=[]
    )


def test_without_the_feature_what_is_left_of_it_goes() -> None:
    before = partition("1", 1, "2")
    assert PartitionChangeBuilder(
        partition=before, topic_id=TOPIC, partition_id=0, is_acceptable=lambda _: True
    ).build() == record(elr=[])


REPLICAS = st.lists(st.sampled_from([1, 2, 3]), unique=True)


@given(isr=REPLICAS, alive=REPLICAS, steps=st.lists(REPLICAS, max_size=5), min_isr=st.integers(1, 3))
def test_nobody_is_in_sync_and_eligible_and_no_clean_leader_lacks_anything(
    isr: list[int], alive: list[int], steps: list[list[int]], min_isr: int
) -> None:
    state = partition("123", 1)
    for wished in [isr, *steps]:
        has_everything = {*state.isr, *state.elr}
        made = change(state, "".join(map(str, alive)), "".join(map(str, wished)), min_isr=min_isr)
        state = state if made is None else state.merge(made)
        assert not {*state.isr} & {*state.elr}
        assert state.leader in {-1, *state.isr}
        assert len(state.isr) < min_isr or not state.elr
        if state.leader != -1 and state.recovery_state is LeaderRecoveryState.RECOVERED:
            assert state.leader in has_everything | {*wished}


def minimum(controller: Controller, type: int, name: str, value: str | None) -> ErrorCode | None:
    """Change `min.insync.replicas` of a resource; return why not."""
    change = ConfigChange("min.insync.replicas", 1 if value is None else 0, value)
    (error,) = controller.incremental_alter_configs([((type, name), [change])], defaults=TopicDefaults())
    return None if error is None else error.code


def leaderless() -> Controller:
    """Return a controller whose topics `a` and `b` nobody leads, of two replicas that must be in sync."""
    controller = running_controller(2)
    for name in ("a", "b"):
        controller.create_topics([NewTopic(name, assignments=[(0, [1, 2])])], defaults=TopicDefaults())
    assert minimum(controller, 4, "", "2") is None
    for node_id in (2, 1):
        controller.fence_broker(node_id=node_id, epoch=controller.image.brokers[node_id].epoch)
    return controller


def eligible(controller: Controller) -> dict[str, tuple[int, ...]]:
    return {name: topic.partitions[0].elr for name, topic in controller.image.topics.items()}


def test_either_of_two_may_lead_when_both_went_one_after_the_other() -> None:
    controller = leaderless()
    assert eligible(controller) == {"a": (1, 2), "b": (1, 2)}
    controller.unfence_broker(node_id=2, epoch=controller.image.brokers[2].epoch)
    led = controller.image.topics["a"].partitions[0]
    assert (led.leader, led.isr, led.elr, led.recovery_state) == (2, (2,), (1,), 0)


def test_a_new_minimum_forgets_who_was_eligible_by_the_old_one() -> None:
    controller = leaderless()
    assert minimum(controller, 2, "a", "1") is None
    assert eligible(controller) == {"a": (), "b": (1, 2)}
    assert minimum(controller, 4, "", "1") is None
    assert eligible(controller) == {"a": (), "b": ()}


def test_brokers_have_no_minimum_of_their_own_and_the_cluster_always_has_one() -> None:
    controller = running_controller(1)
    assert minimum(controller, 4, "1", "2") is ErrorCode.INVALID_CONFIG
    assert minimum(controller, 4, "", None) is ErrorCode.INVALID_CONFIG
    assert minimum(controller, 4, "1", None) is None
    assert minimum(controller, 4, "", "2") is None
    controller.update_features(
        [FeatureUpdate("eligible.leader.replicas.version", 0, UpgradeType.SAFE_DOWNGRADE)]
    )
    assert minimum(controller, 4, "", None) is None


def test_who_was_eligible_may_lead_though_the_feature_is_switched_off() -> None:
    controller = leaderless()
    controller.update_features(
        [FeatureUpdate("eligible.leader.replicas.version", 0, UpgradeType.SAFE_DOWNGRADE)]
    )
    controller.unfence_broker(node_id=2, epoch=controller.image.brokers[2].epoch)
    led = controller.image.topics["a"].partitions[0]
    assert (led.leader, led.isr, led.elr) == (2, (2,), ())


def test_without_the_feature_the_last_in_sync_replica_stays() -> None:
    controller = running_controller(2)
    controller.update_features(
        [FeatureUpdate("eligible.leader.replicas.version", 0, UpgradeType.SAFE_DOWNGRADE)]
    )
    controller.create_topics([NewTopic("a", assignments=[(0, [1, 2])])], defaults=TopicDefaults())
    for node_id in (2, 1):
        controller.fence_broker(node_id=node_id, epoch=controller.image.brokers[node_id].epoch)
    alone = controller.image.topics["a"].partitions[0]
    assert (alone.isr, alone.elr, alone.leader) == ((1,), (), -1)


@pytest.mark.parametrize(
    ("had_clean_stop", "leader", "eligible_others"), [(True, 1, (2,)), (False, -1, (2,))]
)
def test_a_node_that_was_not_stopped_cleanly_may_have_lost_what_it_had_in_sync(
    had_clean_stop: bool, leader: int, eligible_others: tuple[int, ...]
) -> None:
    controller = leaderless()
    was = broker(1)
    epoch = controller.register_broker(
        BrokerRegistrationRequest(
            node_id=1,
            incarnation=b"the next one....",
            endpoints=was.endpoints,
            directories=was.directories,
            had_clean_stop=had_clean_stop,
        )
    )
    controller.unfence_broker(node_id=1, epoch=epoch)
    partition = controller.image.topics["a"].partitions[0]
    assert (partition.leader, partition.elr) == (leader, eligible_others)


def test_a_node_that_led_last_leads_again_though_it_may_have_lost_records() -> None:
    controller = running_controller(1)
    controller.create_topics([NewTopic("a")], defaults=TopicDefaults())
    was = broker(1)
    epoch = controller.register_broker(
        BrokerRegistrationRequest(
            node_id=1,
            incarnation=b"the next one....",
            endpoints=was.endpoints,
            directories=was.directories,
            had_clean_stop=False,
        )
    )
    waiting = controller.image.topics["a"].partitions[0]
    assert (waiting.leader, waiting.isr, waiting.elr, waiting.last_known_elr) == (-1, (), (), (1,))
    controller.unfence_broker(node_id=1, epoch=epoch)
    led = controller.image.topics["a"].partitions[0]
    assert (led.leader, led.isr, led.last_known_elr) == (1, (1,), ())
    assert led.recovery_state is LeaderRecoveryState.RECOVERING
