"""Consumers of committed records: what they may read, and when a fetch that waits learns more."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.records import batch, fetched, offsets, produce_request, produced
from tests.broker.single_node import START_MS, Client, Node, connected, running_node
from tests.broker.transactions.transactional_client import TransactionalClient, transactional_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

UNCOMMITTED, COMMITTED = 0, 1
LONG_MS = 60_000


class Transactions:
    """Topic `t` with two partitions; the first one is filled by `fill`, the other is empty."""

    def __init__(
        self, node: Node, reader: Client, aborting: TransactionalClient, open_one: TransactionalClient
    ) -> None:
        self.node = node
        self.reader = reader
        self.aborting = aborting
        self.open_one = open_one
        self.topic_id = node.image.topics["t"].topic_id

    async def plain(self, value: bytes, index: int = 0) -> None:
        response = await self.reader.ask(produce_request("t", batch(value), index=index), 9)
        assert produced(response).error_code == 0

    async def fill(self) -> None:
        """Write 0 plain; 1 and 3 aborted by marker 4; 2 open; 5 plain."""
        await self.plain(b"0")
        await self.aborting.produce("t", b"1")
        await self.open_one.produce("t", b"2")
        await self.aborting.produce("t", b"3")
        await self.aborting.end(commit=False)
        await self.plain(b"5")

    def fetch(
        self,
        version: int,
        *positions: int,
        isolation: int = COMMITTED,
        wait_ms: int = 0,
        min_bytes: int = 1,
        session: tuple[int, int] = (0, -1),
    ) -> FetchRequest:
        """Return a request for partitions from 0 on, each from its position on; -1 leaves it out."""
        rows = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
            for index, offset in enumerate(positions)
            if offset >= 0
        ]
        topic = FetchTopic(topic="t", partitions=rows)
        if version >= 13:
            topic = FetchTopic(topic_id=self.topic_id, partitions=rows)
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            isolation_level=isolation,
            session_id=session[0],
            session_epoch=session[1],
            topics=[topic] if rows else [],
        )

    async def is_parked(self) -> bool:
        """Return whether the reader's last request waits, once everything has been done that can be."""
        await trio.testing.wait_all_tasks_blocked()
        return not self.reader.has_received


@asynccontextmanager
async def transactions(directory: Path) -> AsyncIterator[Transactions]:
    async with running_node(directory) as node, connected(node) as reader:
        node.create_topic("t", partitions=2)
        async with (
            transactional_client(node, "aborting") as aborting,
            transactional_client(node, "open") as open_one,
        ):
            yield Transactions(node, reader, aborting, open_one)


def aborted_of(data: Any) -> list[tuple[int, int]] | None:
    listed = data.aborted_transactions
    return None if listed is None else [(each.producer_id, each.first_offset) for each in listed]


@pytest.mark.parametrize("version", [4, 6, 11, 12, 13, 16, 18])
async def test_committed_readers_stop_at_the_first_open_transaction(version: int, tmp_path: Path) -> None:
    async with transactions(tmp_path) as broker:
        await broker.fill()
        data = fetched(await broker.reader.ask(broker.fetch(version, 0), version))
        assert offsets(data) == [0, 1]
        assert (data.high_watermark, data.last_stable_offset) == (6, 2)
        assert aborted_of(data) == [(broker.aborting.producer_id, 1)]
        data = fetched(await broker.reader.ask(broker.fetch(version, 2), version))
        assert (offsets(data), aborted_of(data)) == ([], [])
        data = fetched(await broker.reader.ask(broker.fetch(version, 0, isolation=UNCOMMITTED), version))
        assert offsets(data) == [0, 1, 2, 3, 4, 5]
        assert (data.last_stable_offset, aborted_of(data)) == (2, None)
        await broker.open_one.end(commit=True)
        data = fetched(await broker.reader.ask(broker.fetch(version, 0), version))
        assert offsets(data) == [0, 1, 2, 3, 4, 5, 6]
        assert (data.last_stable_offset, aborted_of(data)) == (7, [(broker.aborting.producer_id, 1)])
        data = fetched(await broker.reader.ask(broker.fetch(version, 5), version))
        assert (offsets(data), aborted_of(data)) == ([5, 6], [])


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_old_readers_get_all_data_and_no_markers(version: int, tmp_path: Path) -> None:
    """Their versions know no isolation level."""
    async with transactions(tmp_path) as broker:
        await broker.fill()
        await broker.open_one.end(commit=True)
        data = fetched(await broker.reader.ask(broker.fetch(version, 0), version))
        assert offsets(data) == [0, 1, 2, 3, 5]


@pytest.mark.parametrize("version", [0, 1, 2, 3])
@pytest.mark.parametrize("has_more", [True, False])
async def test_old_readers_get_past_a_marker_however_little_they_ask_for(
    version: int, has_more: bool, tmp_path: Path
) -> None:
    async with transactions(tmp_path) as broker:
        await broker.fill()
        for commit in (True, False):
            await broker.open_one.end(commit=commit)
            await broker.open_one.produce("t", b"7")
        await broker.open_one.end(commit=True)
        last = broker.node.replica_manager.partition("t", 0).log.log_end_offset
        if has_more:
            await broker.plain(b"last")
        seen: list[int] = []
        while not seen or seen[-1] < 9:
            request = broker.fetch(version, seen[-1] + 1 if seen else 0)
            request.topics[0].partitions[0].partition_max_bytes = 90
            data = fetched(await broker.reader.ask(request, version))
            assert data.error_code == 0
            assert offsets(data)
            seen += offsets(data)
        assert seen == [0, 1, 2, 3, 5, 7, 9]
        request = broker.fetch(version, 10)
        assert offsets(fetched(await broker.reader.ask(request, version))) == ([last] if has_more else [])


@pytest.mark.parametrize(
    ("timestamp", "version", "isolation", "expected"),
    [
        (-1, 1, UNCOMMITTED, 6),
        (-1, 2, UNCOMMITTED, 6),
        (-1, 2, COMMITTED, 2),
        (-1, 6, COMMITTED, 2),
        (-1, 11, COMMITTED, 2),
        (-2, 11, COMMITTED, 0),
        (-4, 11, COMMITTED, 0),
        (START_MS + 5, 11, UNCOMMITTED, 5),
        (START_MS + 5, 11, COMMITTED, -1),
        (START_MS, 11, COMMITTED, 0),
        (-3, 11, UNCOMMITTED, 5),
        (-3, 11, COMMITTED, -1),
    ],
)
async def test_the_offsets_of_committed_readers(
    timestamp: int, version: int, isolation: int, expected: int, tmp_path: Path
) -> None:
    async with transactions(tmp_path) as broker:
        await broker.fill()
        last = batch(b"6", timestamp=START_MS + 5)
        assert produced(await broker.reader.ask(produce_request("t", last), 9)).error_code == 0
        partitions = [ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=[ListOffsetsTopic(name="t", partitions=partitions)],
        )
        response = await broker.reader.ask(request, version)
        shift = 1 if expected >= 5 else 0
        assert response.topics[0].partitions[0].offset == expected + shift


@pytest.mark.parametrize("version", [4, 11, 12, 13, 17])
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("min_bytes", [1, 150])
async def test_the_end_of_the_transaction_wakes_a_fetch(
    version: int, commit: bool, min_bytes: int, tmp_path: Path
) -> None:
    async with transactions(tmp_path) as broker:
        await broker.fill()
        request = broker.fetch(version, 2, wait_ms=LONG_MS, min_bytes=min_bytes)
        await broker.reader.send(request, version)
        assert await broker.is_parked()
        await broker.open_one.end(commit=commit)
        data = fetched((await broker.reader.receive(1, version))[1])
        assert offsets(data) == [2, 3, 4, 5, 6]
        open_ones = [] if commit else [(broker.open_one.producer_id, 2)]
        assert sorted(aborted_of(data) or []) == sorted([(broker.aborting.producer_id, 1), *open_ones])
        assert data.last_stable_offset == data.high_watermark == 7


@pytest.mark.parametrize("version", [4, 11, 12, 17])
async def test_a_fetch_that_waits_in_vain_is_told_of_aborted_transactions(
    version: int, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with transactions(tmp_path) as broker:
        await broker.fill()
        await broker.open_one.end(commit=True)
        request = broker.fetch(version, 0, wait_ms=100, min_bytes=100_000)
        data = fetched(await broker.reader.ask(request, version))
        assert offsets(data) == list(range(7))
        assert aborted_of(data) == [(broker.aborting.producer_id, 1)]


async def test_what_committed_readers_may_not_read_does_not_wake_them(tmp_path: Path) -> None:
    async with transactions(tmp_path) as broker:
        await broker.fill()
        await broker.reader.send(broker.fetch(12, 2, wait_ms=LONG_MS), 12)
        assert await broker.is_parked()
        async with connected(broker.node) as other:
            response = await other.ask(produce_request("t", batch(b"6")), 9)
            assert produced(response).error_code == 0
        await broker.open_one.produce("t", b"7")
        await broker.aborting.produce("t", b"8")
        await broker.aborting.end(commit=True)
        assert await broker.is_parked()
        await broker.open_one.end(commit=True)
        data = fetched((await broker.reader.receive(1, 12))[1])
        assert offsets(data) == list(range(2, 11))


async def test_bytes_that_may_not_be_read_yet_do_not_count(tmp_path: Path) -> None:
    async with transactions(tmp_path) as broker:
        await broker.fill()
        size = len(batch(b"0"))
        await broker.reader.send(broker.fetch(12, 0, wait_ms=LONG_MS, min_bytes=3 * size), 12)
        assert await broker.is_parked()
        await broker.open_one.end(commit=True)
        assert offsets(fetched((await broker.reader.receive(1, 12))[1])) == list(range(7))


@pytest.mark.parametrize("version", [7, 11, 12, 13, 17])
async def test_a_session_of_a_committed_reader(version: int, tmp_path: Path) -> None:
    """It tells a partition again once it has news: offsets, or records that may be read now."""
    async with transactions(tmp_path) as broker:
        await broker.fill()
        response = await broker.reader.ask(broker.fetch(version, 0, 0, session=(0, 0)), version)
        session = response.session_id
        first, second = response.responses[0].partitions
        assert (offsets(first), offsets(second)) == ([0, 1], [])
        response = await broker.reader.ask(broker.fetch(version, 2, session=(session, 1)), version)
        assert response.responses == []
        # It waits for both partitions.
        await broker.reader.send(broker.fetch(version, session=(session, 2), wait_ms=LONG_MS), version)
        assert await broker.is_parked()
        await broker.open_one.end(commit=False)
        _, response = await broker.reader.receive(1, version)
        data = fetched(response)
        assert data.partition_index == 0
        assert offsets(data) == [2, 3, 4, 5, 6]
        assert len(aborted_of(data) or []) == 2
        response = await broker.reader.ask(broker.fetch(version, 7, session=(session, 3)), version)
        assert response.responses == []
        await broker.aborting.produce("t", b"v", index=1)
        # The high watermark is news, the record is not to be read.
        data = fetched(await broker.reader.ask(broker.fetch(version, session=(session, 4)), version))
        assert (data.partition_index, data.high_watermark, data.last_stable_offset) == (1, 1, 0)
        assert offsets(data) == []


async def test_deleted_records_of_an_open_transaction_move_the_last_stable_offset(tmp_path: Path) -> None:
    async with transactions(tmp_path) as broker:
        await broker.fill()
        broker.node.replica_manager.partition("t", 0).delete_records(4)
        data = fetched(await broker.reader.ask(broker.fetch(12, 4), 12))
        assert (data.log_start_offset, data.last_stable_offset, offsets(data)) == (4, 4, [])
        await broker.open_one.end(commit=False)
        data = fetched(await broker.reader.ask(broker.fetch(12, 4), 12))
        assert offsets(data) == [4, 5, 6]
