"""Faults of requests as clients meet them, over real sockets."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio
import trio.lowlevel

from kcli.broker.faults.fault_engine import _held_back
from kcli.broker.faults.faults import Faults
from kcli.broker.network.responses import AwaitedResponse, ParkedResponse
from kcli.broker.waiting.purgatory import DelayedOperation
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData, OpData
from kcli.protocol.messages.alter_client_quotas import EntityData as AlteredEntity
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.messages.heartbeat import HeartbeatRequest
from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kcli.protocol.uuids import ZERO_UUID
from tests.broker.records import batch, produce_request
from tests.broker.single_node import Client
from tests.support.running_cluster import running_cluster
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kcli.broker.process.cluster import Cluster
    from kcli.protocol.messages.produce import ProduceRequest


class Bench:
    """A running node with faults, and clients of it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.faults = Faults(cluster)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        port = self.cluster.brokers[0].endpoints[0].port
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            yield Client(stream)

    def log_end(self, topic: str) -> int:
        return self.cluster.brokers[0].replica_manager.partition(topic, 0).log.log_end_offset


@asynccontextmanager
async def bench(directory: Path, **settings: str) -> AsyncIterator[Bench]:
    async with running_cluster(directory, **settings) as cluster:
        made = Bench(cluster)
        async with made.client() as client:
            topics = [new_topic(name) for name in ("t", "u")]
            await client.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
        yield made


def new_topic(name: str) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])


def produce(topic: str = "t", *, acks: int = -1) -> ProduceRequest:
    return produce_request(topic, batch(b"value"), acks=acks)


def produced(response: Any) -> int:
    return int(response.responses[0].partition_responses[0].error_code)


def fetch(*, session_id: int = 0, session_epoch: int = -1, full: bool = True) -> FetchRequest:
    row = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topics = [FetchTopic(topic="t", partitions=[row])] if full else []
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, session_id=session_id, session_epoch=session_epoch, topics=topics
    )


def offsets(topic: str = "t") -> ListOffsetsRequest:
    row = ListOffsetsPartition(partition_index=0, timestamp=-1)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[row])])


async def test_the_next_requests_are_answered_with_an_error_and_the_one_behind_them_is_not(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as it, it.client() as client:
        it.faults.add("error", api="produce", code="NOT_LEADER_OR_FOLLOWER", next=2)
        codes = [produced(await client.ask(produce(), 8)) for _ in range(3)]
        assert codes == [6, 6, 0]
        assert it.log_end("t") == 1
        assert it.faults.active == []


async def test_an_error_after_the_request_was_done(tmp_path: Path) -> None:
    async with bench(tmp_path) as it, it.client() as client:
        it.faults.add("error", api="Produce", code=7, after=True, next=1)
        assert produced(await client.ask(produce(), 8)) == ErrorCode.REQUEST_TIMED_OUT
        assert it.log_end("t") == 1


@pytest.mark.parametrize(("after", "log_end"), [(False, 0), (True, 1)])
async def test_a_closed_connection_instead_of_an_answer(tmp_path: Path, after: bool, log_end: int) -> None:
    async with bench(tmp_path) as it, it.client() as client:
        it.faults.add("disconnect", api="Produce", after=after, next=1)
        await client.send(produce(), 8)
        assert await client.is_closed()
        assert it.log_end("t") == log_end


@pytest.mark.parametrize(("after", "log_end"), [(False, 0), (True, 1)])
async def test_an_answer_that_never_comes(tmp_path: Path, after: bool, log_end: int) -> None:
    async with bench(tmp_path) as it, it.client() as client:
        it.faults.add("drop", api="Produce", after=after, next=1)
        await client.send(produce(), 8)
        await client.send(offsets(), 1)  # Behind it, on the same connection, nothing is answered either.
        async with it.client() as other:
            assert (await other.ask(offsets(), 1)).topics[0].partitions[0].error_code == 0
        with trio.move_on_after(0.05) as waiting:
            await client.receive_frame()
        assert waiting.cancelled_caught
        assert it.log_end("t") == log_end


@pytest.mark.parametrize("after", [False, True])
async def test_an_answer_that_comes_late(tmp_path: Path, after: bool) -> None:
    async with bench(tmp_path) as it, it.client() as client:
        it.faults.add("delay", delay_ms=60, after=after, next=1)
        started = trio.current_time()
        assert produced(await client.ask(produce(), 8)) == 0
        assert trio.current_time() - started >= 0.06
        assert it.log_end("t") == 1


@pytest.mark.parametrize("after", [False, True])
async def test_who_reads_too_much_has_to_pause_although_the_answer_comes_late(
    tmp_path: Path, after: bool
) -> None:
    # What 200 seconds allow is there in advance: more than one answer and less than two.
    async with bench(tmp_path, quota_window_size_seconds="20") as it, it.client() as client:
        await client.ask(produce(), 8)
        part = AlteredEntity(entity_type="client-id", entity_name="test")
        operation = OpData(key="consumer_byte_rate", value=1.0, remove=False)
        entry = EntryData(entity=[part], ops=[operation])
        altered = await client.ask(AlterClientQuotasRequest(entries=[entry], validate_only=False), 1)
        assert [each.error_code for each in altered.entries] == [0]
        it.faults.add("delay", api="Fetch", delay_ms=1, after=after)
        with trio.fail_after(PATIENCE_SECONDS):
            first, second = [await client.ask(fetch(), 11) for _ in range(2)]
        assert (first.throttle_time_ms, len(first.responses)) == (0, 1)
        assert (second.throttle_time_ms > 0, second.responses) == (True, [])


async def test_only_requests_that_match_suffer(tmp_path: Path) -> None:
    async with bench(tmp_path) as it, it.client() as client:
        it.faults.add(
            "error", api="Produce", topic="u*", client_id="app-?", code="KAFKA_STORAGE_ERROR", node=1
        )
        assert produced(await client.ask(produce("u"), 8, "app-1")) == ErrorCode.KAFKA_STORAGE_ERROR
        assert produced(await client.ask(produce("t"), 8, "app-1")) == 0
        assert produced(await client.ask(produce("u"), 8, "app-10")) == 0
        assert (await client.ask(offsets("u"), 1, "app-1")).topics[0].partitions[0].error_code == 0
        (active,) = it.faults.active
        assert active.hits == 1
        it.faults.clear(active.number)
        assert produced(await client.ask(produce("u"), 8, "app-1")) == 0


async def test_the_same_seed_strikes_the_same_requests(tmp_path: Path) -> None:
    async with bench(tmp_path) as it, it.client() as client:
        runs = []
        for seed in (1, 1, 2):
            faults = Faults(it.cluster, seed=seed)
            faults.add("error", api="Produce", code=7, probability=0.5)
            runs.append([produced(await client.ask(produce(), 8)) for _ in range(20)])
            faults.clear_all()
        assert runs[0] == runs[1] != runs[2]
        assert set(runs[0]) == {0, 7}


@pytest.mark.parametrize("version", [0, 4, 8, 12])
async def test_metadata_with_an_error_still_names_the_brokers(tmp_path: Path, version: int) -> None:
    async with bench(tmp_path) as it, it.client() as client:
        it.faults.add("error", api="Metadata", topic="t", code="LEADER_NOT_AVAILABLE")
        names = [MetadataRequestTopic(name=name, topic_id=ZERO_UUID) for name in ("t", "u")]
        answer = await client.ask(MetadataRequest(topics=names), version)
        assert [broker.node_id for broker in answer.brokers] == [1]
        assert {topic.name: (topic.error_code, len(topic.partitions)) for topic in answer.topics} == {
            "t": (5, 0),
            "u": (0, 1),
        }


async def test_a_fetch_is_answered_for_partitions_that_its_session_does_not_repeat(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as it, it.client() as client:
        session_id = (await client.ask(fetch(session_epoch=0), 11)).session_id
        it.faults.add("error", api="Fetch", topic="t", code="NOT_LEADER_OR_FOLLOWER", next=1)
        answer = await client.ask(fetch(session_id=session_id, session_epoch=1, full=False), 11)
        assert answer.error_code == 0
        assert [(topic.topic, topic.partitions[0].error_code) for topic in answer.responses] == [("t", 6)]


@pytest.mark.parametrize(
    ("request_", "version", "code"),
    [
        (ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3, "REQUEST_TIMED_OUT"),
        (HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4, "COORDINATOR_LOAD_IN_PROGRESS"),
        (fetch(), 7, "FETCH_SESSION_ID_NOT_FOUND"),
    ],
)
async def test_an_error_of_the_whole_answer(
    tmp_path: Path, request_: object, version: int, code: str
) -> None:
    async with bench(tmp_path) as it, it.client() as client:
        it.faults.add("error", code=code)
        assert (await client.ask(request_, version)).error_code == ErrorCode[code]


async def test_without_acknowledgements_an_error_closes_the_connection(tmp_path: Path) -> None:
    async with bench(tmp_path) as it, it.client() as client:
        it.faults.add("error", api="Produce", code="NOT_LEADER_OR_FOLLOWER")
        await client.send(produce(acks=0), 8)
        assert await client.is_closed()


async def test_a_client_that_gives_up_on_an_answer_leaves_nothing_behind(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        it.faults.add("drop")
        (server,) = [it.cluster.brokers[0]._server]
        async with it.client() as client:
            await client.send(offsets(), 1)
            while not any(connection.is_parked for connection in server.connections):
                await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        await server.sweep_once(trio.current_time())
        await server.sweep_once(trio.current_time())
        with trio.fail_after(30):
            while server.connections:
                await trio.lowlevel.checkpoint()


async def test_without_faults_connections_feed_the_engine_itself(tmp_path: Path) -> None:
    async with bench(tmp_path) as it, it.client() as client:
        broker = it.cluster.brokers[0]
        await client.ask(offsets(), 1)
        number = it.faults.add("drop", topic="nothing").number
        engines = {connection._engine for connection in broker._server.connections}
        assert broker.engine not in engines
        it.faults.clear(number)
        assert {connection._engine for connection in broker._server.connections} == {broker.engine}


async def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        with pytest.raises(KcliError, match="there is no node 7"):
            it.faults.add("drop", node=7)
        with pytest.raises(KcliError, match="there is no fault 1"):
            it.faults.clear(1)
        assert it.faults.clear_all() == 0


async def test_a_node_whose_disk_is_full_takes_no_records(tmp_path: Path) -> None:
    # Else it could be lost with its next checkpoint before it is asked to take any.
    late = {"replica_high_watermark_checkpoint_interval_ms": "3600000"}
    async with running_cluster(tmp_path, nodes=2, **late) as cluster:
        second = cluster.brokers[1]
        faults = Faults(cluster)
        async with await trio.open_tcp_stream("127.0.0.1", second.endpoints[0].port) as stream:
            client = Client(stream)
            topic = new_topic("t")
            topic.num_partitions = topic.replication_factor = -1
            topic.assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[2])]
            await client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
            faults.add("fill-disk", node=2)
            try:
                assert produced(await client.ask(produce(), 8)) == ErrorCode.KAFKA_STORAGE_ERROR
            finally:
                faults.clear_all()
        with trio.fail_after(30):
            while not cluster.failed.pop(2, None):
                await trio.lowlevel.checkpoint()


async def test_an_error_after_a_parked_response_holds_the_connection_back() -> None:
    parked = ParkedResponse(DelayedOperation(), lambda: (b"served",))
    held = _held_back(parked, cast("Any", None), lambda _: (b"refused",))
    assert isinstance(held, AwaitedResponse)
    assert _held_back((b"served",), cast("Any", None), lambda _: (b"refused",)) == (b"refused",)
