"""Sink: the tasks and commits of the data source's sink, without Spark."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from kcli.client.producer.open_transaction import end_transaction
from kcli.spark.datasource import sink_transactions
from kcli.spark.datasource.sink import (
    KcliStreamSink,
    SentRecords,
    SinkColumns,
    SinkOptions,
    send,
    sink_options,
)
from tests.support.committed_rows import seen_records
from tests.support.producing import create_topic

PARTITIONS = 2
SCHEMA = StructType([StructField("value", StringType())])
_numbers = itertools.count()


class Sink:
    """A topic of its own, written with a transactional id of its own; tasks are numbered from 0."""

    def __init__(self, bootstrap: str, **properties: str) -> None:
        self.bootstrap = bootstrap
        self.topic = f"sink-transactions-{next(_numbers)}"
        create_topic(bootstrap, self.topic, PARTITIONS)
        self.options: SinkOptions = sink_options(
            {
                "kafka.bootstrap.servers": bootstrap,
                "topic": self.topic,
                "kafka.transactional.id": self.topic,
                **properties,
            }
        )

    def task(self, number: int, *values: str, query: str = "") -> SentRecords:
        return self.batches(number, iter([pa.RecordBatch.from_pydict({"value": values})]), query)

    def batches(self, number: int, batches: Iterator[pa.RecordBatch], query: str = "") -> SentRecords:
        columns = SinkColumns.of(SCHEMA, self.topic)
        return send(self.options, columns, batches, task=number, query=query)

    def micro_batch(self, number: int, *tasks: str, query: str = "q") -> None:
        """Write a micro-batch with a row per task; a task with "" has none."""
        sent = [self.task(index, *[row] if row else [], query=query) for index, row in enumerate(tasks)]
        KcliStreamSink(self.options, SCHEMA).commit(list(sent), number)

    def seen(self) -> list[str]:
        records = seen_records(self.bootstrap, self.topic, PARTITIONS)
        return sorted((record.value or b"").decode() for record in records)


class Killed(BaseException):
    """Stands for a kill: nothing catches it."""


@contextmanager
def killed_after(commits: int) -> Iterator[None]:
    """Have the process that commits die after so many commits of tasks, and expect that."""
    left = [commits]

    async def end(client: object, transaction: object, **settings: object) -> None:
        if settings["is_commit"]:
            if not left[0]:
                raise Killed
            left[0] -= 1
        await end_transaction(client, transaction, **settings)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sink_transactions, "end_transaction", end)
        patch.setattr(sink_transactions, "ENDS_AT_A_TIME", 1)
        with pytest.raises((Killed, BaseExceptionGroup)):
            yield
