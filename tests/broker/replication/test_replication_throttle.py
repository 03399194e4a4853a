"""ReplicationThrottle: which replicas it is for, and how fast it lets them copy."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.broker.config.config_entries import ConfigChange
from kcli.broker.controller.replication_control import TopicDefaults
from kcli.broker.replication.replication_throttle import (
    EVERY_PARTITION,
    ReplicationThrottle,
    throttled_partitions,
)
from kcli.broker.waiting.timer import monotonic_ms
from kcli.protocol.configs import ConfigOperation
from tests.broker.replication.clusters import append, create, cut, fence, leader_of, node, replicas_of
from tests.support.running_cluster import running_cluster
from tests.support.waiting import until

NAME = "leader.replication.throttled.replicas"
RATE = "leader.replication.throttled.rate"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", frozenset()),
        ("*", EVERY_PARTITION),
        ("0:1,1:2,2:1", {0, 2}),
        ("0:2", frozenset()),
        (" 5:1 , 6:1", {5, 6}),
    ],
)
def test_a_topic_names_the_replicas_that_are_throttled(value: str, expected: frozenset[int]) -> None:
    assert throttled_partitions(value, 1) == expected


def test_only_the_named_replicas_are_throttled() -> None:
    throttle = ReplicationThrottle(NAME, 1, rate=lambda: 1000)
    assert not throttle.is_throttled("t", 0)
    throttle.configure("t", {NAME: "0:1"})
    throttle.configure("u", {NAME: "*"})
    asked = [throttle.is_throttled(*each) for each in [("t", 0), ("t", 1), ("u", 7), ("v", 0)]]
    assert asked == [True, False, True, False]
    throttle.configure("t", {})
    assert not throttle.is_throttled("t", 0)


def test_what_is_above_the_rate_waits_until_it_is_not() -> None:
    throttle = ReplicationThrottle(NAME, 1, rate=lambda: 1000)
    assert throttle.wait_ms(0) == 0
    throttle.record(3000, 0)
    assert throttle.wait_ms(0) == 1000
    assert throttle.wait_ms(2500) == 500
    assert throttle.wait_ms(3000) == 0


def test_a_rate_of_nothing_lets_the_first_through_and_then_nothing() -> None:
    throttle = ReplicationThrottle(NAME, 1, rate=lambda: 0)
    throttle.record(1, 0)
    assert throttle.wait_ms(5000) > 0


@given(st.lists(st.integers(1, 5000), min_size=30, max_size=60))
def test_over_time_the_rate_is_kept(sizes: list[int]) -> None:
    throttle = ReplicationThrottle(NAME, 1, rate=lambda: 1000)
    now_ms = copied = 0
    for size in sizes:
        while wait_ms := throttle.wait_ms(now_ms):
            now_ms += wait_ms
        throttle.record(size, now_ms)
        copied += size
        # Never more than the rate allows, but for the last piece and what one second may hold at once.
        assert copied - size <= 1000 * (now_ms / 1000 + 2)


async def test_a_throttled_follower_copies_slowly_and_one_in_sync_is_not_held_up(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3, replica_fetch_max_bytes="2000") as cluster:
        create(cluster, "t", on=(1, 2, 3))
        leader = leader_of(cluster)
        await until(lambda: leader.isr == {1, 2, 3})
        slow, broker = 3, node(cluster, 1)
        cut(cluster, slow)
        fence(cluster, slow)
        for _ in range(10):
            append(leader, b"x" * 1000)
        await until(lambda: leader.log.high_watermark == 10)

        def change(of: tuple[int, str], name: str, value: str) -> None:
            defaults = TopicDefaults(1, 1, broker.config.topic_defaults)
            changes = [(of, [ConfigChange(name, ConfigOperation.SET, value)])]
            assert broker.controller.incremental_alter_configs(changes, defaults=defaults) == [None]

        change((2, "t"), NAME, "*")
        change((4, ""), RATE, "1")
        throttle = node(cluster, leader.node_id).replica_manager.leader_throttle
        throttle.record(40_000, monotonic_ms())
        throttle.record(100_000, monotonic_ms())
        began_ms = monotonic_ms()
        cut(cluster, slow, is_cut=False)
        append(leader, b"for those in sync")
        others = {1, 2, 3} - {slow, leader.node_id}
        await until(lambda: all(replicas_of(cluster)[each].log.log_end_offset == 11 for each in others))
        assert replicas_of(cluster)[slow].log.log_end_offset == 0
        change((4, ""), RATE, "100000")
        await until(lambda: leader.isr == {1, 2, 3})
        assert monotonic_ms() - began_ms >= 300
