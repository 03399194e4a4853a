"""The data source's sink: rows become records of topics, at least once.

Each task has an idempotent producer of its own and ends when every record is acknowledged. A task that Spark
runs again sends its rows again, and a batch that failed in one task keeps what others have sent: like
Spark's own Kafka sink, this one cannot take records back, and so commits and aborts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import trio
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from kcli.client.client import connect
from kcli.client.config import ClientConfig, ProducerConfig
from kcli.client.producer.producer import Producer
from kcli.spark.sink_columns import SinkColumns
from kcli.spark.worker_errors import hinted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kcli.client.producer.producer_batch import Delivery
    from kcli.errors import KcliError
    from kcli.spark.sink_options import SinkOptions


@dataclass(frozen=True)
class Sent(WriterCommitMessage):
    """How many records a task sent."""

    records: int


class KcliSink(DataSourceArrowWriter):
    """Writes a batch."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._columns = SinkColumns.of(schema, options.topic)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send a task's rows."""
        with hinted():
            return send(self._options, self._columns, iterator)


class KcliStreamSink(DataSourceStreamArrowWriter):
    """Writes the batches of a stream."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._columns = SinkColumns.of(schema, options.topic)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send a task's rows."""
        with hinted():
            return send(self._options, self._columns, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: what was sent is there."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: what was sent cannot be taken back."""


def send(options: SinkOptions, columns: SinkColumns, batches: Iterator[pa.RecordBatch]) -> Sent:
    """Send the records of some batches, and return when all are acknowledged; raise the first failure."""
    return trio.run(partial(_send, options, columns, batches))


async def _send(options: SinkOptions, columns: SinkColumns, batches: Iterator[pa.RecordBatch]) -> Sent:
    client_config = ClientConfig.from_properties(options.properties)
    producer_config = ProducerConfig.from_properties(options.properties)
    failures: list[KcliError] = []
    records = 0

    def settle(delivery: Delivery) -> None:
        if delivery.error is not None:
            failures.append(delivery.error)

    async with (
        connect(options.bootstrap, client_config) as client,
        Producer(client, producer_config) as producer,
    ):
        # In a thread: while Spark computes the next rows, what was sent before must go on.
        while (batch := await trio.to_thread.run_sync(next, batches, None)) is not None:
            for record in columns.records(batch):
                delivery = await producer.send(
                    record.topic, record.value, record.key,
                    partition=record.partition, headers=record.headers, timestamp=record.timestamp_ms,
                )  # fmt: skip
                delivery.on_settled(settle)
                if failures:
                    raise failures[0]
            records += batch.num_rows
        await producer.flush()
        if failures:
            raise failures[0]
    return Sent(records)
