"""Nodes of a running cluster: killed, stopped, started, paused, added and removed while the others go on."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
import trio

from kcli.broker.controller.heartbeat_control import BrokerHeartbeatReply
from kcli.broker.node_context import NodeState
from kcli.broker.waiting.timer import monotonic_ms
from kcli.errors import KcliError
from kcli.protocol.error_codes import KafkaError
from tests.broker.process.operated_nodes import (
    QUICK,
    created,
    do,
    fenced,
    leaders,
    nodes_seen_from,
    states,
    until,
)
from tests.support import waiting
from tests.support.running_cluster import running_cluster

if TYPE_CHECKING:
    from pathlib import Path


# --- stop and start ------------------------------------------------------------------------------


async def test_a_node_that_stops_hands_over_first_and_leads_again_after_its_start(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3, **QUICK) as cluster:
        await created(cluster, "t", partitions=3, replicas=3)
        port = cluster.nodes[2].broker.endpoints[0].port
        await do(cluster, "stop", 2)
        assert await states(cluster) == {1: "running", 2: "dead", 3: "running"}
        image = cluster.publisher.latest
        assert fenced(image) == [2]
        assert 2 not in leaders(image)
        assert all(sorted(each.isr) == [1, 3] for each in image.topics["t"].partitions)
        assert await nodes_seen_from(cluster, 3) == [1, 3]
        assert (tmp_path / "node-2" / ".kafka_cleanshutdown").exists()
        await do(cluster, "start", 2)
        assert cluster.nodes[2].broker.endpoints[0].port == port
        assert await nodes_seen_from(cluster, 2) == [1, 2, 3]
        await until(cluster, lambda image: all(len(each.isr) == 3 for each in image.topics["t"].partitions))


async def test_a_node_that_was_let_go_is_not_brought_back_by_its_last_beats(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=2, **QUICK) as cluster:
        broker = cluster.nodes[2].broker
        broker.state = NodeState.STOPPING
        assert await broker.lifecycle.until_relieved()
        assert fenced(cluster.publisher.latest) == [2]
        answer = broker.lifecycle.beat()  # as its own task does until it ends
        assert answer is not None
        assert answer.should_shut_down
        assert fenced(cluster.publisher.latest) == [2]
        broker.state = NodeState.RUNNING


async def test_another_node_is_the_controller_before_its_node_stops(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3, **QUICK) as cluster:
        assert cluster.election.controller_id == 1
        await do(cluster, "stop", 1)
        assert (cluster.election.controller_id, cluster.election.epoch) == (2, 2)
        await created(cluster, "t", partitions=2)
        await do(cluster, "start", 1)
        assert cluster.election.controller_id == 2
        assert cluster.nodes[1].broker.image is cluster.publisher.latest
        assert cluster.election.copies.version(1) == cluster.election.copies.version(2)


async def test_a_killed_node_is_missed_when_its_session_ends(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3, **QUICK) as cluster:
        await created(cluster, "t", partitions=3, replicas=3)
        fenced_ms: list[int] = []
        cluster.publisher.observe(lambda image, _: fenced_ms.extend([monotonic_ms()] * len(fenced(image))))
        last_beat_ms = monotonic_ms()
        cluster.nodes[3].broker.lifecycle.beat()
        await do(cluster, "kill", 3)
        assert (await states(cluster))[3] == "dead"
        await until(cluster, lambda image: fenced(image) == [3])
        assert fenced_ms[0] - last_beat_ms > 500
        assert 3 not in leaders(cluster.publisher.latest)
        assert not (tmp_path / "node-3" / ".kafka_cleanshutdown").exists()
        await do(cluster, "start", 3)
        await until(cluster, lambda image: all(len(each.isr) == 3 for each in image.topics["t"].partitions))


@pytest.mark.parametrize(("operation", "leader"), [("stop", 2), ("kill", -1)])
async def test_who_was_killed_may_have_lost_what_made_it_eligible(
    tmp_path: Path, operation: str, leader: int
) -> None:
    settings = {**QUICK, "min_insync_replicas": "2"}
    async with running_cluster(tmp_path, nodes=3, **settings) as cluster:
        await created(cluster, "t", on=(1, 2))
        await do(cluster, operation, 2)
        await until(cluster, lambda image: image.topics["t"].partitions[0].elr == (2,))
        await do(cluster, "kill", 1)
        await until(cluster, lambda image: leaders(image) == [-1])
        await do(cluster, "start", 2)
        assert leaders(cluster.publisher.latest) == [leader]
        await do(cluster, "start", 1)
        await until(cluster, lambda image: sorted(image.topics["t"].partitions[0].isr) == [1, 2])


async def test_the_only_node_can_be_killed_and_started(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, **QUICK) as cluster:
        await created(cluster, "t")
        await do(cluster, "kill", 1)
        assert cluster.election.controller_id is None
        with pytest.raises(KcliError, match="no node is the controller"):
            _ = cluster.controller
        await do(cluster, "start", 1)
        assert cluster.controller.node_id == 1
        assert cluster.election.epoch == 2
        assert leaders(cluster.publisher.latest) == [1]


async def test_what_was_decided_without_a_node_it_knows_although_it_starts_alone(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=2, **QUICK) as cluster:
        await do(cluster, "stop", 2)
        await created(cluster, "t")
        await do(cluster, "kill", 1)
        await do(cluster, "start", 2)
        assert cluster.election.controller_id == 2
        assert "t" in cluster.nodes[2].broker.image.topics
        await do(cluster, "start", 1)
    async with running_cluster(tmp_path, nodes=2) as cluster:
        assert "t" in cluster.publisher.latest.topics


async def test_what_a_node_decided_alone_is_known_although_it_stays_down(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=2, **QUICK) as cluster:
        await do(cluster, "stop", 1)
        await created(cluster, "t")
    async with running_cluster(tmp_path, nodes=1, **QUICK) as cluster:
        assert cluster.election.controller_id == 1
        assert "t" in cluster.publisher.latest.topics
        await do(cluster, "start", 2)
        assert leaders(cluster.publisher.latest) == [2]


async def test_the_only_node_can_be_stopped_and_started(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, **QUICK) as cluster:
        await created(cluster, "t")
        await do(cluster, "stop", 1)
        assert (tmp_path / "node-1" / ".kafka_cleanshutdown").exists()
        assert leaders(cluster.publisher.latest) == [-1]
        await do(cluster, "start", 1)
        assert leaders(cluster.publisher.latest) == [1]
        assert await nodes_seen_from(cluster, 1) == [1]


async def test_a_node_that_is_killed_while_it_stops_was_killed(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=2, **QUICK) as cluster:
        cluster.nodes[2].broker.lifecycle.beat = lambda **_: BrokerHeartbeatReply(True, False)  # type: ignore[method-assign]
        refusals = []

        async def stop() -> None:
            try:
                await do(cluster, "stop", 2)
            except KcliError as error:
                refusals.append(error.message)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop)
            await waiting.until(lambda: cluster.nodes[2].state is NodeState.STOPPING)
            await do(cluster, "kill", 2)
        assert refusals == ["node 2 was killed while it stopped"]
        assert not (tmp_path / "node-2" / ".kafka_cleanshutdown").exists()


async def test_the_process_stops_in_order_although_a_node_is_paused(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=2, **QUICK) as cluster:
        await do(cluster, "pause", 2)
    assert (tmp_path / "node-2" / ".kafka_cleanshutdown").exists()


async def test_a_node_whose_port_was_taken_can_be_started_when_it_is_free(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=2, **QUICK) as cluster:
        await do(cluster, "stop", 2)
        port = cluster.nodes[2].broker.endpoints[0].port
        with socket.create_server(("127.0.0.1", port)):
            with pytest.raises(KcliError, match="Address already in use"):
                await do(cluster, "start", 2)
            assert (await states(cluster))[2] == "dead"
        await do(cluster, "start", 2)
        assert await nodes_seen_from(cluster, 2) == [1, 2]


async def test_the_port_of_a_dead_node_is_kept_for_it_until_it_is_removed(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=2, **QUICK) as cluster:
        address = ("127.0.0.1", cluster.nodes[2].broker.endpoints[0].port)
        await do(cluster, "kill", 2)
        with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
            other.bind(address)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        await do(cluster, "remove", 2)
        with socket.socket() as other:
            other.bind(address)


async def test_a_node_that_cannot_reach_the_controller_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kcli.broker.process.cluster.CONTROLLER_SECONDS", 0.2)
    async with running_cluster(tmp_path, nodes=3, **QUICK) as cluster:
        await do(cluster, "stop", 3)
        for other in (1, 2):
            cluster.peers.between(3, other).is_cut = True
        with pytest.raises(KcliError, match="node 3 cannot register: node 3 cannot reach node 1"):
            await do(cluster, "start", 3)
        assert (await states(cluster))[3] == "dead"
        for other in (1, 2):
            cluster.peers.between(3, other).is_cut = False
        await do(cluster, "start", 3)


# --- pause and resume ----------------------------------------------------------------------------


async def test_a_paused_node_hangs_is_fenced_and_catches_up_when_it_goes_on(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3, **QUICK) as cluster:
        await created(cluster, "t", partitions=3, replicas=3)
        await do(cluster, "pause", 3)
        broker = cluster.nodes[3].broker
        before = broker.image
        with trio.move_on_after(0.3) as scope:
            await nodes_seen_from(cluster, 3)
        assert scope.cancelled_caught
        await until(cluster, lambda image: fenced(image) == [3])
        await created(cluster, "meanwhile")
        assert broker.image is before
        await do(cluster, "resume", 3)
        assert broker.image is cluster.publisher.latest
        assert "meanwhile" in broker.image.topics
        assert await nodes_seen_from(cluster, 3) == [1, 2, 3]
        await until(cluster, lambda image: all(len(each.isr) == 3 for each in image.topics["t"].partitions))


async def test_another_node_becomes_the_controller_when_its_node_is_paused_for_too_long(
    tmp_path: Path,
) -> None:
    quick = {**QUICK, "controller_quorum_fetch_timeout_ms": "300"}
    async with running_cluster(tmp_path, nodes=3, **quick) as cluster:
        await do(cluster, "pause", 1)
        with pytest.raises(KafkaError):
            _ = cluster.nodes[2].broker.controller
        await until(cluster, lambda image: image.epoch == 2)
        assert cluster.election.controller_id == 2
        await until(cluster, lambda image: fenced(image) == [1])
        await do(cluster, "resume", 1)
        assert cluster.election.controller_id == 2
        await until(cluster, lambda image: fenced(image) == [])


async def test_a_node_that_is_cut_off_is_fenced_and_comes_back(tmp_path: Path) -> None:
    quick = {**QUICK, "controller_quorum_fetch_timeout_ms": "300"}
    async with running_cluster(tmp_path, nodes=3, **quick) as cluster:
        links = [cluster.peers.between(a, b) for a, b in ((1, 2), (2, 1), (1, 3), (3, 1))]
        for link in links:
            link.is_cut = True
        await until(cluster, lambda image: image.epoch == 2)
        assert cluster.election.controller_id == 2
        await until(cluster, lambda image: fenced(image) == [1])
        assert fenced(cluster.nodes[1].broker.image) == []  # it has not heard of it
        with pytest.raises(KafkaError, match="cannot reach node 2, the controller"):
            _ = cluster.nodes[1].broker.controller
        for link in links:
            link.is_cut = False
        await until(cluster, lambda image: fenced(image) == [])
        assert cluster.election.controller_id == 2


# --- add and remove ------------------------------------------------------------------------------


async def test_a_node_is_added_and_the_next_start_has_it(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=None, **QUICK) as cluster:
        assert await do(cluster, "add") == {"node": 2}
        assert await nodes_seen_from(cluster, 1) == [1, 2]
        await created(cluster, "t", partitions=1, replicas=2)
    async with running_cluster(tmp_path, nodes=None, **QUICK) as cluster:
        assert await nodes_seen_from(cluster, 2) == [1, 2]


async def test_with_a_number_of_nodes_the_others_stay_down_and_can_be_started(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3, **QUICK):
        pass
    async with running_cluster(tmp_path, nodes=2, **QUICK) as cluster:
        assert await states(cluster) == {1: "running", 2: "running", 3: "dead"}
        assert fenced(cluster.publisher.latest) == [3]
        await do(cluster, "start", 3)
        assert fenced(cluster.publisher.latest) == []


async def test_a_removed_node_is_forgotten_and_its_directory_set_aside(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3, **QUICK) as cluster:
        removed = await do(cluster, "remove", 3)
        assert removed == {"node": 3, "kept": str(tmp_path / "node-3-removed"), "replicas": 0}
        assert list(cluster.publisher.latest.brokers) == [1, 2]
        assert list(await states(cluster)) == [1, 2]
    async with running_cluster(tmp_path, nodes=None) as cluster:
        assert list(cluster.nodes) == [1, 2]


async def test_a_node_with_replicas_is_removed_only_by_force(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=2, **QUICK) as cluster:
        await created(cluster, "t", partitions=2, replicas=2)
        with pytest.raises(KcliError, match="node 2 has 2 replicas") as caught:
            await do(cluster, "remove", 2)
        assert "--drain 2" in str(caught.value.hint)
        assert (await states(cluster))[2] == "running"
        await do(cluster, "remove", 2, force=True)
        assert leaders(cluster.publisher.latest) == [1, 1]


# --- the controller ------------------------------------------------------------------------------


async def test_the_controller_moves_on_command_with_a_growing_epoch(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3, **QUICK) as cluster:
        former = cluster.controller
        assert await do(cluster, "move-controller", 3) == {"node": 3, "term": 2}
        assert await do(cluster, "move-controller", 2) == {"node": 2, "term": 3}
        with pytest.raises(KafkaError, match="is not the controller any more"):
            former.unregister_broker(node_id=3)
        await created(cluster, "t", partitions=2)
        assert len({cluster.election.copies.version(node) for node in (1, 2, 3)}) == 1
