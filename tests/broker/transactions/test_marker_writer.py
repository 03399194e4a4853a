"""MarkerWriter: the outcome of markers in partitions, one by one and together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import trio

from kcli.broker.coordinator.runtime.shard_host import CoordinatorResponse
from kcli.broker.process.fault_operations import perform
from kcli.broker.transactions.marker_writer import (
    TURN_PARTITIONS,
    DelayedMarkers,
    MarkerWriter,
    PartitionMarker,
)
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kcli.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kcli.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kcli.protocol.records.control_records import TransactionMarker
from kcli.protocol.topics import TopicPartition
from kcli.storage.log.log_read import Isolation
from tests.broker.replication.clusters import create, leader_of
from tests.broker.replication.clusters import node as broker_of
from tests.broker.schedules.simulated_cluster import simulated_cluster
from tests.broker.single_node import Node, connected, running_node
from tests.broker.transactions.markers import (
    PRODUCER,
    begin,
    errors,
    rows,
    writable_marker,
    written_markers,
)
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from kcli.broker.process.cluster import Cluster
    from kcli.protocol.messages.write_txn_markers import WritableTxnMarker

EVENTS: dict[str, tuple[dict[str, int], int]] = {
    "the same epoch, as kafka-transactions.sh aborts": ({"producer_epoch": 3}, 0),
    "a higher epoch of the producer": ({"producer_epoch": 4}, 0),
    "a lower epoch of the producer": ({"producer_epoch": 2}, ErrorCode.INVALID_PRODUCER_EPOCH),
    "transaction version 2 and the same epoch": (
        {"producer_epoch": 3, "transaction_version": 2}, ErrorCode.INVALID_PRODUCER_EPOCH
    ),
    "transaction version 2 and a higher epoch": ({"producer_epoch": 4, "transaction_version": 2}, 0),
    "a newer coordinator": ({"producer_epoch": 3, "coordinator_epoch": 6}, 0),
    "an older coordinator": (
        {"producer_epoch": 3, "coordinator_epoch": 4}, ErrorCode.TRANSACTION_COORDINATOR_FENCED
    ),
    "another producer": ({"producer_id": 99}, 0),
}  # fmt: skip
"""For a transaction of epoch 3 whose producer has a marker of coordinator epoch 5: a marker, its error."""


def write(node: Node, *markers: WritableTxnMarker) -> WriteTxnMarkersResponse:
    """Write markers that are settled at once."""
    response = node.marker_writer.write(markers)
    assert isinstance(response, WriteTxnMarkersResponse)
    return response


@pytest.mark.parametrize("what", EVENTS)
def test_a_marker_ends_a_transaction_or_has_its_error(what: str, node: Node) -> None:
    node.create_topic("t")
    partition = node.replica_manager.partition("t", 0)
    begin(partition, producer_epoch=2)
    assert errors(write(node, writable_marker(("t", 0), producer_epoch=2, coordinator_epoch=5))) == [0]
    begin(partition, producer_epoch=3)
    start = partition.log.last_stable_offset
    fields, error = EVENTS[what]
    given: dict[str, Any] = {"coordinator_epoch": 5, **fields}
    assert errors(write(node, writable_marker(("t", 0), is_commit=False, **given))) == [error]
    ended = error == 0 and "producer_id" not in fields
    assert partition.log.last_stable_offset == (partition.log.log_end_offset if ended else start)
    assert len(written_markers(partition)) == (1 if error else 2)


def test_partitions_that_are_not_here_have_errors_of_their_own(node: Node) -> None:
    node.create_topic("t", 2)
    node.create_topic("offline")
    log_directory = node.log_manager.directories.online[0]
    begin(node.replica_manager.partition("t", 0))
    marker = writable_marker(("t", 0), ("t", 2), ("none", 0))
    assert errors(write(node, marker)) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 3]
    node.replica_manager.directory_failed(log_directory.path)
    assert errors(write(node, marker)) == [3, 3, 3]


def test_an_empty_list_is_answered_at_once(node: Node) -> None:
    assert write(node) == WriteTxnMarkersResponse(markers=[])
    assert write(node, writable_marker()).markers[0].topics == []


def test_rows_are_merged_by_producer(node: Node) -> None:
    node.create_topic("t", 3)
    partitions = [node.replica_manager.partition("t", index) for index in range(3)]
    for producer in (PRODUCER, 8):
        begin(partitions[0], producer_id=producer)
    response = write(
        node,
        writable_marker(("t", 0), ("t", 0), ("none", 0)),
        writable_marker(("t", 1), producer_id=8, is_commit=False, coordinator_epoch=3),
        writable_marker(("t", 2), ("t", 9)),
    )
    assert rows(response) == {
        (PRODUCER, TopicPartition("t", 0)): 0,
        (PRODUCER, TopicPartition("none", 0)): 3,
        (PRODUCER, TopicPartition("t", 2)): 0,
        (PRODUCER, TopicPartition("t", 9)): 3,
        (8, TopicPartition("t", 1)): 0,
    }
    assert [marker.producer_id for marker in response.markers] == [PRODUCER, 8]
    assert [written_markers(each) for each in partitions] == [
        [(PRODUCER, 0, True, 0)],
        [(8, 0, False, 3)],
        [(PRODUCER, 0, True, 0)],
    ]


@pytest.mark.parametrize("version", [0, 2])
def test_a_second_marker_is_written_and_ends_nothing(version: int, node: Node) -> None:
    node.create_topic("t")
    partition = node.replica_manager.partition("t", 0)
    begin(partition)
    end = writable_marker(("t", 0), producer_epoch=version // 2, is_commit=False, transaction_version=version)
    assert errors(write(node, end)) == errors(write(node, end)) == [0]
    assert len(written_markers(partition)) == 2
    assert partition.log.last_stable_offset == partition.log.log_end_offset == 3
    found = partition.log.read(0, 1000, isolation=Isolation.TXN_COMMITTED)
    assert [(each.producer_id, each.first_offset) for each in found.aborted or ()] == [(PRODUCER, 0)]


async def test_frames_of_every_version_end_a_transaction(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        partition = node.replica_manager.partition("t", 0)
        for version in range(3):
            begin(partition, producer_epoch=version)
            assert partition.log.last_stable_offset < partition.log.log_end_offset
            marker = writable_marker(("t", 0), producer_epoch=version, is_commit=False)
            response = await client.ask(WriteTxnMarkersRequest(markers=[marker]), version)
            assert rows(response) == {(PRODUCER, TopicPartition("t", 0)): 0}
            assert partition.log.last_stable_offset == partition.log.log_end_offset


@pytest.mark.parametrize("fields", [{"producer_id": -1}, {"producer_epoch": -1}])
async def test_a_marker_without_a_producer_is_not_written(fields: dict[str, Any], tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        markers = [writable_marker(("t", 0), producer_id=8), writable_marker(("t", 0), **fields)]
        response = await client.ask(WriteTxnMarkersRequest(markers=markers), 2)
        assert errors(response) == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
        assert node.replica_manager.partition("t", 0).log.log_end_offset == 0


async def test_a_marker_without_a_transaction_version_is_not_written(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        markers = [writable_marker(("t", 0), ("t", 9), producer_id=8, transaction_version=-1)]
        response = await client.ask(WriteTxnMarkersRequest(markers=markers), 2)
        assert errors(response) == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert node.replica_manager.partition("t", 0).log.log_end_offset == 0


async def test_a_marker_of_nobody_is_written_and_ends_nothing(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        markers = [writable_marker(("t", 0), producer_id=-7)]
        response = await client.ask(WriteTxnMarkersRequest(markers=markers), 2)
        log = node.replica_manager.partition("t", 0).log
        assert errors(response) == [ErrorCode.NONE]
        assert (log.log_end_offset, log.active_producers()) == (1, [])


async def test_a_marker_waits_for_the_disk_where_that_is_demanded(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t", flush_messages="1")
        partition = node.replica_manager.partition("t", 0)
        begin(partition)
        request = WriteTxnMarkersRequest(markers=[writable_marker(("t", 0))])
        assert errors(await client.ask(request, 2)) == [0]
        assert partition.log.synced_offset == 2


async def test_a_marker_follows_the_records_that_a_thread_writes(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        node.create_topic("t")
        partition = node.replica_manager.partition("t", 0)
        begin(partition)
        written = partition.writing = trio.Event()
        response = node.marker_writer.write([writable_marker(("t", 0))])
        assert isinstance(response, DelayedMarkers)
        await trio.testing.wait_all_tasks_blocked()
        assert not response.ended
        assert written_markers(partition) == []
        partition.writing = None
        written.set()
        await node.purgatory.wait(response)
        assert errors(response.finish()) == [0]
        assert written_markers(partition) == [(PRODUCER, 0, True, 0)]


async def test_a_marker_that_cannot_follow_them_has_its_error(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        node.create_topic("t", 2)
        partition = node.replica_manager.partition("t", 0)
        begin(partition, producer_epoch=3)
        written = partition.writing = trio.Event()
        response = node.marker_writer.write([writable_marker(("t", 0), ("t", 1), producer_epoch=2)])
        assert isinstance(response, DelayedMarkers)
        partition.writing = None
        written.set()
        await node.purgatory.wait(response)
        assert errors(response.finish()) == [ErrorCode.INVALID_PRODUCER_EPOCH, 0]


OFFSETS = "__consumer_offsets"


class GroupsWithAnError:
    """Group coordinators that refuse every request, at once or later."""

    def __init__(self, code: ErrorCode, *, at_once: bool) -> None:
        self.code = code
        self.at_once = at_once
        self.reply = CoordinatorResponse(None)

    def ask(self, index: int, event: object) -> Any:
        if self.at_once:
            raise KafkaError(self.code)
        return self.reply


COORDINATOR_ERRORS = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.INVALID_PRODUCER_EPOCH: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    ErrorCode.NONE: ErrorCode.NONE,
}


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("code", COORDINATOR_ERRORS, ids=lambda code: code.name)
async def test_errors_of_group_coordinators_are_those_of_partitions(
    code: ErrorCode, at_once: bool, tmp_path: Path
) -> None:
    async with running_node(tmp_path) as node:
        node.create_topic(OFFSETS)
        node.create_topic("t")
        groups = GroupsWithAnError(code, at_once=at_once)
        writer = MarkerWriter(node.replica_manager, groups, start_soon=node.start_soon)  # type: ignore[arg-type]
        response = writer.write([writable_marker((OFFSETS, 0), ("t", 0), (OFFSETS, 1))])
        if not at_once:
            assert isinstance(response, DelayedMarkers)
            assert not response.ended
            groups.reply.give(code)
            await node.purgatory.wait(response)
            response = response.finish()
        assert isinstance(response, WriteTxnMarkersResponse)
        assert errors(response) == [COORDINATOR_ERRORS[code], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]


async def test_a_group_coordinator_that_never_replies_has_timed_out(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running_node(tmp_path, {"request.timeout.ms": "3000"}) as node:
        node.create_topic(OFFSETS)
        groups = GroupsWithAnError(ErrorCode.NONE, at_once=False)
        writer = MarkerWriter(node.replica_manager, groups, start_soon=node.start_soon)  # type: ignore[arg-type]
        assert errors(await writer.written([writable_marker((OFFSETS, 0))])) == [ErrorCode.REQUEST_TIMED_OUT]
        groups.reply.give(ErrorCode.NONE)


class CountedReplicas:
    """The replica manager of partitions that others have yet to copy; counts how often each is looked at."""

    def __init__(self) -> None:
        self.replicated: set[tuple[str, int]] = set()
        self.looks = 0

    def partition(self, topic: str, index: int) -> Any:
        self.looks += 1
        code = ErrorCode.NONE if (topic, index) in self.replicated else None
        return SimpleNamespace(replication_error=lambda required_offset: code)


def test_a_partition_that_changes_is_the_only_one_that_is_tried() -> None:
    replicas = CountedReplicas()
    response = WriteTxnMarkersResponse(markers=[])
    delayed = DelayedMarkers(replicas, response)  # type: ignore[arg-type]
    marker = TransactionMarker(PRODUCER, 0, 0, True)
    parts = [
        PartitionMarker(
            TopicPartition("t", index), marker, WritableTxnMarkerPartitionResult(partition_index=index)
        )
        for index in range(100)
    ]
    for part in parts:
        part.required_offset = 1
        delayed.await_write(part)
    assert not delayed.settle()
    for number, part in enumerate(parts, start=1):
        replicas.replicated.add(part.key)
        assert delayed.try_complete(part.key) == (number == 100)
    assert {part.row.error_code for part in parts} == {ErrorCode.NONE}
    assert replicas.looks == 200


async def test_other_requests_run_between_very_many_markers(tmp_path: Path) -> None:
    """Also where the group coordinator has replied before the last marker is written."""
    count = 2 * TURN_PARTITIONS + 1
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic(OFFSETS)
        node.create_topic("t", count)
        groups = GroupsWithAnError(ErrorCode.NONE, at_once=False)
        node.marker_writer = MarkerWriter(node.replica_manager, groups, start_soon=node.start_soon)  # type: ignore[arg-type]
        partitions = [node.replica_manager.partition("t", index) for index in range(count)]
        for partition in partitions:
            begin(partition)
        written = []

        async def reply() -> None:
            while not (ended := [each for each in partitions if written_markers(each)]):
                await trio.lowlevel.checkpoint()
            written.append(len(ended))
            groups.reply.give(ErrorCode.NONE)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(reply)
            request = WriteTxnMarkersRequest(
                markers=[
                    writable_marker(
                        (OFFSETS, 0), *((each.key.topic, each.key.partition) for each in partitions)
                    )
                ]
            )
            response = await client.ask(request, 2)
        assert set(errors(response)) == {0}
        assert 0 < written[0] <= 2 * TURN_PARTITIONS
        assert all(each.log.last_stable_offset == 2 for each in partitions)


@pytest.mark.parametrize("is_commit", [True, False])
async def test_offsets_of_a_transaction_count_with_its_commit(is_commit: bool, tmp_path: Path) -> None:
    async with running_node(tmp_path, {"offsets.topic.num.partitions": "1"}) as node:
        node.create_topic("t")
        node.create_topic(OFFSETS)
        commit = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id="g",
            producer_id=PRODUCER,
            producer_epoch=0,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=0, committed_offset=5, committed_metadata=None
                        )
                    ],
                )
            ],
        )
        node.groups.ask(0, lambda shard, now, token: shard.txn_offset_commit(now, token, commit, None))
        partition = node.replica_manager.partition(OFFSETS, 0)
        assert partition.log.last_stable_offset == 0
        response = node.marker_writer.write([writable_marker((OFFSETS, 0), is_commit=is_commit)])
        assert isinstance(response, WriteTxnMarkersResponse)
        assert errors(response) == [0]
        assert written_markers(partition) == [(PRODUCER, 0, is_commit, 0)]
        assert partition.log.last_stable_offset == partition.log.log_end_offset
        wanted = OffsetFetchRequestGroup(
            group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        )
        (topic,) = node.groups.shard(0).offset_fetch(wanted, require_stable=True).topics
        assert [each.committed_offset for each in topic.partitions] == [5 if is_commit else -1]


async def markers_on(cluster: Cluster, node_id: int, marker: WritableTxnMarker) -> list[int]:
    """Let a node write a marker; return the errors of its rows."""
    return errors(await broker_of(cluster, node_id).marker_writer.written([marker]))


async def test_replicas_settle_a_marker(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    properties = {"request.timeout.ms": "4000", "replica.lag.time.max.ms": "60000"}
    async with simulated_cluster(tmp_path, nodes=3, properties=properties, kill=lambda: False) as simulated:
        cluster = simulated.cluster
        create(cluster, "t", on=(1, 2, 3), min_insync_replicas="2")
        partition = leader_of(cluster)
        begin(partition)
        assert await markers_on(cluster, 1, writable_marker(("t", 0))) == [0]
        assert partition.log.last_stable_offset == 2
        assert await markers_on(cluster, 2, writable_marker(("t", 0))) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]

        # The marker stays, but no follower has it.
        begin(partition, sequence=1)
        for node_id in (2, 3):
            cluster.faults.add("freeze", node=node_id)
        started = trio.current_time()
        late = await markers_on(cluster, 1, writable_marker(("t", 0), is_commit=False))
        assert late == [ErrorCode.REQUEST_TIMED_OUT]
        assert trio.current_time() - started == pytest.approx(4)
        assert len(written_markers(partition)) == 2
        assert partition.log.last_stable_offset == 2
        cluster.faults.clear_all()
        await until(lambda: partition.log.last_stable_offset == 4)


async def test_too_few_replicas_take_no_marker(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with simulated_cluster(tmp_path, nodes=2, properties={}, kill=lambda: False) as simulated:
        cluster = simulated.cluster
        create(cluster, "t", replicas=2, on=(1, 2), min_insync_replicas="2")
        partition = leader_of(cluster)
        begin(partition)
        await perform(cluster, "kill", {"node": 2})
        await until(lambda: partition.isr == {1})
        assert await markers_on(cluster, 1, writable_marker(("t", 0))) == [ErrorCode.NOT_ENOUGH_REPLICAS]
        assert written_markers(partition) == []
