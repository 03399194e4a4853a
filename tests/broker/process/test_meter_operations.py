"""Measuring as the control socket offers it, on nodes that serve clients meanwhile."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

from kcli.broker.metering.meters import TimingEngine
from kcli.broker.process.control_operations import OPERATIONS
from kcli.broker.process.control_server import ControlServer, LongOperation
from kcli.broker.process.meter_operations import MOST_SECONDS, measure_requests
from kcli.control_socket import SOCKET_NAME
from kcli.errors import KcliError, UsageError
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.messages.metadata import MetadataRequest
from tests.broker.process.operated_nodes import created, do
from tests.broker.records import batch, produce_request
from tests.broker.single_node import Client
from tests.support import waiting
from tests.support.running_cluster import running_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kcli.broker.process.cluster import Cluster

HOUR = 3600


class Measuring:
    """A measurement on the control socket of a cluster."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream

    async def ended(self) -> dict[str, Any]:
        """Have it end now; return its result."""
        await self.stream.send_eof()
        received = bytearray()
        with trio.fail_after(waiting.PATIENCE_SECONDS):
            while data := await self.stream.receive_some():
                received += data
        result: dict[str, Any] = json.loads(received)["result"]
        return result


def layers(cluster: Cluster) -> list[int]:
    """The nodes of which connections feed a layer that measures."""
    return [
        node.node_id for node in cluster.brokers if isinstance(node.engine_layers.outermost, TimingEngine)
    ]


@asynccontextmanager
async def process(directory: Path, nodes: int = 1) -> AsyncIterator[Cluster]:
    """A cluster with its control socket."""
    async with running_cluster(directory, nodes=nodes) as cluster, trio.open_nursery() as nursery:
        await nursery.start(ControlServer(cluster, directory, operations=lambda: OPERATIONS).run)
        yield cluster
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def measuring(directory: Path, cluster: Cluster, **arguments: object) -> AsyncIterator[Measuring]:
    """Measure until the block ends."""
    async with await trio.open_unix_socket(str(directory / SOCKET_NAME)) as stream:
        request = {"operation": "requests.measure", "arguments": {"seconds": HOUR, **arguments}}
        before = cluster.meters.running
        await stream.send_all(json.dumps(request).encode() + b"\n")
        await waiting.until(lambda: cluster.meters.running == before + 1)
        yield Measuring(stream)


@asynccontextmanager
async def client(cluster: Cluster, node: int = 1) -> AsyncIterator[Client]:
    port = cluster.nodes[node].broker.endpoints[0].port
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        yield Client(stream)


def fetch(max_wait_ms: int) -> FetchRequest:
    row = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[row])]
    )


def seen(result: dict[str, Any]) -> list[tuple[int, str, int]]:
    return [(row["node"], row["api"], row["requests"]) for row in result["apis"]]


def remote(result: dict[str, Any], api: str) -> dict[str, float]:
    (found,) = [row["remote_ms"] for row in result["apis"] if row["api"] == api]
    return dict(found)


async def test_an_idle_fetch_is_remote_for_as_long_as_it_may_wait(tmp_path: Path) -> None:
    async with process(tmp_path) as cluster, client(cluster) as consumer:
        await created(cluster, "t")
        async with measuring(tmp_path, cluster) as measurement:
            await consumer.ask(fetch(max_wait_ms=150), 5)
            result = await measurement.ended()
    assert seen(result) == [(1, "Fetch", 1), (1, "FetchConsumer", 1)]
    # A quantile is exact to 1.6 %.
    assert 0.98 * 150 <= remote(result, "FetchConsumer")["p50"] <= 1020 * result["seconds"]
    (row,) = [each for each in result["apis"] if each["api"] == "FetchConsumer"]
    assert 0 < row["local_ms"]["max"] < row["total_ms"]["max"]
    assert row["per_second"] == pytest.approx(1 / result["seconds"], rel=0.01)


async def test_an_acknowledged_write_waits_for_replicas_and_one_without_answer_is_seen(
    tmp_path: Path,
) -> None:
    async with process(tmp_path, nodes=2) as cluster:
        await created(cluster, "t", on=(1, 2))
        async with client(cluster) as producer, measuring(tmp_path, cluster, node=1) as measurement:
            await producer.send(produce_request("t", batch(b"value"), acks=0), 8)
            await producer.ask(produce_request("t", batch(b"value"), acks=-1), 8)
            result = await measurement.ended()
    assert seen(result) == [(1, "Produce", 2)]
    assert remote(result, "Produce")["max"] > 0


async def test_a_request_that_closes_its_connection_is_seen(tmp_path: Path) -> None:
    async with process(tmp_path) as cluster, measuring(tmp_path, cluster) as measurement:
        async with client(cluster) as stranger:
            await stranger.stream.send_all(b"\x00\x00\x00\x0a\x7f\xff\x00\x00\x00\x00\x00\x01\xff\xff")
            assert await stranger.is_closed()
        result = await measurement.ended()
    assert seen(result) == [(1, "unknown", 1)]


async def test_two_at_once_get_each_their_own_whole_numbers(tmp_path: Path) -> None:
    async with (
        process(tmp_path) as cluster,
        client(cluster) as asking,
        measuring(tmp_path, cluster) as first,
    ):
        await asking.ask(MetadataRequest(topics=[]), 8)
        async with measuring(tmp_path, cluster) as second:
            await asking.ask(MetadataRequest(topics=[]), 8)
            short = await second.ended()
        await asking.ask(MetadataRequest(topics=[]), 8)
        long = await first.ended()
    assert (seen(long), seen(short)) == ([(1, "Metadata", 3)], [(1, "Metadata", 1)])
    assert long["seconds"] > short["seconds"]


async def test_a_client_that_goes_away_leaves_nothing_behind(tmp_path: Path) -> None:
    async with process(tmp_path, nodes=2) as cluster:
        async with measuring(tmp_path, cluster):
            assert layers(cluster) == [1, 2]
        await waiting.until(lambda: cluster.meters.running == 0)
        assert layers(cluster) == []


async def test_a_fetch_that_waits_when_the_layer_goes_or_comes_is_answered(tmp_path: Path) -> None:
    async with process(tmp_path) as cluster, client(cluster) as consumer, client(cluster) as other:
        await created(cluster, "t")
        sent = [await consumer.send(fetch(max_wait_ms=60_000), 5)]
        await waiting.until(lambda: cluster.brokers[0].purgatory.parked == 1)
        async with measuring(tmp_path, cluster) as measurement:
            sent.append(await other.send(fetch(max_wait_ms=60_000), 5))
            await waiting.until(lambda: cluster.brokers[0].purgatory.parked == 2)
            # The first was parked before, the second is not answered meanwhile.
            assert seen(await measurement.ended()) == []
        async with measuring(tmp_path, cluster) as measurement, client(cluster) as producer:
            await producer.ask(produce_request("t", batch(b"value"), acks=1), 8)
            answers = [await each.receive(1, 5) for each in (consumer, other)]
            result = await measurement.ended()
    assert [correlation_id for correlation_id, _ in answers] == sent
    assert seen(result) == [(1, "Produce", 1)]


async def test_a_client_that_leaves_while_it_waits_is_not_seen_and_does_no_harm(tmp_path: Path) -> None:
    async with process(tmp_path) as cluster:
        await created(cluster, "t")
        async with measuring(tmp_path, cluster) as measurement:
            async with client(cluster) as consumer:
                await consumer.send(fetch(max_wait_ms=60_000), 5)
                await waiting.until(lambda: cluster.brokers[0].purgatory.parked == 1)
            await waiting.until(lambda: cluster.brokers[0].purgatory.parked == 0)
            assert seen(await measurement.ended()) == []


@pytest.mark.parametrize("operation", ["stop", "kill", "pause"])
async def test_what_a_node_did_before_it_ended_is_told(operation: str, tmp_path: Path) -> None:
    async with process(tmp_path, nodes=2) as cluster:
        async with measuring(tmp_path, cluster, node=2) as measurement:
            async with client(cluster, node=2) as asking:
                await asking.ask(MetadataRequest(topics=[]), 8)
            await do(cluster, operation, 2)
            result = await measurement.ended()
        if operation == "pause":
            await do(cluster, "resume", 2)
    assert (seen(result), result["nodes"]) == ([(2, "Metadata", 1)], [2])


async def test_a_node_that_starts_meanwhile_is_measured_too(tmp_path: Path) -> None:
    async with process(tmp_path, nodes=2) as cluster:
        async with measuring(tmp_path, cluster) as measurement:
            await do(cluster, "kill", 2)
            await do(cluster, "start", 2)
            async with client(cluster, node=2) as asking:
                await asking.ask(MetadataRequest(topics=[]), 8)
            result = await measurement.ended()
        assert layers(cluster) == []
    assert (seen(result), result["nodes"]) == ([(2, "Metadata", 1)], [1, 2])


async def test_it_ends_when_its_time_is_over(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        lasting = await measure_requests(cluster, {"seconds": 1})
        assert isinstance(lasting, LongOperation)
        result: Any = await lasting.until(trio.Event())
        assert cluster.meters.running == 0
    assert (result["apis"], result["nodes"]) == ([], [1])
    assert 1 <= result["seconds"] < 60


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({}, UsageError, "`seconds` is a whole number from 1 on, not 0"),
        ({"seconds": 0}, UsageError, "`seconds` is a whole number from 1 on, not 0"),
        ({"seconds": -5}, UsageError, "`seconds` is a whole number from 1 on, not -5"),
        ({"seconds": 1.5}, UsageError, "`seconds` is a whole number from 1 on, not 1.5"),
        ({"seconds": MOST_SECONDS + 1}, UsageError, "`seconds` is at most 3600, not 3601"),
        ({"seconds": 1, "node": "two"}, UsageError, "`node` is a whole number from 0 on, not 'two'"),
        ({"seconds": 1, "node": 3}, KcliError, "there is no node 3"),
        ({"seconds": 1, "node": 2}, KcliError, "node 2 is not running"),
    ],
)
async def test_what_cannot_be_measured_is_refused(
    arguments: dict[str, object], kind: type[KcliError], message: str, tmp_path: Path
) -> None:
    async with running_cluster(tmp_path, nodes=2) as cluster:
        await do(cluster, "kill", 2)
        with pytest.raises(KcliError) as caught:
            await measure_requests(cluster, arguments)
        assert cluster.meters.running == 0
    assert (type(caught.value), caught.value.message) == (kind, message)


async def test_where_no_node_runs_there_is_nothing_to_measure(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await do(cluster, "kill", 1)
        with pytest.raises(KcliError, match="no node runs"):
            await measure_requests(cluster, {"seconds": 1})
