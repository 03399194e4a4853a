"""TxnOffsetCommit over a socket: which request is refused with what, and what the others change."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

from kcli.broker.waiting.purgatory import DelayedOperation
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.records.batch import iter_batches
from kcli.protocol.records.control_records import TransactionMarker
from kcli.storage.log.log_read import Isolation
from tests.broker.handlers import group_requests as ask
from tests.broker.handlers.group_node import OFFSETS, PARTITIONS, TOPIC, group_node, joined, stable
from tests.broker.handlers.group_requests import GROUP

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from kcli.protocol.topics import TopicPartition
    from tests.broker.single_node import Client, Node

VERSIONS = range(6)
T0, T1 = (TOPIC, 0), (TOPIC, 1)


class Answer(DelayedOperation):
    """The answer of a transaction coordinator."""

    __slots__ = ("errors",)

    def finish(self) -> dict[TopicPartition, ErrorCode]:
        return self.errors


class Coordinator:
    """In place of a node's `TransactionVerifier`: gives every question the same answer, at once or later."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.error = ErrorCode.NONE
        self.is_slow = False
        self.asked: list[tuple[Any, ...]] = []
        self.waiting: list[Answer] = []

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
    ) -> Answer:
        self.asked.append((transactional_id, producer_id, producer_epoch, *map(str, partitions), adds))
        answer = Answer()
        answer.purgatory = self.node.purgatory
        answer.errors = dict.fromkeys(partitions, self.error)
        if self.is_slow:
            self.waiting.append(answer)
        else:
            answer.ended = True
        return answer

    def answer(self) -> None:
        for each in self.waiting:
            self.node.purgatory.end(each)


@asynccontextmanager
async def txn_node(directory: Path, **properties: str) -> AsyncIterator[tuple[Node, Client, Coordinator]]:
    properties = {"offsets_topic_num_partitions": "1"} | properties
    async with group_node(directory, **properties) as (node, client):
        node.log_manager.set_transaction_verification(
            verifies=node.config.transaction_partition_verification_enable
        )
        coordinator = Coordinator(node)
        node.verifier = coordinator  # type: ignore[attr-defined]
        yield node, client, coordinator


def end(node: Node, *, commit: bool = True, producer_id: int = 7, epoch: int = 0) -> ErrorCode:
    """End a transaction in the partition of the group."""
    marker = TransactionMarker(producer_id, epoch, 0, is_commit=commit)
    code: ErrorCode = node.groups.ask_for(
        GROUP, lambda shard, now, token: shard.end_transaction(now, token, marker)
    )
    return code


def log_end(node: Node) -> int:
    """The end of the log of the group's partition."""
    partition = node.replica_manager.partition(OFFSETS, node.groups.partition_for(GROUP))
    return int(partition.log.log_end_offset)


async def offsets(client: Client, version: int = 7, *, stable_ones: bool = True) -> dict[Any, Any]:
    """Fetch the offsets of all partitions of the topic with their errors."""
    asked = {TOPIC: list(range(PARTITIONS))}
    if version < 8:
        request = ask.fetch_one(asked, require_stable=stable_ones and version >= 7)
        return ask.fetched((await client.ask(request, version)).topics)
    request = ask.fetch(**{GROUP: asked})
    request.require_stable = stable_ones
    (group,) = (await client.ask(request, version)).groups
    return ask.fetched(group.topics)


# --- what a commit changes -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
async def test_each_version_commits_in_a_transaction(version: int, tmp_path: Path) -> None:
    async with txn_node(tmp_path) as (node, client, coordinator):
        response = await client.ask(ask.txn_commit({T0: 5, T1: 6}), version)
        assert ask.committed(response) == {T0: 0, T1: 0}
        where = f"{OFFSETS}-{node.groups.partition_for(GROUP)}"
        assert coordinator.asked == [("tid", 7, 0, where, version >= 5)]
        unstable = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        assert await offsets(client) == {T0: unstable, T1: unstable, (TOPIC, 2): (-1, 0)}
        assert end(node) == ErrorCode.NONE
        assert await offsets(client) == {T0: (5, 0), T1: (6, 0), (TOPIC, 2): (-1, 0)}


async def test_an_aborted_transaction_leaves_the_old_offset(tmp_path: Path) -> None:
    async with txn_node(tmp_path) as (node, client, _):
        await client.ask(ask.commit({T0: 1}), 8)
        await client.ask(ask.txn_commit({T0: 5}), 3)
        assert (await offsets(client))[T0] == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        assert end(node, commit=False) == ErrorCode.NONE
        assert (await offsets(client))[T0] == (1, 0)


async def test_only_who_asks_for_stable_offsets_is_told_of_unstable_ones(tmp_path: Path) -> None:
    async with txn_node(tmp_path) as (node, client, _):
        await client.ask(ask.commit({T0: 1}), 8)
        await client.ask(ask.txn_commit({T0: 5, T1: 6}), 3)
        assert (await offsets(client, 6))[T0] == (1, 0)
        for version in (7, 8, 9):
            assert (await offsets(client, version, stable_ones=False))[T0] == (1, 0)
            assert (await offsets(client, version))[T0] == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        topic_id = node.image.topics[TOPIC].topic_id
        request = ask.fetch(**{GROUP: {topic_id: [0, 1]}})
        request.require_stable = True
        (group,) = (await client.ask(request, 10)).groups
        assert ask.fetched(group.topics) == {
            (topic_id, 0): (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT),
            (topic_id, 1): (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT),
        }
        # Who asks for all offsets hears only of those that are stored.
        request = ask.fetch(**{GROUP: None})
        request.require_stable = True
        (group,) = (await client.ask(request, 8)).groups
        assert ask.fetched(group.topics) == {T0: (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)}


async def test_the_batch_is_transactional(tmp_path: Path) -> None:
    async with txn_node(tmp_path) as (node, client, _):
        await client.ask(ask.txn_commit({T0: 5, T1: 6}), 3)
        end(node)
        partition = node.replica_manager.partition(OFFSETS, node.groups.partition_for(GROUP))
        read = partition.log.read(0, 1 << 20, isolation=Isolation.LOG_END)
        assert read.file_slice is not None
        data, marker = iter_batches(read.file_slice.read())
        assert (data.producer_id, data.producer_epoch, data.base_sequence) == (7, 0, -1)
        assert (data.is_transactional, data.is_control, data.count) == (True, False, 2)
        assert (marker.producer_id, marker.is_control) == (7, True)


async def test_a_member_commits_in_its_generation(tmp_path: Path) -> None:
    async with txn_node(tmp_path) as (_, client, _):
        member = await stable(client)
        request = ask.txn_commit({T0: 5}, member_id=member.id, generation_id=member.generation)
        assert ask.committed(await client.ask(request, 3)) == {T0: 0}


# --- what is verified ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "questions"), [(2, 1), (4, 1), (5, 1)])
async def test_only_the_first_commit_of_a_transaction_is_verified(
    version: int, questions: int, tmp_path: Path
) -> None:
    async with txn_node(tmp_path) as (node, client, coordinator):
        for offset in (5, 6):
            await client.ask(ask.txn_commit({T0: offset}), version)
        assert len(coordinator.asked) == questions
        end(node)
        await client.ask(ask.txn_commit({T0: 7}), version)
        assert len(coordinator.asked) == questions + 1


@pytest.mark.parametrize(("version", "questions"), [(3, 0), (4, 0), (5, 1)])
async def test_verification_can_be_switched_off_but_not_the_adding(
    version: int, questions: int, tmp_path: Path
) -> None:
    properties = {"transaction_partition_verification_enable": "false"}
    async with txn_node(tmp_path, **properties) as (_, client, coordinator):
        assert ask.committed(await client.ask(ask.txn_commit({T0: 5}), version)) == {T0: 0}
        assert len(coordinator.asked) == questions


async def test_the_answer_waits_for_a_slow_coordinator(tmp_path: Path) -> None:
    async with txn_node(tmp_path) as (node, client, coordinator):
        coordinator.is_slow = True
        expected = await client.send(ask.txn_commit({T0: 5}), 3)
        while not coordinator.waiting:
            await trio.lowlevel.checkpoint()
        assert log_end(node) == 0
        coordinator.answer()
        correlation_id, response = await client.receive(28, 3)
        assert (correlation_id, ask.committed(response)) == (expected, {T0: 0})


async def test_a_marker_during_the_verification_keeps_the_late_commit_out(tmp_path: Path) -> None:
    async with txn_node(tmp_path) as (node, client, coordinator):
        coordinator.is_slow = True
        await client.send(ask.txn_commit({T0: 5}), 3)
        while not coordinator.waiting:
            await trio.lowlevel.checkpoint()
        end(node, commit=False)
        coordinator.answer()
        _, response = await client.receive(28, 3)
        assert ask.committed(response) == {T0: ErrorCode.INVALID_TXN_STATE}
        assert (await offsets(client))[T0] == (-1, 0)


async def test_the_coordinator_may_be_gone_when_the_answer_comes(tmp_path: Path) -> None:
    async with txn_node(tmp_path) as (node, client, coordinator):
        coordinator.is_slow = True
        await client.send(ask.txn_commit({T0: 5, ("unknown", 0): 1}), 3)
        while not coordinator.waiting:
            await trio.lowlevel.checkpoint()
        node.controller.fence_broker(node_id=node.node_id, epoch=node.epoch)
        coordinator.answer()
        _, response = await client.receive(28, 3)
        assert ask.committed(response) == {
            T0: ErrorCode.NOT_COORDINATOR,
            ("unknown", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }


# --- refusals ------------------------------------------------------------------------------------------

E = ErrorCode
COORDINATOR_ERRORS: dict[tuple[ErrorCode, int], ErrorCode] = {
    (E.INVALID_PRODUCER_ID_MAPPING, 0): E.INVALID_PRODUCER_ID_MAPPING,
    (E.INVALID_PRODUCER_ID_MAPPING, 5): E.INVALID_PRODUCER_ID_MAPPING,
    (E.PRODUCER_FENCED, 0): E.INVALID_PRODUCER_EPOCH,
    (E.PRODUCER_FENCED, 5): E.INVALID_PRODUCER_EPOCH,
    (E.INVALID_PRODUCER_EPOCH, 3): E.INVALID_PRODUCER_EPOCH,
    (E.INVALID_TXN_STATE, 5): E.INVALID_TXN_STATE,
    (E.TRANSACTION_ABORTABLE, 0): E.INVALID_TXN_STATE,
    (E.TRANSACTION_ABORTABLE, 3): E.INVALID_TXN_STATE,
    (E.TRANSACTION_ABORTABLE, 4): E.TRANSACTION_ABORTABLE,
    (E.TRANSACTION_ABORTABLE, 5): E.TRANSACTION_ABORTABLE,
    (E.CONCURRENT_TRANSACTIONS, 3): E.CONCURRENT_TRANSACTIONS,
    (E.CONCURRENT_TRANSACTIONS, 5): E.CONCURRENT_TRANSACTIONS,
    (E.INVALID_REQUEST, 3): E.INVALID_REQUEST,
    (E.NETWORK_EXCEPTION, 1): E.COORDINATOR_NOT_AVAILABLE,
    (E.NETWORK_EXCEPTION, 2): E.COORDINATOR_LOAD_IN_PROGRESS,
    (E.NETWORK_EXCEPTION, 5): E.COORDINATOR_LOAD_IN_PROGRESS,
    (E.COORDINATOR_LOAD_IN_PROGRESS, 0): E.COORDINATOR_NOT_AVAILABLE,
    (E.COORDINATOR_LOAD_IN_PROGRESS, 1): E.COORDINATOR_NOT_AVAILABLE,
    (E.COORDINATOR_LOAD_IN_PROGRESS, 2): E.COORDINATOR_LOAD_IN_PROGRESS,
    (E.COORDINATOR_NOT_AVAILABLE, 3): E.COORDINATOR_NOT_AVAILABLE,
    (E.NOT_COORDINATOR, 3): E.NOT_COORDINATOR,
}


@pytest.mark.parametrize(
    ("said", "version", "told"),
    [(*case, told) for case, told in COORDINATOR_ERRORS.items()],
    ids=[f"{said.name}-v{version}" for said, version in COORDINATOR_ERRORS],
)
async def test_every_partition_is_told_what_the_coordinator_says(
    said: ErrorCode, version: int, told: ErrorCode, tmp_path: Path
) -> None:
    async with txn_node(tmp_path) as (node, client, coordinator):
        coordinator.error = said
        request = ask.txn_commit({T0: 5, T1: 6, (TOPIC, 9): 1, ("unknown", 0): 1})
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert ask.committed(await client.ask(request, version)) == {
            T0: told,
            T1: told,
            (TOPIC, 9): unknown,
            ("unknown", 0): unknown,
        }
        assert log_end(node) == 0


async def test_unknown_partitions_cost_only_themselves(tmp_path: Path) -> None:
    async with txn_node(tmp_path) as (node, client, coordinator):
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        request = ask.txn_commit({T0: 1, (TOPIC, PARTITIONS): 1, (TOPIC, -1): 1, ("unknown", 0): 1})
        assert ask.committed(await client.ask(request, 3)) == {
            T0: 0,
            (TOPIC, PARTITIONS): unknown,
            (TOPIC, -1): unknown,
            ("unknown", 0): unknown,
        }
        before = log_end(node)
        response = await client.ask(ask.txn_commit({("unknown", 0): 1}, group=""), 3)
        assert ask.committed(response) == {("unknown", 0): unknown}
        assert (await client.ask(ask.txn_commit({}), 3)).topics == []
        assert (len(coordinator.asked), log_end(node)) == (1, before)


REFUSALS: dict[str, tuple[dict[str, Any], ErrorCode]] = {
    "a group without a name": ({"group": ""}, E.INVALID_GROUP_ID),
    "a generation of no group": ({"group": "none", "generation_id": 1}, E.ILLEGAL_GENERATION),
    "an unknown member": ({"member_id": "x", "generation_id": 1}, E.UNKNOWN_MEMBER_ID),
    "a member without a generation": ({"member_id": "MEMBER"}, E.ILLEGAL_GENERATION),
    "another generation": ({"member_id": "MEMBER", "generation_id": 9}, E.ILLEGAL_GENERATION),
    "another instance": (
        {"member_id": "x", "generation_id": 1, "group_instance_id": "i"},
        E.FENCED_INSTANCE_ID,
    ),
    "too much metadata": ({"metadata": "x" * 5000}, E.OFFSET_METADATA_TOO_LARGE),
}


@pytest.mark.parametrize(("fields", "error"), REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("version", [3, 5])
async def test_a_refused_commit_writes_nothing(
    version: int, fields: dict[str, Any], error: ErrorCode, tmp_path: Path
) -> None:
    async with txn_node(tmp_path) as (node, client, _):
        member = await joined(client, group_instance_id="i", version=5)
        await member.sync()
        before = log_end(node)
        fields = {**fields, "member_id": member.id} if fields.get("member_id") == "MEMBER" else fields
        response = await client.ask(ask.txn_commit({T0: 5, T1: 6}, **fields), version)
        assert ask.committed(response) == {T0: error, T1: error}
        assert log_end(node) == before


async def test_an_old_epoch_is_fenced_by_the_partition(tmp_path: Path) -> None:
    async with txn_node(tmp_path) as (node, client, coordinator):
        await client.ask(ask.txn_commit({T0: 5}, producer_epoch=4), 3)
        before = log_end(node)
        response = await client.ask(ask.txn_commit({T0: 6}, producer_epoch=3), 3)
        assert ask.committed(response) == {T0: ErrorCode.INVALID_PRODUCER_EPOCH}
        assert (len(coordinator.asked), log_end(node)) == (1, before)


async def test_a_node_that_does_not_lead_the_group_refuses(tmp_path: Path) -> None:
    async with txn_node(tmp_path) as (node, client, coordinator):
        node.controller.fence_broker(node_id=node.node_id, epoch=node.epoch)
        response = await client.ask(ask.txn_commit({T0: 5}), 3)
        assert ask.committed(response) == {T0: ErrorCode.NOT_COORDINATOR}
        assert not coordinator.asked


async def test_a_full_batch_is_refused_whole(tmp_path: Path) -> None:
    async with txn_node(tmp_path, message_max_bytes="500") as (node, client, _):
        response = await client.ask(ask.txn_commit({T0: 5, T1: 6}, metadata="x" * 400), 3)
        assert ask.committed(response) == dict.fromkeys([T0, T1], ErrorCode.UNKNOWN_SERVER_ERROR)
        assert log_end(node) == 0
