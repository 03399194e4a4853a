"""Who looks after the nodes may come late: a process that was held up takes none of its nodes for silent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kcli.broker.process.cluster import NodeWatch
from kcli.broker.waiting.timer import monotonic_ms
from tests.broker.process.operated_nodes import do
from tests.support.running_cluster import running_cluster

if TYPE_CHECKING:
    from pathlib import Path


class Clock:
    """The time that heartbeats are sent at, ahead of the real one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ms = monotonic_ms() + 1_000_000
        monkeypatch.setattr("kcli.broker.node.broker_lifecycle.monotonic_ms", lambda: self.now_ms)


async def test_nobody_is_fenced_for_what_held_up_the_whole_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_cluster(tmp_path, nodes=2, broker_heartbeat_interval_ms="60000") as cluster:
        clock, watch = Clock(monkeypatch), NodeWatch(cluster.election, cluster.beat_all)
        watch.look(clock.now_ms)
        clock.now_ms += 10_000  # nobody was heard meanwhile: there was nobody to hear
        watch.look(clock.now_ms)
        assert [broker.fenced for broker in cluster.publisher.latest.brokers.values()] == [False, False]


async def test_nobody_is_fenced_for_what_held_up_the_process_when_a_node_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_cluster(tmp_path, nodes=2, broker_heartbeat_interval_ms="60000") as cluster:
        await do(cluster, "kill", 2)
        clock = Clock(monkeypatch)
        monkeypatch.setattr("kcli.broker.process.cluster.monotonic_ms", lambda: clock.now_ms)
        fenced: list[int] = []
        cluster.publisher.observe(lambda image, _: fenced.append(1) if image.brokers[1].fenced else None)
        await do(cluster, "start", 2)
        assert fenced == []


async def test_a_node_that_is_silent_while_the_others_work_is_fenced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_cluster(tmp_path, nodes=2, broker_heartbeat_interval_ms="60000") as cluster:
        clock, watch = Clock(monkeypatch), NodeWatch(cluster.election, cluster.beat_all)
        watch.look(clock.now_ms)
        for _ in range(40):
            clock.now_ms += 250
            cluster.nodes[1].broker.lifecycle.beat()
            watch.look(clock.now_ms)
        assert [broker.fenced for broker in cluster.publisher.latest.brokers.values()] == [False, True]
