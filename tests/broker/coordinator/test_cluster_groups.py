"""Groups in a cluster: spread over its nodes, kept over restarts, answered at a stop."""

from __future__ import annotations

import shutil
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kcli.protocol.topics import GROUP_METADATA_TOPIC, partition_for
from tests.broker.handlers import group_requests as ask
from tests.broker.single_node import Client
from tests.support.running_cluster import running_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kcli.broker.process.cluster import Cluster

TOPIC = "topic"
NAMES = [f"group-{number}" for number in range(40)]


@asynccontextmanager
async def connected(cluster: Cluster, node_id: int = 1) -> AsyncIterator[Client]:
    host, _, port = cluster.bootstrap_servers[node_id - 1].rpartition(":")
    async with await trio.open_tcp_stream(host, int(port)) as stream:
        yield Client(stream)


async def create_topic(client: Client) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    (topic,) = (await client.ask(request, 4)).topics
    assert topic.error_code == 0


async def coordinators(client: Client) -> dict[str, int]:
    response = await client.ask(ask.find(*NAMES), 4)
    assert all(each.error_code == 0 for each in response.coordinators)
    return {each.key: each.node_id for each in response.coordinators}


async def when_loaded(client: Client, group: str) -> dict[tuple[str | bytes, int], tuple[int, int]]:
    """Return the committed offsets, once the coordinator has read its log."""
    while True:
        (found,) = (await client.ask(ask.fetch(**{group: {TOPIC: [0]}}), 8)).groups
        if found.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            assert found.error_code == 0
            return ask.fetched(found.topics)


async def test_every_node_coordinates_some_groups_and_only_those(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3) as cluster:
        async with connected(cluster) as client:
            await create_topic(client)
            found = await coordinators(client)
        assert set(found.values()) == {1, 2, 3}
        for node_id in (1, 2, 3):
            async with connected(cluster, node_id) as client:
                assert await coordinators(client) == found
                for number, name in enumerate(NAMES):
                    response = await client.ask(ask.commit({(TOPIC, 0): number}, name), 8)
                    own = found[name] == node_id
                    expected = ErrorCode.NONE if own else ErrorCode.NOT_COORDINATOR
                    assert ask.committed(response) == {(TOPIC, 0): expected}
                listed = (await client.ask(ask.list_groups(), 4)).groups
                assert {each.group_id for each in listed} == {
                    name for name in NAMES if found[name] == node_id
                }


@pytest.mark.parametrize("kill", [False, True])
async def test_a_cluster_that_starts_again_knows_its_groups(kill: bool, tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3, kill=kill) as cluster, connected(cluster) as client:
        await create_topic(client)
        before = await coordinators(client)
        for number, name in enumerate(NAMES):
            async with connected(cluster, before[name]) as coordinator:
                response = await coordinator.ask(ask.commit({(TOPIC, 0): number}, name), 8)
                assert ask.committed(response) == {(TOPIC, 0): 0}
    async with running_cluster(tmp_path, nodes=3) as cluster, connected(cluster) as client:
        # The leader of a groups partition is the node that came back first.
        after = await coordinators(client)
        for number, name in enumerate(NAMES):
            async with connected(cluster, after[name]) as coordinator:
                assert await when_loaded(coordinator, name) == {(TOPIC, 0): (number, 0)}


@pytest.mark.parametrize(("partitions", "is_whole"), [(50, False), (50, True), (7, True)])
async def test_groups_of_another_cluster_can_be_adopted(
    partitions: int, is_whole: bool, tmp_path: Path
) -> None:
    source, target = tmp_path / "from" / "node-1", tmp_path / "to" / "node-1"
    settings = {"offsets_topic_num_partitions": str(partitions)}
    async with running_cluster(tmp_path / "from", **settings) as cluster, connected(cluster) as client:
        await create_topic(client)
        await coordinators(client)
        await client.ask(ask.commit({(TOPIC, 0): 7}, "group-1"), 8)
    own = f"{GROUP_METADATA_TOPIC}-{partition_for('group-1', partitions)}"
    for path in source.glob(f"{GROUP_METADATA_TOPIC}-*"):
        if is_whole or path.name == own:
            shutil.copytree(path, target / path.name)
    shutil.copytree(source / f"{TOPIC}-0", target / f"{TOPIC}-0")
    async with running_cluster(tmp_path / "to", adopt=True) as cluster, connected(cluster) as client:
        assert await when_loaded(client, "group-1") == {(TOPIC, 0): (7, 0)}
        image = cluster.brokers[0].image
        assert len(image.topics[GROUP_METADATA_TOPIC].partitions) == partitions
        assert image.topic_config(GROUP_METADATA_TOPIC)["cleanup.policy"] == "compact"


async def test_a_stop_lets_nobody_wait(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path) as cluster,
        connected(cluster) as client,
        connected(cluster) as other,
        connected(cluster) as third,
    ):
        await coordinators(client)
        joined = await client.ask(ask.join(), 3)
        assert joined.error_code == 0
        for waiting in (other, third):
            await waiting.send(ask.join(), 3)
        request = ask.heartbeat(member=joined.member_id, generation=joined.generation_id)
        while (await client.ask(request, 3)).error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            pass
        while len((await client.ask(ask.describe("group"), 4)).groups[0].members) < 3:
            pass
        cluster.stop()
        for waiting in (other, third):
            assert (await waiting.receive(11, 3))[1].error_code == ErrorCode.NOT_COORDINATOR
            assert await waiting.is_closed()
