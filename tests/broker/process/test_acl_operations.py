"""Denials as the control socket tells them, on nodes that deny clients meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio

from kcli.broker.process.control_operations import OPERATIONS
from kcli.errors import KcliError, UsageError
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.raw_client import RawClient
from tests.support.running_cluster import running_cluster

if TYPE_CHECKING:
    from pathlib import Path

    from kcli.broker.process.cluster import Cluster

GUARDED: dict[str, Any] = {"authorizer_class_name": "standard"}


async def denials(cluster: Cluster, **arguments: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = await OPERATIONS["acls.denials"](cluster, arguments)
    return found


async def be_denied(bootstrap: str, *topics: str) -> None:
    """Ask a node for topics that nobody may see."""

    def ask() -> None:
        with RawClient(bootstrap) as client:
            named = [MetadataRequestTopic(name=topic) for topic in topics]
            response = client.ask(MetadataRequest(topics=named, allow_auto_topic_creation=False), 8)
            assert {each.error_code for each in response.topics} == {29}

    await trio.to_thread.run_sync(ask)


async def test_denials_of_all_nodes_come_in_the_order_of_time(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=2, **GUARDED) as cluster:
        first, second = cluster.bootstrap_servers
        assert await denials(cluster) == []
        await be_denied(first, "a")
        await be_denied(second, "b")
        await be_denied(first, "c")
        rows = await denials(cluster)
        assert sorted((row["node"], row["number"], row["resource_name"]) for row in rows) == [
            (1, 1, "a"),
            (1, 2, "c"),
            (2, 1, "b"),
        ]
        times = [(row["time_ms"], row["node"], row["number"]) for row in rows]
        assert times == sorted(times)
        assert {row["principal"] for row in rows} == {"User:ANONYMOUS"}
        assert (rows[0]["operation"], rows[0]["resource_type"], rows[0]["api"]) == (
            "Describe",
            "Topic",
            "Metadata",
        )
        assert [row["resource_name"] for row in await denials(cluster, node=2)] == ["b"]
        assert [row["resource_name"] for row in await denials(cluster, after={"1": 1, "2": 1})] == ["c"]
        # The numbers of a node that has started again are small.
        assert len(await denials(cluster, after={"1": 500})) == 3
        with pytest.raises(UsageError):
            await denials(cluster, after={"1": "x"})
        with pytest.raises(KcliError, match="node 7"):
            await denials(cluster, node=7)


async def test_without_an_authorizer_nothing_is_denied(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        with pytest.raises(KcliError, match="no node has an authorizer"):
            await denials(cluster)
