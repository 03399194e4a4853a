"""Rows arrive in a topic once and in order, also when an import is interrupted or a record is refused."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import trio

from kcli.client import admin
from kcli.client.client import Client, connect
from kcli.client.config import ClientConfig, ConsumerConfig, ProducerConfig
from kcli.client.consumer.consumer import Consumer
from kcli.client.producer.producer import Producer
from kcli.errors import KcliError
from kcli.spark.importing.import_run import ImportRun, row_before
from kcli.spark.importing.import_state import PartitionPlan
from kcli.spark.importing.stored_records import PartitionRows, StoredFile
from tests.support.running_cluster import running_cluster
from tests.support.stored_rows import StoredRow, stored_row, write_rows

Written = tuple[bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]

CONFIG = ProducerConfig(batch_size=500, max_request_size=2**31 - 1)


class Count:
    """What was told of delivered records; `scope` is cancelled after so many, and `is_enough` set."""

    def __init__(self, stop_after: int = 2**31) -> None:
        self.rows = 0
        self.scope = trio.CancelScope()
        self.stop_after = stop_after
        self.is_enough = threading.Event()

    def advance(self, rows: int, size_bytes: int) -> None:
        self.rows += rows
        if self.rows >= self.stop_after:
            self.scope.cancel()
            self.is_enough.set()


@asynccontextmanager
async def target(directory: Path, partitions: int, **configs: str) -> AsyncIterator[Client]:
    """Run a cluster with the topic `copy`, which keeps records that look old."""
    named = {"retention.ms": "-1", **{name.replace("_", "."): value for name, value in configs.items()}}
    async with (
        running_cluster(directory) as cluster,
        connect(",".join(cluster.bootstrap_servers), ClientConfig()) as client,
    ):
        await admin.create_topics(client, [admin.NewTopic("copy", partitions, 1, configs=named)])
        yield client


def expected(rows: list[StoredRow]) -> list[Written]:
    return [(row.key, row.value, row.timestamp_ms, row.headers) for row in rows]


async def written(client: Client, partition: int) -> list[Written]:
    """Return all records of a partition of `copy`."""
    at = admin.TopicPartition("copy", partition)
    end = (await admin.list_offsets(client, {at: admin.LATEST}))[at]
    assert isinstance(end, admin.OffsetAndTimestamp)
    found: list[Written] = []
    async with Consumer(client, ConsumerConfig(auto_offset_reset="earliest")) as consumer:
        consumer.assign([at])
        consumer.seek_to_beginning(at)
        with trio.fail_after(60):
            while len(found) < end.offset:
                for fetched in await consumer.poll():
                    found += [
                        (record.key, record.value, record.timestamp, tuple(record.headers))
                        for record in fetched.records
                    ]
    return [
        (
            None if key is None else bytes(key),
            None if value is None else bytes(value),
            timestamp,
            tuple((name, None if content is None else bytes(content)) for name, content in headers),
        )
        for key, value, timestamp, headers in found
    ]


def stored(
    directory: Path, partition: int, rows: list[StoredRow], *, half_way: Callable[[], object] = int
) -> PartitionRows:
    """Write rows to Parquet files of a hundred; `half_way` is called before one in the middle is read."""
    files = [
        write_rows(directory / f"{partition}-{first}.parquet", rows[first : first + 100], partition=partition)
        for first in range(0, len(rows), 100)
    ]

    def opened(file: StoredFile) -> pq.ParquetFile:
        if file == files[len(files) // 2]:
            half_way()
        return pq.ParquetFile(file.path)

    return PartitionRows(files, opened)


async def run(
    client: Client, rows: Mapping[int, PartitionRows], plans: list[PartitionPlan], count: Count
) -> ImportRun:
    """Send, ending in order when the count says so."""
    async with Producer(client, CONFIG) as producer:
        importing = ImportRun(producer, "copy", count)
        with count.scope:
            await importing.run(rows, {plan.partition: plan for plan in plans})
        if count.scope.cancelled_caught:
            await producer.close()
    return importing


async def test_records_arrive_with_everything_they_had(tmp_path: Path) -> None:
    parts = {0: [stored_row(offset) for offset in range(350)], 2: [stored_row(offset) for offset in range(9)]}
    rows = {partition: stored(tmp_path, partition, part) for partition, part in parts.items()}
    async with target(tmp_path / "data", 3) as client:
        count = Count()
        importing = await run(client, rows, [PartitionPlan(0, 0, 350), PartitionPlan(2, 0, 9)], count)
        assert (count.rows, importing.delivered) == (359, {0: 350, 2: 9})
        assert [await written(client, partition) for partition in range(3)] == [
            expected(parts[0]),
            [],
            expected(parts[2]),
        ]


async def test_an_interrupted_import_goes_on_behind_what_arrived(tmp_path: Path) -> None:
    part = [stored_row(offset) for offset in range(1000)]
    count = Count(stop_after=120)
    # Whoever reads faster than records arrive would have sent them all by then.
    rows = {0: stored(tmp_path, 0, part, half_way=lambda: count.is_enough.wait(60))}
    async with target(tmp_path / "data", 1) as client:
        await run(client, rows, [PartitionPlan(0, 0, 1000)], count)
        done = len(await written(client, 0))
        assert 120 <= done < 1000
        plan = PartitionPlan(0, 0, 1000, done)
        before = row_before(rows[0], plan)
        assert before is not None
        assert list(zip(*before, strict=True)) == expected(part[done - 1 : done])
        await run(client, rows, [plan], Count())
        assert await written(client, 0) == expected(part)


@pytest.mark.parametrize("place", [0, 1, 250, 999])
async def test_nothing_overtakes_a_record_that_is_refused(tmp_path: Path, place: int) -> None:
    """What stands in the partition is always a beginning of what was to be sent."""
    part = [stored_row(offset) for offset in range(1000)]
    part[place] = part[place]._replace(value=bytes(5000))
    async with target(tmp_path / "data", 1, max_message_bytes="3000") as client:
        rows = {0: stored(tmp_path, 0, part)}
        with pytest.raises(KcliError, match="cannot write to partition 0 of `copy`: "):
            await run(client, rows, [PartitionPlan(0, 0, 1000)], Count())
        arrived = await written(client, 0)
        assert len(arrived) <= place
        assert arrived == expected(part[: len(arrived)])
