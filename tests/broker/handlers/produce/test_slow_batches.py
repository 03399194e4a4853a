"""LongWriting: a large record set is written by a thread, and the log is as if it had not been."""

from __future__ import annotations

import os
import random
import threading
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from kcli.protocol.compression.codecs import Codec, decompress
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.records.batch import iter_batches
from kcli.protocol.records.batch_header import HEADER_SIZE
from kcli.storage.log.file_records import WriteAhead
from kcli.storage.log.log_read import Isolation
from tests.broker.records import batch, fetch_request, fetched, produce_request, produced, values
from tests.broker.single_node import START_MS, Client, Node, connected, running_node

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LARGE = b"v" * 3_000_000


class Gate:
    """Holds the writing threads until it is opened; counts them."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.writes = 0


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()
    run = WriteAhead.run

    def held(write: WriteAhead) -> None:
        gate.writes += 1
        gate.opened.wait(20)
        run(write)

    monkeypatch.setattr(WriteAhead, "run", held)
    yield gate
    gate.opened.set()


def topic(node: Node) -> None:
    node.create_topic("t", max_message_bytes="100000000")


async def sizes(client: Client) -> list[tuple[int, int]]:
    data = fetched(await client.ask(fetch_request("t", max_bytes=50_000_000), 12))
    assert data.error_code == 0
    return [(offset, len(value or b"")) for offset, value in values(data)]


def on_disk(node: Node) -> list[int]:
    """Return the base offsets of the batches in all segments, which must be nothing else."""
    log = node.replica_manager.partition("t", 0).log
    offsets = []
    for segment in log.segments:
        with open(segment.records.path, "rb") as file:
            data = file.read()
        assert len(data) == segment.records.size
        offsets += [each.base_offset for each in iter_batches(data)]  # type: ignore[union-attr]
    return offsets


async def written(gate: Gate, count: int = 1) -> None:
    with trio.fail_after(60):
        while gate.writes < count:
            await trio.lowlevel.checkpoint()


async def test_others_go_on_while_a_thread_writes(gate: Gate, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client, connected(node) as other:
        topic(node)
        node.create_topic("other")
        assert produced(await other.ask(produce_request("t", batch(b"a")), 9)).base_offset == 0
        await client.send(produce_request("t", batch(LARGE)), 9)
        await written(gate)
        # Readers do not see what is not appended, and other partitions take writes.
        assert await sizes(other) == [(0, 1)]
        assert produced(await other.ask(produce_request("other", batch(b"b")), 9)).base_offset == 0
        gate.opened.set()
        assert produced((await client.receive(0, 9))[1]).base_offset == 1
        assert await sizes(other) == [(0, 1), (1, len(LARGE))]
        assert on_disk(node) == [0, 1]


async def test_writers_of_one_partition_take_turns(gate: Gate, tmp_path: Path) -> None:
    async with (
        running_node(tmp_path) as node,
        connected(node) as client,
        connected(node) as small,
        connected(node) as large,
    ):
        topic(node)
        await client.send(produce_request("t", batch(LARGE)), 9)
        await written(gate)
        await small.send(produce_request("t", batch(b"small")), 9)
        await large.send(produce_request("t", batch(LARGE)), 9)
        await trio.testing.wait_all_tasks_blocked()
        gate.opened.set()
        assert produced((await client.receive(0, 9))[1]).base_offset == 0
        offsets = [produced((await each.receive(0, 9))[1]).base_offset for each in (small, large)]
        assert sorted(offsets) == [1, 2]
        expected = {0: len(LARGE), offsets[0]: 5, offsets[1]: len(LARGE)}
        assert await sizes(client) == sorted(expected.items())
        assert on_disk(node) == [0, 1, 2]


async def test_a_roll_meanwhile_leaves_nothing_behind(gate: Gate, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        topic(node)
        await client.ask(produce_request("t", batch(b"a")), 9)
        await client.send(produce_request("t", batch(LARGE)), 9)
        await written(gate)
        node.replica_manager.partition("t", 0).log.roll(now_ms=START_MS)
        gate.opened.set()
        assert produced((await client.receive(0, 9))[1]).base_offset == 1
        assert on_disk(node) == [0, 1]
        data = fetched(await client.ask(fetch_request("t", 1, max_bytes=50_000_000), 12))
        assert [offset for offset, _ in values(data)] == [1]


async def test_a_repeated_batch_is_not_written_twice(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        topic(node)
        records = batch(LARGE, producer_id=5, producer_epoch=0, base_sequence=0)
        for _ in range(2):
            row = produced(await client.ask(produce_request("t", records), 9))
            assert (row.error_code, row.base_offset) == (0, 0)
        assert on_disk(node) == [0]


async def test_a_topic_that_is_deleted_meanwhile_is_gone(gate: Gate, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        topic(node)
        await client.send(produce_request("t", batch(LARGE)), 9)
        await written(gate)
        node.controller.delete_topics([node.image.topics["t"].topic_id])
        gate.opened.set()
        row = produced((await client.receive(0, 9))[1])
        assert (row.error_code, row.base_offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


async def test_a_full_disk_is_a_storage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(write: WriteAhead) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(WriteAhead, "run", full)
    async with running_node(tmp_path) as node, connected(node) as client:
        topic(node)
        row = produced(await client.ask(produce_request("t", batch(LARGE)), 9))
        assert (row.error_code, row.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


async def test_a_stop_meanwhile_leaves_a_whole_log(gate: Gate, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        topic(node)
        client = Client(await trio.open_tcp_stream("127.0.0.1", node.port))
        await client.ask(produce_request("t", batch(b"a")), 9)
        await client.send(produce_request("t", batch(LARGE)), 9)
        await written(gate)
        # The node stops now, and its stop waits for the thread.
        timer = threading.Timer(0.05, gate.opened.set)
        timer.start()
    timer.join()
    await client.stream.aclose()
    again = Node(tmp_path)
    (log,) = again.log_manager
    assert log.log_end_offset == 2
    read = log.read(0, 1 << 24, isolation=Isolation.LOG_END)
    assert read.file_slice is not None
    assert [each.base_offset for each in iter_batches(read.file_slice.read())] == [0, 1]  # type: ignore[union-attr]
    again.log_manager.close(now_ms=START_MS)


async def test_a_large_compressed_batch_is_decompressed_once_and_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decompressed: list[tuple[int, bool]] = []
    loop = threading.current_thread()

    def noticed(codec: Codec, data: Any, *limits: Any, **options: Any) -> bytes:
        decompressed.append((len(data), threading.current_thread() is loop))
        return decompress(codec, data, *limits, **options)

    monkeypatch.setattr("kcli.protocol.records.batch.decompress", noticed)
    large = batch(*[random.Random(number).randbytes(1000) for number in range(200)], codec=Codec.LZ4)
    small = batch(b"v", codec=Codec.LZ4)
    async with running_node(tmp_path) as node, connected(node) as client:
        topic(node)
        for records in (large, small):
            assert produced(await client.ask(produce_request("t", records), 9)).error_code == 0
    assert decompressed == [(len(large) - HEADER_SIZE, False), (len(small) - HEADER_SIZE, True)]
