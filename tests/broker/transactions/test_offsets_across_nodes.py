"""Offsets in transactions of three nodes in virtual time: both coordinators move, die and come back."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from kcli.broker.process.fault_operations import move_coordinator, perform
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kcli.protocol.topics import GROUP_METADATA_TOPIC
from tests.broker.handlers import group_requests as ask
from tests.broker.handlers.group_requests import GROUP
from tests.broker.replication.clusters import create
from tests.broker.schedules.clients import REQUEST_SECONDS
from tests.broker.schedules.transactional_producer import Refused, TransactionalProducer
from tests.broker.transactions.three_nodes import COORDINATOR, described_as, introduced, running, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.broker.schedules.simulated_cluster import SimulatedCluster

Clock = trio.testing.MockClock

TOPIC = "t"
UNSTABLE = -88
"""In place of an offset that is not stable."""


class Offsets:
    """The offset of one group in one partition, which a producer commits."""

    def __init__(self, cluster: SimulatedCluster, producer: TransactionalProducer) -> None:
        self._cluster = cluster
        self._producer = producer

    async def coordinator(self) -> int:
        """Return the node of the group's coordinator."""

        async def attempt() -> Any:
            node_id = next(self._producer._nodes)
            response = await self._cluster.ask(node_id, ask.find(GROUP), 4, seconds=REQUEST_SECONDS)
            return response.coordinators[0]

        return int((await self._producer._repeat(attempt)).node_id)

    async def send(self, offset: int) -> None:
        """Commit an offset in the producer's transaction."""
        if not self._producer.is_tv2:
            request = AddOffsetsToTxnRequest(group_id=GROUP, **self._identity())
            await self._producer._ask_coordinator(request, 3)
        await self.commit(offset, 5 if self._producer.is_tv2 else 3)

    async def commit(self, offset: int, version: int) -> None:
        """Send TxnOffsetCommit alone."""
        request = ask.txn_commit({(TOPIC, 0): offset}, **self._identity())

        async def attempt() -> Any:
            response = await self._cluster.ask(
                await self.coordinator(), request, version, seconds=REQUEST_SECONDS
            )
            return response.topics[0].partitions[0]

        await self._producer._repeat(attempt)

    def _identity(self) -> dict[str, Any]:
        producer = self._producer
        return {
            "transactional_id": producer.transactional_id,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
        }

    async def stable(self) -> int:
        """Return the offset for a reader of stable ones."""
        request = ask.fetch(**{GROUP: {TOPIC: [0]}})
        request.require_stable = True

        async def attempt() -> Any:
            response = await self._cluster.ask(await self.coordinator(), request, 9, seconds=REQUEST_SECONDS)
            return response.groups[0]

        (row,) = (await self._producer._repeat(attempt)).topics[0].partitions
        return UNSTABLE if row.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT else int(row.committed_offset)

    async def become(self, offset: int) -> None:
        """Wait until the offset is stable, and is this one."""
        with trio.fail_after(60):
            while (found := await self.stable()) == UNSTABLE:  # noqa: ASYNC110 - nothing tells of it
                await trio.sleep(0.05)
        assert found == offset


@asynccontextmanager
async def group_of(
    tmp_path: Path, *, is_tv2: bool = True, group_on: int = 2
) -> AsyncIterator[tuple[SimulatedCluster, TransactionalProducer, Offsets]]:
    """Run three nodes: the first coordinates the transaction, `group_on` the group."""
    async with running(tmp_path, offsets_topic_num_partitions="1") as cluster:
        create(cluster.cluster, TOPIC)
        producer = await introduced(cluster, is_tv2=is_tv2)
        offsets = Offsets(cluster, producer)
        await offsets.coordinator()
        await until(lambda: len(registration(cluster).isr) == 3)
        move_coordinator(cluster.controller, GROUP, group_on)
        assert await offsets.stable() == -1  # which waits until the group is loaded there
        yield cluster, producer, offsets


def registration(cluster: SimulatedCluster) -> Any:
    """The group's partition, as the controller knows it."""
    return cluster.controller.image.topics[GROUP_METADATA_TOPIC].partitions[0]


@pytest.mark.parametrize("group_on", [COORDINATOR, 2])
@pytest.mark.parametrize("is_tv2", [True, False], ids=["TV2", "TV1"])
async def test_offsets_follow_the_end_of_their_transaction(
    is_tv2: bool, group_on: int, tmp_path: Path, autojump_clock: Clock
) -> None:
    async with group_of(tmp_path, is_tv2=is_tv2, group_on=group_on) as (_, producer, offsets):
        stored = -1
        for offset, commit in ((1, True), (2, False), (3, False), (4, True)):
            await offsets.send(offset)
            await offsets.send(offset)
            assert await offsets.stable() == UNSTABLE
            await producer.end(commit=commit)
            stored = offset if commit else stored
            await offsets.become(stored)


async def test_offsets_that_were_not_added_to_the_transaction_are_refused(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with group_of(tmp_path, is_tv2=False) as (_, _, offsets):
        refused = {}
        for version in (3, 4):
            with pytest.raises(Refused) as info:
                await offsets.commit(1, version)
            refused[version] = info.value.code
        assert refused == {3: ErrorCode.INVALID_TXN_STATE, 4: ErrorCode.TRANSACTION_ABORTABLE}
        assert await offsets.stable() == -1


async def test_a_fenced_producer_commits_no_offsets(tmp_path: Path, autojump_clock: Clock) -> None:
    async with group_of(tmp_path) as (cluster, producer, offsets):
        await offsets.send(1)
        successor = TransactionalProducer(cluster, producer.transactional_id)
        await successor.init()
        await offsets.become(-1)
        with pytest.raises(Refused) as refused:
            await offsets.send(2)
        assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await offsets.stable() == -1


@pytest.mark.parametrize("is_tv2", [True, False], ids=["TV2", "TV1"])
async def test_only_epochs_keep_a_late_commit_out_of_the_next_transaction(
    is_tv2: bool, tmp_path: Path, autojump_clock: Clock
) -> None:
    async with group_of(tmp_path, is_tv2=is_tv2) as (_, producer, offsets):
        former = producer.producer_epoch
        await offsets.send(1)
        await producer.end(commit=True)
        await offsets.become(1)
        await offsets.send(2)
        current, producer.producer_epoch = producer.producer_epoch, former
        if is_tv2:
            with pytest.raises(Refused) as refused:
                await offsets.commit(3, 5)
            assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
        else:
            await offsets.commit(3, 3)
        producer.producer_epoch = current
        await producer.end(commit=True)
        await offsets.become(2 if is_tv2 else 3)


async def move(cluster: SimulatedCluster) -> None:
    move_coordinator(cluster.controller, GROUP, 3)


async def move_to_the_other_coordinator(cluster: SimulatedCluster) -> None:
    move_coordinator(cluster.controller, GROUP, COORDINATOR)


async def kill(cluster: SimulatedCluster) -> None:
    await perform(cluster.cluster, "kill", {"node": 2})


async def kill_and_start(cluster: SimulatedCluster) -> None:
    await perform(cluster.cluster, "kill", {"node": 2})
    await perform(cluster.cluster, "start", {"node": 2})


async def stop(cluster: SimulatedCluster) -> None:
    await perform(cluster.cluster, "stop", {"node": 2})


async def cut(cluster: SimulatedCluster) -> None:
    """Cut both coordinators off from each other, for a while."""
    active = cluster.cluster.faults.add("cut", **{"from": COORDINATOR, "to": 2})
    await trio.sleep(20)
    cluster.cluster.faults.clear(active.number)


MISHAPS = (move, move_to_the_other_coordinator, kill, kill_and_start, stop, cut)


@pytest.mark.parametrize("mishap", MISHAPS, ids=lambda mishap: mishap.__name__)
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
async def test_a_group_knows_its_open_transactions_wherever_it_is(
    commit: bool,
    mishap: Callable[[SimulatedCluster], Any],
    tmp_path: Path,
    autojump_clock: Clock,
) -> None:
    async with group_of(tmp_path) as (cluster, producer, offsets):
        await offsets.send(1)
        await producer.end(commit=True)
        await offsets.become(1)
        await offsets.send(2)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(mishap, cluster)
            await trio.sleep(0.5)
            assert await offsets.stable() == UNSTABLE
            await producer.end(commit=commit)
            await described_as(producer, "CompleteCommit" if commit else "CompleteAbort")
        await offsets.become(2 if commit else 1)
        await offsets.send(3)
        await producer.end(commit=True)
        await offsets.become(3)
