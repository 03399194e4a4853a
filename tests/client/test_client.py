"""The client finds a broker, routes, retries, and refreshes its metadata with one request at a time."""

from __future__ import annotations

import pytest
import trio

from kcli.client import admin
from kcli.client.client import connect
from kcli.client.config import ClientConfig
from kcli.client.network.bootstrap import Unreachable, parse_bootstrap
from kcli.client.network.connection import Connection
from kcli.client.network.metadata import (
    ANY,
    CONTROLLER,
    ClusterMetadata,
    MetadataCache,
    Node,
    PartitionMetadata,
    TopicMetadata,
)
from kcli.client.network.node_links import NodeLink
from kcli.errors import KcliError, UsageError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.list_offsets import ListOffsetsRequest
from kcli.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kcli.protocol.topics import TopicPartition
from tests.client.fake_brokers import Disconnect, FakeBrokers, NoAnswer, fake_cluster

REQUEST = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("one", [("one", 9092)]),
        ("one:1, two:2,", [("one", 1), ("two", 2)]),
        ("[::1]:19092,[fe80::1]", [("::1", 19092), ("fe80::1", 9092)]),
    ],
)
def test_bootstrap_addresses(text: str, nodes: list[tuple[str, int]]) -> None:
    parsed = parse_bootstrap(text)
    assert [(node.host, node.port) for node in parsed] == nodes
    assert [node.node_id for node in parsed] == [-1 - index for index in range(len(nodes))]


@pytest.mark.parametrize(
    "text", ["", ",", "one:", "one:port", ":1", "::1:9092", "http://one:1", "one:0", "[::1:1"]
)
def test_wrong_bootstrap_addresses_are_usage_errors(text: str) -> None:
    with pytest.raises(UsageError):
        parse_bootstrap(text)


async def test_refused_everywhere_fails_within_two_seconds_and_names_the_addresses(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        brokers = FakeBrokers(nursery)
        start = trio.current_time()
        with pytest.raises(Unreachable, match=r"one:1: connection refused; .*two:2: connection refused"):
            async with connect("one:1,two:2", open_stream=brokers.open_stream):
                pass
        assert trio.current_time() - start < 3
        assert len(brokers.opened) > 4


async def test_a_silent_address_is_given_up_at_the_setup_timeout(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def open_stream(node: Node, config: ClientConfig) -> trio.abc.Stream:
        return trio.testing.memory_stream_pair()[0]

    start = trio.current_time()
    with pytest.raises(Unreachable, match="one:9092 did not answer within 10 s"):
        async with connect("one", open_stream=open_stream):
            pass
    assert trio.current_time() - start == pytest.approx(10)


async def test_the_second_address_serves_when_the_first_is_dead(
    autojump_clock: trio.testing.MockClock,
) -> None:
    start = trio.current_time()
    async with fake_cluster(bootstrap="dead,broker-1") as (_, client):
        assert trio.current_time() - start < 2
        assert client.cluster.cluster_id == "fake"


async def test_an_exception_in_the_block_comes_out_as_it_is() -> None:
    async with trio.open_nursery() as nursery:
        brokers = FakeBrokers(nursery)
        with pytest.raises(KcliError, match="mine"):
            async with connect("broker-1", open_stream=brokers.open_stream):
                raise KcliError("mine")


async def test_a_broker_that_is_lost_as_soon_as_it_was_found_is_looked_for_again(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = NodeLink.ready

    async def found_and_lost(self: NodeLink) -> Connection:
        monkeypatch.setattr(NodeLink, "ready", found)
        connection = await found(self)
        connection.close()
        return connection

    monkeypatch.setattr(NodeLink, "ready", found_and_lost)
    async with fake_cluster() as (_, client):
        response = await client.request(ANY, REQUEST)
        assert response.producer_id == 1000


async def test_disconnects_are_retried(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster() as (brokers, client):
        brokers.script(InitProducerIdRequest, Disconnect, Disconnect)
        response = await client.request(ANY, REQUEST)
        assert response.producer_id == 1000
        assert len(brokers.received(InitProducerIdRequest)) == 3


async def test_a_request_without_an_answer_ends_with_the_time_given(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster() as (brokers, client):
        brokers.script(InitProducerIdRequest, *[NoAnswer] * 9)
        start = trio.current_time()
        with pytest.raises(KcliError, match="did not answer in time"):
            await client.request(ANY, REQUEST, timeout_ms=45_000)
        assert trio.current_time() - start == pytest.approx(45, abs=1)


async def test_an_unreachable_broker_is_given_up_early(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(nodes=2) as (brokers, client):
        brokers.down.add("broker-2")
        start = trio.current_time()
        with pytest.raises(Unreachable, match="broker-2:9092"):
            await client.request(2, REQUEST)
        assert 9 < trio.current_time() - start < 13


async def test_an_unknown_broker_is_refused_at_once() -> None:
    async with fake_cluster() as (_, client):
        with pytest.raises(KafkaError, match="broker 9 is not in the cluster"):
            await client.request(9, REQUEST)


async def test_requests_go_where_they_belong(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(nodes=3) as (brokers, client):
        await client.request(3, REQUEST)
        await client.request(CONTROLLER, REQUEST)
        nodes = [
            entry.node_id for entry in brokers.requests if isinstance(entry.request, InitProducerIdRequest)
        ]
        assert nodes == [3, 1]


async def test_a_hundred_waiting_tasks_cost_one_metadata_request_at_a_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster(topics={f"topic-{index}": 1 for index in range(10)}) as (brokers, client):
        before = len(brokers.received(MetadataRequest))
        async with trio.open_nursery() as nursery:
            for index in range(100):
                nursery.start_soon(client.wait_for_topic, f"topic-{index % 10}")
        assert len(brokers.received(MetadataRequest)) - before <= 2
        assert set(client.cluster.topics) == {f"topic-{index}" for index in range(10)}


async def test_a_topic_that_appears_later_ends_the_wait(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster() as (brokers, client):

        async def create_later() -> None:
            await trio.sleep(5)
            brokers.add_topic("late", 2)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(create_later)
            topic = await client.wait_for_topic("late")
        assert len(topic.partitions) == 2
        # It backs off up to a second.
        assert len(brokers.received(MetadataRequest)) < 20


async def test_metadata_is_refreshed_at_its_maximum_age(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(topics={"orders": 1}) as (brokers, client):
        await client.wait_for_topic("orders")
        brokers.add_topic("orders", 4)
        client.want_topic("orders", pinned=True)
        await trio.sleep(310)
        assert len(client.cluster.topics["orders"].partitions) == 4


async def test_when_no_known_broker_is_left_the_client_starts_over_from_its_bootstrap(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster(bootstrap="broker-1,broker-2") as (brokers, client):
        await client.request(ANY, REQUEST)
        # The cluster moves: broker 1 now lives at the second bootstrap address.
        brokers.down.add("broker-1")
        brokers.nodes[1] = Node(1, "broker-2", 9092)
        brokers.disconnect(1)
        response = await client.request(ANY, REQUEST)
        assert response.producer_id == 1001
        await client.wait_for_refresh()
        assert client.cluster.nodes[1].host == "broker-2"


async def test_error_129_makes_the_client_start_over(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(topics={"orders": 1}) as (brokers, client):
        refused = MetadataResponse(error_code=129, brokers=[], topics=[])
        brokers.script(MetadataRequest, refused)
        await client.wait_for_topic("orders")
        assert client.cluster.nodes


async def test_offsets_are_asked_of_each_leader_and_a_dead_one_fails_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster(nodes=2, topics={"orders": 2}) as (brokers, client):
        brokers.down.add("broker-2")
        wanted = {TopicPartition("orders", index): admin.LATEST for index in range(3)}
        results = await admin.list_offsets(client, wanted, timeout_ms=5000)
        assert list(results) == list(wanted)
        assert results[TopicPartition("orders", 0)] == admin.OffsetAndTimestamp(0)
        failed = results[TopicPartition("orders", 1)]
        assert isinstance(failed, KafkaError)
        assert "broker-2:9092: connection refused" in failed.message
        missing = results[TopicPartition("orders", 2)]
        assert isinstance(missing, KafkaError)
        assert missing.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_moved_leader_is_found_again(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(nodes=2, topics={"orders": 1}) as (brokers, client):

        def move(node_id: int, request: ListOffsetsRequest, version: int) -> object:
            brokers.topics["orders"][0].leader = 2
            partition = TopicPartition("orders", 0)
            answer = brokers._ListOffsetsRequest(node_id, request, version)
            answer.topics[0].partitions[partition.partition].error_code = 6
            return answer

        brokers.script(ListOffsetsRequest, move)
        results = await admin.list_offsets(client, {TopicPartition("orders", 0): admin.EARLIEST})
        assert results == {TopicPartition("orders", 0): admin.OffsetAndTimestamp(0)}
        assert [
            entry.node_id for entry in brokers.requests if isinstance(entry.request, ListOffsetsRequest)
        ] == [1, 2]


async def test_a_leader_that_died_is_followed_by_another(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(nodes=2, topics={"orders": 2}) as (brokers, client):
        await client.wait_for_topic("orders")

        def die(node_id: int, request: ListOffsetsRequest, version: int) -> object:
            del brokers.nodes[2]
            brokers.topics["orders"][1].leader = 1
            raise Disconnect

        brokers.script(ListOffsetsRequest, die)
        results = await admin.list_offsets(client, {TopicPartition("orders", 1): admin.EARLIEST})
        assert results == {TopicPartition("orders", 1): admin.OffsetAndTimestamp(0)}
        assert [
            entry.node_id for entry in brokers.requests if isinstance(entry.request, ListOffsetsRequest)
        ] == [2, 1]


# --- the cache alone ---------------------------------------------------------------------------------------


def snapshot(leader_epoch: int, topic_id: bytes = b"\x01" * 16) -> ClusterMetadata:
    entry = PartitionMetadata(0, leader=1, leader_epoch=leader_epoch)
    topic = TopicMetadata("orders", topic_id, partitions={0: entry})
    return ClusterMetadata({1: Node(1, "one", 9092)}, "id", 1, {"orders": topic})


def test_an_older_leader_epoch_is_ignored_unless_the_topic_is_new() -> None:
    known = snapshot(5)
    assert known.merged(snapshot(4)).topics["orders"].partitions[0].leader_epoch == 5
    assert known.merged(snapshot(6)).topics["orders"].partitions[0].leader_epoch == 6
    assert known.merged(snapshot(0, b"\x02" * 16)).topics["orders"].partitions[0].leader_epoch == 0


def test_what_is_wanted_during_an_attempt_is_asked_for_without_a_backoff() -> None:
    cache = MetadataCache(ClientConfig())
    cache.begin(0.0)
    cache.want("orders", 0.0)
    cache.succeeded(ClusterMetadata(), 1.0)
    assert cache.next_refresh() <= 1.0
    cache.begin(1.0)
    cache.follow_all(True)
    cache.succeeded(ClusterMetadata(), 2.0)
    assert cache.next_refresh() <= 2.0
    assert not cache.is_complete
    cache.begin(2.0)
    cache.succeeded(ClusterMetadata(), 3.0)
    assert cache.is_complete
    assert cache.next_refresh() > 3.0


def test_a_topic_wanted_during_an_attempt_starts_another_at_once() -> None:
    cache = MetadataCache(ClientConfig())
    cache.begin(10.0)
    assert cache.next_refresh() == float("inf")
    assert cache.want("orders", 10.0)
    cache.succeeded(snapshot(1), 10.5)
    assert cache.next_refresh() <= 10.5


def test_equal_answers_back_off_and_idle_topics_are_dropped() -> None:
    cache = MetadataCache(ClientConfig())
    cache.want("orders", 0.0)
    delays = []
    now = 0.0
    for _ in range(6):
        cache.request_update()
        cache.begin(now)
        cache.succeeded(snapshot(1), now)
        cache.request_update()
        delays.append(cache.next_refresh() - now)
        now += 10
    assert delays[1] >= 0.08
    assert 0.8 <= delays[-1] <= 1.2
    cache.begin(now + 400)
    assert cache.wanted == {}
