"""Several nodes with several listeners: the ports of each, and what is told on each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kcli.broker.process.cluster import ClusterOptions
from kcli.broker.process.node_operations import NODE_OPERATIONS
from kcli.client.admin import describe_cluster
from kcli.client.client import connect
from kcli.errors import UsageError
from tests.broker.process.test_cluster import start_failure
from tests.support.ports import free_ports
from tests.support.running_cluster import running_cluster

if TYPE_CHECKING:
    from pathlib import Path

    from kcli.broker.process.cluster import Cluster

PROTOCOLS = "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"


def ports(cluster: Cluster, listener: str) -> dict[int, int]:
    return {broker.node_id: broker.ports[listener] for broker in cluster.brokers}


async def told_on(port: int) -> dict[int, int]:
    async with connect(f"127.0.0.1:{port}") as client:
        return {node.node_id: node.port for node in (await describe_cluster(client)).nodes}


async def test_each_listener_tells_the_ports_of_all_nodes(tmp_path: Path) -> None:
    first, outside = free_ports(8)[::4]
    listeners = f"INSIDE://127.0.0.1:{first},OUTSIDE://127.0.0.1:{outside}"
    settings: dict[str, Any] = {"listeners": listeners, "listener_security_protocol_map": PROTOCOLS}
    async with running_cluster(tmp_path, nodes=3, **settings) as cluster:
        assert ports(cluster, "INSIDE") == {1: first, 2: first + 1, 3: first + 2}
        await NODE_OPERATIONS["node.add"](cluster, {})
        for listener, port in (("INSIDE", first), ("OUTSIDE", outside)):
            expected = {1: port, 2: port + 1, 3: port + 2, 4: port + 3}
            assert ports(cluster, listener) == expected
            assert [await told_on(each) for each in expected.values()] == [expected] * 4
        assert cluster.bootstrap_servers == [f"127.0.0.1:{first + index}" for index in range(4)]


async def test_any_free_port_is_one_of_its_own_for_every_listener_and_node(tmp_path: Path) -> None:
    listeners = "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0"
    settings: dict[str, Any] = {"listeners": listeners, "listener_security_protocol_map": PROTOCOLS}
    async with running_cluster(tmp_path, nodes=2, **settings) as cluster:
        inside, outside = ports(cluster, "INSIDE"), ports(cluster, "OUTSIDE")
        assert len({*inside.values(), *outside.values()}) == 4
        assert [await told_on(inside[2]), await told_on(outside[1])] == [inside, outside]
        await NODE_OPERATIONS["node.kill"](cluster, {"node": 2})
        await NODE_OPERATIONS["node.start"](cluster, {"node": 2})
        assert (ports(cluster, "INSIDE"), ports(cluster, "OUTSIDE")) == (inside, outside)


async def test_a_start_with_two_nodes_on_one_port_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    listeners = "INSIDE://127.0.0.1:9092,OUTSIDE://127.0.0.1:9093"
    properties = {"listeners": listeners, "listener.security.protocol.map": PROTOCOLS}
    error = await start_failure(ClusterOptions(tmp_path / "data", nodes=2, properties=properties))
    assert error.message == "port 9093 would be that of `OUTSIDE` on node 1, and of `INSIDE` on node 2"
    assert not (tmp_path / "data").exists()


async def test_a_node_that_would_get_a_port_of_another_is_not_added(tmp_path: Path) -> None:
    first, second = free_ports(2)
    listeners = f"INSIDE://127.0.0.1:{first},OUTSIDE://127.0.0.1:{second}"
    settings: dict[str, Any] = {"listeners": listeners, "listener_security_protocol_map": PROTOCOLS}
    async with running_cluster(tmp_path, **settings) as cluster:
        with pytest.raises(UsageError) as caught:
            await NODE_OPERATIONS["node.add"](cluster, {})
        message = f"port {second} would be that of `OUTSIDE` on node 1, and of `INSIDE` on node 2"
        assert caught.value.message == message
        assert list(cluster.nodes) == [1]
