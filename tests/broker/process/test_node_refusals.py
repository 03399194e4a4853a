"""Operations on nodes that are refused, and what must not come of two at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from kcli.broker.node_context import NodeState
from kcli.errors import KcliError
from tests.broker.process.operated_nodes import QUICK, do, states
from tests.support.running_cluster import running_cluster

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("operation", "node", "message"),
    [
        ("stop", 9, "there is no node 9"),
        ("start", 1, "node 1 is running"),
        ("resume", 1, "node 1 is running"),
        ("move-controller", 1, "node 1 is the controller already"),
        ("stop", 2, "node 2 is not running: it was killed"),
        ("kill", 2, "node 2 is not running: it was killed"),
        ("pause", 2, "node 2 is not running: it was killed"),
        ("resume", 2, "node 2 is not running: it was killed"),
        ("move-controller", 2, "node 2 is not running: it was killed"),
        ("pause", 3, "node 3 is paused"),
        ("stop", 3, "node 3 is paused, and cannot hand over its partitions"),
        ("start", 3, "node 3 is paused"),
        ("move-controller", 3, "node 3 is paused"),
        ("stop", None, "`node` must be the id of a node"),
    ],
)
async def test_what_cannot_be_done_is_refused_and_changes_nothing(
    operation: str, node: int | None, message: str, tmp_path: Path
) -> None:
    async with running_cluster(tmp_path, nodes=3) as cluster:
        await do(cluster, "kill", 2)
        await do(cluster, "pause", 3)
        offset = cluster.publisher.latest.offset
        with pytest.raises(KcliError) as caught:
            await do(cluster, operation, node)
        assert caught.value.message == message
        assert await states(cluster) == {1: "running", 2: "dead", 3: "paused"}
        assert cluster.publisher.latest.offset == offset


async def test_the_last_node_is_not_removed(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        with pytest.raises(KcliError, match="node 1 is the last one"):
            await do(cluster, "remove", 1)
        assert cluster.nodes[1].state is NodeState.RUNNING


async def test_a_node_is_not_stopped_twice_at_once(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=2) as cluster:
        cluster.nodes[2].broker.state = NodeState.STOPPING
        with pytest.raises(KcliError, match="node 2 is stopping already"):
            await do(cluster, "stop", 2)
        cluster.nodes[2].broker.state = NodeState.RUNNING


async def test_of_two_starts_at_the_same_time_one_is_refused(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=2, **QUICK) as cluster:
        await do(cluster, "kill", 2)
        refusals = []

        async def start() -> None:
            try:
                await do(cluster, "start", 2)
            except KcliError as error:
                refusals.append(error.message)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(start)
            nursery.start_soon(start)
        assert refusals == ["node 2 is starting already"]
        assert (await states(cluster))[2] == "running"


async def test_a_stop_goes_on_when_the_next_controller_cannot_write(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3, **QUICK) as cluster:
        holder = cluster.election.controller_id
        assert holder is not None
        others = [node_id for node_id in cluster.nodes if node_id != holder]
        full = cluster.election.copies.newest(others)
        assert full is not None
        cluster.faults.add("fill-disk", node=full)
        try:
            await do(cluster, "stop", holder)
        finally:
            cluster.faults.clear_all()
        (left,) = {*others} - {full}
        assert cluster.election.controller_id == left
        with trio.fail_after(30):
            await cluster.nodes[full].ended.wait()
        assert cluster.failed.pop(full)
