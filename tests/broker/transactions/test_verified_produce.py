"""Transactional batches on a node with its coordinator: each wrong one gets its code and leaves no record."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from kcli.protocol.records.batch_header import update_crc
from tests.broker.single_node import Node, running_node
from tests.broker.transactions.transactional_client import TransactionalClient, transactional_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kcli.storage.log.unified_log import UnifiedLog


@asynccontextmanager
async def producing(directory: Path, *, version: int = 1) -> AsyncIterator[tuple[Node, TransactionalClient]]:
    async with running_node(directory) as node:
        node.create_topic("t", partitions=2)
        async with transactional_client(node, version=version) as producer:
            yield node, producer


def log_of(node: Node, index: int = 0) -> UnifiedLog:
    return node.replica_manager.partition("t", index).log


class HeldMarkers:
    """The fault `hold-markers` for every topic, until `release`."""

    def __init__(self, node: Node) -> None:
        self._node = node
        node.marker_sender.use_faults(self)

    def holds(self, topic: str, *, is_new: bool = True) -> bool:
        return True

    def swallows(self, topic: str) -> bool:
        return False

    def release(self) -> None:
        self._node.marker_sender.use_faults(None)


@pytest.mark.parametrize(("api_version", "code"), [(3, 48), (9, 48), (10, 48), (11, 120), (12, 0)])
async def test_a_partition_that_was_never_added(api_version: int, code: int, tmp_path: Path) -> None:
    """Versions below 12 are refused; from 12 on the broker adds the partition."""
    async with producing(tmp_path) as (node, producer):
        assert await producer.add("t", 1) == [0]
        row = await producer.try_produce("t", b"v", api_version=api_version)
        assert (row.error_code, row.base_offset) == (code, -1 if code else 0)
        assert log_of(node).log_end_offset == (0 if code else 1)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"transactional_id": "unknown"}, 49),
        ({"producer_id": 77}, 49),
        ({"epoch": 1}, 47),
        ({"epoch": -1}, 47),
        ({"transactional_id": ""}, 42),
    ],
)
@pytest.mark.parametrize("api_version", [9, 11, 12])
async def test_a_transaction_that_the_coordinator_does_not_know(
    fields: dict[str, Any], code: int, api_version: int, tmp_path: Path
) -> None:
    async with producing(tmp_path) as (node, producer):
        assert await producer.add("t", 0) == [0]
        row = await producer.try_produce("t", b"v", api_version=api_version, **fields)
        assert (row.error_code, row.base_offset) == (code, -1)
        assert log_of(node).log_end_offset == 0
        assert (await producer.try_produce("t", b"v", api_version=api_version)).error_code == 0


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("commit", [True, False])
async def test_a_batch_that_comes_after_the_end_leaves_nothing_open(
    version: int, commit: bool, tmp_path: Path
) -> None:
    async with producing(tmp_path, version=version) as (node, producer):
        await producer.produce("t", b"1")
        late = producer.epoch, 1
        await producer.end(commit=commit)
        log = log_of(node)
        assert (log.log_end_offset, log.last_stable_offset) == (2, 2)
        for api_version, code in ((9, 48), (11, 120)):
            row = await producer.try_produce(
                "t", b"2", epoch=late[0], sequence=late[1], api_version=api_version
            )
            assert row.error_code == (47 if version == 2 else code)
        if version == 2:
            row = await producer.try_produce("t", b"2", epoch=late[0], sequence=late[1])
            assert row.error_code == 47
        assert (log.log_end_offset, log.last_stable_offset) == (2, 2)
        await producer.produce("t", b"3")
        assert log.last_stable_offset == 2


@pytest.mark.parametrize(("api_version", "code"), [(9, 19), (11, 19), (12, 51)])
async def test_a_transaction_that_is_ending(
    api_version: int, code: int, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    version = 2 if api_version >= 12 else 1
    async with producing(tmp_path, version=version) as (node, producer):
        await producer.produce("t", b"1")
        markers = HeldMarkers(node)
        await producer.end(commit=True)
        row = await producer.try_produce("t", b"2", api_version=api_version, index=1)
        assert row.error_code == code
        assert log_of(node, 1).log_end_offset == 0
        assert log_of(node).last_stable_offset == 0
        markers.release()
        assert log_of(node).last_stable_offset == 2
        await producer.produce("t", b"2", index=1)


async def test_the_end_of_the_former_transaction_lets_a_waiting_batch_in(tmp_path: Path) -> None:
    async with producing(tmp_path, version=2) as (node, producer):
        node.verifier._backoff_ms = lambda: (20, 60_000)
        await producer.produce("t", b"1")
        markers = HeldMarkers(node)
        await producer.end(commit=True)
        await producer.client.send(producer.request("t", b"2"), 12)
        while not node.purgatory.parked:
            await trio.lowlevel.checkpoint()
        assert log_of(node).log_end_offset == 1
        markers.release()
        _, response = await producer.client.receive(0, 12)
        ((row,),) = [topic.partition_responses for topic in response.responses]
        assert (row.error_code, row.base_offset) == (0, 2)
        assert log_of(node).last_stable_offset == 2


async def test_a_fenced_producer_is_told_by_the_partition(tmp_path: Path) -> None:
    """The abort of the open transaction has raised the epoch there."""
    async with producing(tmp_path) as (node, producer):
        await producer.produce("t", b"1")
        successor = TransactionalClient(producer.client)
        assert await successor.try_begin() == 51
        log = log_of(node)
        assert (log.log_end_offset, log.last_stable_offset) == (2, 2)
        assert (await producer.try_produce("t", b"2", sequence=1)).error_code == 47
        await successor.begin()
        assert (await producer.try_produce("t", b"2", sequence=1)).error_code == 47
        assert (log.log_end_offset, log.last_stable_offset) == (2, 2)


@pytest.mark.parametrize("version", [1, 2])
async def test_sequences_of_the_next_transaction(version: int, tmp_path: Path) -> None:
    """They go on if the epoch stays, and begin at 0 with the new epoch."""
    async with producing(tmp_path, version=version) as (_, producer):
        await producer.produce("t", b"1", b"2")
        await producer.end(commit=True)
        if version == 1:
            assert await producer.add("t", 0) == [0]
        wrong = 3 if version == 1 else 2
        assert (await producer.try_produce("t", b"3", sequence=wrong)).error_code == 45
        await producer.produce("t", b"3")


async def test_data_outside_of_an_open_transaction_is_refused(tmp_path: Path) -> None:
    async with producing(tmp_path) as (node, producer):
        await producer.produce("t", b"1")
        request = producer.request("t", b"2")
        row = request.topic_data[0].partition_data[0]
        plain = bytearray(row.records or b"")
        plain[22] = 0
        update_crc(plain, 0)
        row.records = bytes(plain)
        response = await producer.client.ask(request, 9)
        assert response.responses[0].partition_responses[0].error_code == 48
        assert log_of(node).log_end_offset == 1
