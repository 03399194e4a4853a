"""Transactional batches and markers that a shard writes into its own partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio
import trio.testing

from kcli.broker.controller.replication_control import TopicDefaults
from kcli.broker.coordinator.effects import Append, BatchProducer, Effect, Marker, Reply
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.records.control_records import TransactionMarker
from tests.broker.coordinator.runtime.notebook import (
    OTHER_NODE,
    NotebookNode,
    answer_of,
    batches,
    notebook_node,
    record,
    shard,
)

if TYPE_CHECKING:
    from pathlib import Path

    from kcli.broker.coordinator.effects import CoordinatorRecord, Now
    from kcli.protocol.error_codes import KafkaError

Clock = trio.testing.MockClock


def write(node: NotebookNode, producer_id: int, *records: CoordinatorRecord) -> None:
    node.do(Append(records, producer=BatchProducer(producer_id, 0)))


def end(node: NotebookNode, marker: TransactionMarker) -> Any:
    """Write a marker; return the result of the write, or what waits for it."""

    def event(shard: Any, now: Now, token: Any) -> list[Effect]:
        def then(now: Now, error: KafkaError | None) -> list[Effect]:
            return [Reply(token, ErrorCode.NONE if error is None else error.code)]

        return [Marker(marker, then)]

    return node.runtime.ask(0, event)


async def test_the_records_of_a_transaction_are_one_batch_of_its_producer(
    autojump_clock: Clock, tmp_path: Path
) -> None:
    async with notebook_node(tmp_path) as node:
        node.create()
        node.put(record("a", 1))
        write(node, 7, record("a", 2), record("b", 3))
        assert (shard(node).numbers, shard(node).open) == ({"a": 1}, {7: {"a": (2, 1), "b": (3, 2)}})
        assert end(node, TransactionMarker(7, 0, 5, is_commit=True)) == ErrorCode.NONE
        assert (shard(node).numbers, shard(node).open) == ({"a": 2, "b": 3}, {})
        _, data, marker = batches(node)
        assert (data.producer_id, data.producer_epoch, data.base_sequence) == (7, 0, -1)
        assert (data.is_transactional, data.is_control, data.count) == (True, False, 2)
        assert (marker.producer_id, marker.is_control, marker.size_in_bytes) == (7, True, 78)


async def test_an_aborted_transaction_changes_nothing(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        node.create()
        write(node, 7, record("a", 2))
        assert end(node, TransactionMarker(7, 0, 5, is_commit=False)) == ErrorCode.NONE
        assert (shard(node).numbers, shard(node).open) == ({}, {})


async def test_a_refused_marker_ends_nothing(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        node.create()
        write(node, 7, record("a", 2))
        assert end(node, TransactionMarker(7, 0, 5, is_commit=True)) == ErrorCode.NONE
        write(node, 7, record("a", 3))
        old_coordinator = TransactionMarker(7, 0, 4, is_commit=True)
        assert end(node, old_coordinator) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert (shard(node).numbers, list(shard(node).open)) == ({"a": 2}, [7])


async def test_a_marker_is_answered_once_its_followers_have_it(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        node.create_replicated(TopicDefaults(1, 1, node.node.config.topic_defaults))
        write(node, 7, record("a", 2))
        answer = end(node, TransactionMarker(7, 0, 5, is_commit=True))
        node.partition.follower_fetched(OTHER_NODE, 1)
        assert not answer.ended
        node.partition.follower_fetched(OTHER_NODE, 2)
        assert await answer_of(node, answer) == ErrorCode.NONE


async def test_a_marker_is_refused_while_a_thread_writes(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        node.create()
        write(node, 7, record("a", 2))
        node.partition.writing = trio.Event()
        marker = TransactionMarker(7, 0, 5, is_commit=True)
        assert end(node, marker) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        node.partition.writing = None
        assert end(node, marker) == ErrorCode.NONE
        assert shard(node).numbers == {"a": 2}


async def test_a_transaction_outlives_a_change_of_the_leader(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        node.create()
        write(node, 7, record("a", 2))
        node.put(record("a", 1))
        write(node, 8, record("b", 3))
        controller = node.node.controller
        controller.fence_broker(node_id=node.node.node_id, epoch=node.node.epoch)
        controller.unfence_broker(node_id=node.node.node_id, epoch=node.node.epoch)
        await trio.testing.wait_all_tasks_blocked()
        assert (shard(node).numbers, set(shard(node).open)) == ({"a": 1}, {7, 8})
        for producer_id in (7, 8):
            marker = TransactionMarker(producer_id, 0, 5, is_commit=True)
            assert end(node, marker) == ErrorCode.NONE
        assert shard(node).numbers == {"a": 1, "b": 3}
