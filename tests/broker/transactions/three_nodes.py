"""Three nodes in virtual time, of which the first coordinates all transactions."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from kcli.broker.process.fault_operations import move_leader
from kcli.protocol.topics import TRANSACTION_STATE_TOPIC
from tests.broker.schedules.life import PROPERTIES
from tests.broker.schedules.simulated_cluster import simulated_cluster
from tests.broker.schedules.transactional_producer import TransactionalProducer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.broker.schedules.simulated_cluster import SimulatedCluster

COORDINATOR = 1
TRANSACTIONS = {**PROPERTIES, "transaction.state.log.num.partitions": "1"}


@asynccontextmanager
async def running(tmp_path: Path, **properties: str) -> AsyncIterator[SimulatedCluster]:
    """Run three nodes; properties have underscores for dots."""
    more = {name.replace("_", "."): value for name, value in properties.items()}
    async with simulated_cluster(
        tmp_path, nodes=3, properties={**TRANSACTIONS, **more}, kill=lambda: False
    ) as cluster:
        yield cluster


async def introduced(
    cluster: SimulatedCluster, name: str = "x", *, is_tv2: bool = True
) -> TransactionalProducer:
    """Return a producer with its id, whose coordinator is node 1."""
    producer = TransactionalProducer(cluster, name, is_tv2=is_tv2)
    await producer.init()
    if await producer.coordinator() != COORDINATOR:
        await until(
            lambda: COORDINATOR in cluster.controller.image.topics[TRANSACTION_STATE_TOPIC].partitions[0].isr
        )
        move_leader(cluster.controller, TRANSACTION_STATE_TOPIC, partition=0, node=COORDINATOR)
    return producer


async def until(holds: Callable[[], object], seconds: float = 60) -> None:
    """Return when something holds, within so many virtual seconds."""
    with trio.fail_after(seconds):
        while not holds():  # noqa: ASYNC110 - nothing tells of it
            await trio.sleep(0.05)


async def described_as(producer: TransactionalProducer, state: str, seconds: float = 60) -> None:
    """Return when the coordinator says that a transaction has come to a state."""
    with trio.fail_after(seconds):
        while (await producer.described())[0] != state:  # noqa: ASYNC110 - nothing tells of it
            await trio.sleep(0.05)
