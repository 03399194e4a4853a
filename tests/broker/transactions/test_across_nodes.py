"""Transactions of three nodes in virtual time: markers arrive whatever happens to nodes and links."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from kcli.broker.process.fault_operations import move_leader, perform
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from kcli.protocol.topics import TRANSACTION_STATE_TOPIC
from kcli.storage.log.log_read import Isolation
from tests.broker.replication.clusters import create, leader_of, replicas_of
from tests.broker.schedules.simulated_cluster import simulated_cluster
from tests.broker.schedules.transactional_producer import TransactionalProducer
from tests.broker.transactions.markers import errors, writable_marker, written_markers
from tests.broker.transactions.three_nodes import (
    COORDINATOR,
    TRANSACTIONS,
    described_as,
    introduced,
    running,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.broker.schedules.simulated_cluster import SimulatedCluster

Clock = trio.testing.MockClock


def open_records(cluster: SimulatedCluster, topic: str) -> int:
    """Return how many committed offsets no reader of committed records may see yet."""
    log = leader_of(cluster.cluster, topic).log
    return log.high_watermark - log.last_stable_offset


@pytest.mark.parametrize("is_tv2", [True, False], ids=["TV2", "TV1"])
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
async def test_a_transaction_ends_on_every_node(
    commit: bool, is_tv2: bool, tmp_path: Path, autojump_clock: Clock
) -> None:
    async with running(tmp_path) as cluster:
        for leader in (1, 2, 3):
            others = tuple(node_id for node_id in (1, 2, 3) if node_id != leader)
            create(cluster.cluster, f"t{leader}", on=(leader, *others), min_insync_replicas="2")
        producer = await introduced(cluster, is_tv2=is_tv2)
        for number in range(3):
            epoch = producer.producer_epoch
            for leader in (1, 2, 3):
                await producer.send(f"t{leader}", 0, b"a", b"b")
                assert open_records(cluster, f"t{leader}") == 2
            await producer.end(commit=commit)
            await described_as(producer, "CompleteCommit" if commit else "CompleteAbort")
            for leader in (1, 2, 3):
                await until(lambda topic=f"t{leader}": open_records(cluster, topic) == 0)
                replicas = replicas_of(cluster.cluster, f"t{leader}").values()
                await until(
                    lambda replicas=replicas: all(
                        each.log.last_stable_offset == each.log.log_end_offset for each in replicas
                    )
                )
                for replica in replicas:
                    assert written_markers(replica)[-1][:3] == (
                        producer.producer_id,
                        epoch + is_tv2,
                        commit,
                    )
                    found = replica.log.read(0, 1 << 20, isolation=Isolation.TXN_COMMITTED)
                    assert len(found.aborted or ()) == (0 if commit else number + 1)


@pytest.mark.parametrize("is_tv2", [True, False], ids=["TV2", "TV1"])
async def test_on_one_node_no_request_meets_the_end_of_the_last_transaction(
    is_tv2: bool, tmp_path: Path, autojump_clock: Clock
) -> None:
    async with simulated_cluster(tmp_path, nodes=1, properties=TRANSACTIONS, kill=lambda: False) as cluster:
        create(cluster.cluster, "t", partitions=3, replicas=1)
        producer = TransactionalProducer(cluster, "x", is_tv2=is_tv2)
        await producer.init()
        producer.codes.clear()
        for number in range(30):
            for index in range(3):
                await producer.send("t", index, b"v")
            await producer.end(commit=number % 3 > 0)
        assert producer.codes == [], "a client would wait 20 ms for each CONCURRENT_TRANSACTIONS"
        for index in range(3):
            log = leader_of(cluster.cluster, "t", index).log
            assert (log.last_stable_offset, log.log_end_offset) == (60, 60)


async def test_held_markers_keep_a_transaction_prepared(tmp_path: Path, autojump_clock: Clock) -> None:
    async with running(tmp_path) as cluster:
        create(cluster.cluster, "t", on=(2, 3))
        create(cluster.cluster, "u", on=(3, 1))
        producer = await introduced(cluster)
        hold = cluster.cluster.faults.add("hold-markers", topic="t")
        for topic in ("t", "u"):
            await producer.send(topic, 0, b"v")
        await producer.end(commit=True)
        await until(lambda: open_records(cluster, "u") == 0)
        await trio.sleep(30)
        assert await producer.described() == ("PrepareCommit", 1)
        assert open_records(cluster, "t") == 1
        cluster.cluster.faults.clear(hold.number)
        await described_as(producer, "CompleteCommit")
        assert open_records(cluster, "t") == 0


async def test_a_transaction_that_hangs_is_ended_by_a_tool(tmp_path: Path, autojump_clock: Clock) -> None:
    async with running(tmp_path) as cluster:
        create(cluster.cluster, "t", on=(2, 3))
        producer = await introduced(cluster)
        epoch = producer.producer_epoch
        cluster.cluster.faults.add("hang-transactions", topic="t", next=1)
        await producer.send("t", 0, b"v")
        await producer.end(commit=True)
        await described_as(producer, "CompleteCommit")
        await trio.sleep(30)
        assert open_records(cluster, "t") == 1
        assert cluster.cluster.faults.active == []
        marker = writable_marker(
            ("t", 0), producer_id=producer.producer_id, producer_epoch=epoch, is_commit=False
        )
        response = await cluster.ask(2, WriteTxnMarkersRequest(markers=[marker]), 1, seconds=5)
        assert errors(response) == [0]
        assert open_records(cluster, "t") == 0


async def test_the_marker_comes_when_the_only_replica_does(tmp_path: Path, autojump_clock: Clock) -> None:
    async with running(tmp_path) as cluster:
        create(cluster.cluster, "t", on=(2,), replicas=1)
        producer = await introduced(cluster)
        await producer.send("t", 0, b"v")
        await perform(cluster.cluster, "kill", {"node": 2})
        await producer.end(commit=True)
        await trio.sleep(30)
        assert await producer.described() == ("PrepareCommit", 1)
        await perform(cluster.cluster, "start", {"node": 2})
        await described_as(producer, "CompleteCommit")
        assert open_records(cluster, "t") == 0


@pytest.mark.parametrize("how", ["kill", "freeze"])
async def test_a_decision_without_enough_replicas_writes_no_marker(
    how: str, tmp_path: Path, autojump_clock: Clock
) -> None:
    """The coordinator is there, but the record has too few replicas, or none that acknowledges it."""
    async with running(tmp_path) as cluster:
        create(cluster.cluster, "t", on=(COORDINATOR,), replicas=1)
        producer = await introduced(cluster)
        await producer.send("t", 0, b"v")
        state = leader_of(cluster.cluster, TRANSACTION_STATE_TOPIC)
        await until(lambda: state.log.high_watermark == state.log.log_end_offset)
        if how == "kill":
            for node_id in (2, 3):
                await perform(cluster.cluster, "kill", {"node": node_id})
            await until(lambda: len(state.isr) == 1)
        else:
            for node_id in (2, 3):
                cluster.cluster.faults.add("freeze", node=node_id)
        before = state.log.log_end_offset
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(producer.end, commit=True))
            await trio.sleep(30)
            assert state.log.log_end_offset == before + (how == "freeze")
            assert state.log.high_watermark == before
            assert written_markers(leader_of(cluster.cluster, "t")) == []
            assert open_records(cluster, "t") == 1
            if how == "kill":
                for node_id in (2, 3):
                    await perform(cluster.cluster, "start", {"node": node_id})
            else:
                cluster.cluster.faults.clear_all()
        await described_as(producer, "CompleteCommit")
        assert open_records(cluster, "t") == 0
        assert [each[2] for each in written_markers(leader_of(cluster.cluster, "t"))] == [True]


async def test_the_next_coordinator_completes_what_the_former_prepared(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with running(tmp_path) as cluster:
        create(cluster.cluster, "t", on=(2, 3))
        create(cluster.cluster, "u", on=(3, 2))
        producer = await introduced(cluster)
        hold = cluster.cluster.faults.add("hold-markers", topic="t")
        for topic in ("t", "u"):
            await producer.send(topic, 0, b"v")
        await producer.end(commit=True)
        assert (await producer.described())[0] == "PrepareCommit"
        await perform(cluster.cluster, "kill", {"node": COORDINATOR})
        cluster.cluster.faults.clear(hold.number)
        await described_as(producer, "CompleteCommit")
        assert await producer.coordinator() != COORDINATOR
        assert open_records(cluster, "t") == open_records(cluster, "u") == 0
        # The new epoch of the coordinator fences markers of the former.
        (marker,) = written_markers(leader_of(cluster.cluster, "t"))
        stale = writable_marker(
            ("t", 0),
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            coordinator_epoch=marker[3] - 1,
        )
        response = await cluster.ask(2, WriteTxnMarkersRequest(markers=[stale]), 2, seconds=5)
        assert errors(response) == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
        await producer.send("t", 0, b"w")
        await producer.end(commit=False)
        await described_as(producer, "CompleteAbort")


async def test_a_deleted_topic_needs_no_marker(tmp_path: Path, autojump_clock: Clock) -> None:
    async with running(tmp_path) as cluster:
        create(cluster.cluster, "t", on=(2,), replicas=1)
        create(cluster.cluster, "u", on=(3, 1))
        producer = await introduced(cluster)
        for topic in ("t", "u"):
            await producer.send(topic, 0, b"v")
        await perform(cluster.cluster, "kill", {"node": 2})
        await producer.end(commit=True)
        await until(lambda: open_records(cluster, "u") == 0)
        assert await producer.described() == ("PrepareCommit", 1)
        cluster.controller.delete_topics([cluster.controller.image.topics["t"].topic_id])
        await described_as(producer, "CompleteCommit")


async def cut(cluster: SimulatedCluster) -> None:
    """Cut the coordinator and the leader off from each other, for a while."""
    active = cluster.cluster.faults.add("cut", **{"from": COORDINATOR, "to": 2})
    await trio.sleep(20)
    cluster.cluster.faults.clear(active.number)


async def slow(cluster: SimulatedCluster) -> None:
    cluster.cluster.faults.add("slow", **{"from": COORDINATOR, "to": 2, "delay_ms": 700})


async def lose(cluster: SimulatedCluster) -> None:
    cluster.cluster.faults.add("lose", **{"from": COORDINATOR, "to": 2, "next": 5})


async def pause_the_leader(cluster: SimulatedCluster) -> None:
    await perform(cluster.cluster, "pause", {"node": 2})


async def kill_the_leader(cluster: SimulatedCluster) -> None:
    await perform(cluster.cluster, "kill", {"node": 2})


async def stop_the_leader(cluster: SimulatedCluster) -> None:
    await perform(cluster.cluster, "stop", {"node": 2})


async def isolate_the_leader(cluster: SimulatedCluster) -> None:
    cluster.cluster.faults.add("isolate", node=2)


async def pause_the_coordinator(cluster: SimulatedCluster) -> None:
    await perform(cluster.cluster, "pause", {"node": COORDINATOR})


async def isolate_the_coordinator(cluster: SimulatedCluster) -> None:
    cluster.cluster.faults.add("isolate", node=COORDINATOR)


async def stop_the_coordinator(cluster: SimulatedCluster) -> None:
    await perform(cluster.cluster, "stop", {"node": COORDINATOR})


async def move_the_coordinator(cluster: SimulatedCluster) -> None:
    move_leader(cluster.controller, TRANSACTION_STATE_TOPIC, partition=0, node=3)


async def move_the_leader(cluster: SimulatedCluster) -> None:
    move_leader(cluster.controller, "t", partition=0, node=3)


async def move_the_leader_to_the_coordinator(cluster: SimulatedCluster) -> None:
    move_leader(cluster.controller, "t", partition=0, node=COORDINATOR)


MISHAPS = (
    cut,
    slow,
    lose,
    pause_the_leader,
    kill_the_leader,
    stop_the_leader,
    isolate_the_leader,
    pause_the_coordinator,
    isolate_the_coordinator,
    stop_the_coordinator,
    move_the_coordinator,
    move_the_leader,
    move_the_leader_to_the_coordinator,
)


@pytest.mark.parametrize("mishap", MISHAPS, ids=lambda mishap: mishap.__name__)
@pytest.mark.parametrize("when", ["before the end", "after the end"])
async def test_markers_arrive_whatever_happens(
    mishap: Callable[[SimulatedCluster], object], when: str, tmp_path: Path, autojump_clock: Clock
) -> None:
    """The topic and the state have three replicas, and node 2 leads the topic when it begins."""
    async with running(tmp_path) as cluster:
        create(cluster.cluster, "t", on=(2, 3, 1), min_insync_replicas="1")
        producer = await introduced(cluster)
        await producer.send("t", 0, b"v")
        hold = None
        if when == "after the end":
            hold = cluster.cluster.faults.add("hold-markers")
            await producer.end(commit=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(mishap, cluster)
            if hold is None:
                await producer.end(commit=True)
            else:
                await trio.sleep(0.5)
                cluster.cluster.faults.clear(hold.number)
            await described_as(producer, "CompleteCommit")
        await until(lambda: open_records(cluster, "t") == 0)
        assert {each[:3] for each in written_markers(leader_of(cluster.cluster, "t"))} == {
            (producer.producer_id, producer.producer_epoch, True)
        }
        await producer.send("t", 0, b"w")
        await producer.end(commit=True)
        await described_as(producer, "CompleteCommit")
