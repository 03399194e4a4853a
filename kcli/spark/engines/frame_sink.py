"""FrameSink: writes the rows that Spark SQL computed; each task writes its split's files and receipt.

The arrow writer's code writes them, with the same encodings, footers, names and receipts; of several receipts
the first counts.
"""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema

from kcli.errors import KcliError
from kcli.spark.engines.frame_columns import HIDDEN, OFFSET, SPLIT, TIME
from kcli.spark.engines.frame_source import ReadReport, take_report
from kcli.spark.engines.task_failure import leaving_failure
from kcli.spark.export.log.receipt import Counters, Receipt, SplitRead
from kcli.spark.export.log.receipts import Receipts
from kcli.spark.export.target.layout import receipts_path
from kcli.spark.export.writing.split_writer import Place, SplitWriter
from kcli.spark.python_worker import keep_what_is_loaded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from kcli.spark.export.writing.split_task import SplitTask

NAME = "kcli-files"


class Written(WriterCommitMessage):
    """A split is written; its receipt has the details."""


class FrameWriter(DataSourceArrowWriter):
    def __init__(self, tasks: bytes, schema: StructType) -> None:
        self._tasks = tasks
        arrow = to_arrow_schema(schema, timezone="UTC")
        self._schema = pa.schema([field for field in arrow if field.name not in HIDDEN])

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        pa.set_cpu_count(1)
        context = TaskContext.get()
        assert context is not None
        position = context.partitionId()
        task: SplitTask = pickle.loads(self._tasks)[position]
        attempt_id = context.taskAttemptId()
        with leaving_failure(task, attempt_id), task.target.while_writing(receipts_path(task.plan)):
            done = _Attempt(task, position, self._schema).write(iterator, attempt_id)
            Receipts(task.target).publish(done)
        keep_what_is_loaded()
        return Written()


class _Attempt:
    def __init__(self, task: SplitTask, position: int, schema: pa.Schema) -> None:
        self._task = task
        self._position = position
        self._schema = schema
        self._name = os.urandom(4).hex()
        place = Place(task.target, task.options.layout, task.splits, task.stem, self._name)
        self._writer = SplitWriter(
            place, schema=schema, metadata=task.footer_metadata(), parquet=task.options.parquet
        )

    def write(self, batches: Iterator[pa.RecordBatch], attempt_id: int) -> Receipt:
        task = self._task
        receipts = Receipts(task.target)
        rows = 0
        met = None
        try:
            for batch in batches:
                rows += batch.num_rows
                self._add(batch)
            met = take_report(task, attempt_id) or ReadReport(rows=rows)
            receipt = self._receipt(rows, met)
            if receipts.write(receipt):
                return receipt
            winner = receipts.read(task.plan, task.index)
        except BaseException:
            self._discard(met)
            raise
        self._discard(met)
        if winner is None:
            raise KcliError(f"the receipt {task.index} disappeared: two exports write to the target")
        return winner

    def _discard(self, met: ReadReport | None) -> None:
        self._writer.discard()
        for file in met.dead_letters if met else ():
            self._task.target.remove(file.temporary or file.path)

    def _add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        came_from = batch.column(SPLIT)
        if came_from.null_count or set(came_from.unique().to_pylist()) != {self._position}:
            raise KcliError(
                "`--select` moves rows between tasks", hint="compute each row's columns from that row alone"
            )
        arrays = [batch.column(field.name).cast(field.type) for field in self._schema]
        times = batch.column(TIME).to_numpy(zero_copy_only=False)
        offsets = batch.column(OFFSET).to_numpy(zero_copy_only=False)
        self._writer.add(pa.RecordBatch.from_arrays(arrays, schema=self._schema), offsets, times)

    def _receipt(self, rows: int, met: ReadReport) -> Receipt:
        task = self._task
        return Receipt(
            plan=task.plan,
            plan_id=task.plan_id,
            index=task.index,
            attempt=self._name,
            reads=(
                SplitRead(
                    topic=task.split.topic,
                    partition=task.split.partition,
                    start=task.split.start,
                    end=task.split.end,
                    missing=met.missing,
                    marks=met.marks,
                ),
            ),
            files=self._writer.finish(),
            counters=Counters(
                rows=rows,
                bytes_read=met.bytes_read,
                # SQL may make several rows of one.
                rows_filtered=max(0, met.rows - met.dead_letter_rows - rows),
                corrupt_batches=met.corrupt_batches,
                corrupt_bytes=met.corrupt_bytes,
                bad_values=met.bad_values,
                dead_letter_batches=met.dead_letter_batches,
                dead_letter_rows=met.dead_letter_rows,
            ),
            dead_letters=met.dead_letters,
        )


class FrameSink(DataSource):
    """The sink; `sink_of` makes a subclass with tasks."""

    tasks: ClassVar[bytes]

    @classmethod
    def name(cls) -> str:
        return NAME

    def writer(self, schema: StructType, overwrite: bool) -> FrameWriter:
        return FrameWriter(self.tasks, schema)


def sink_of(tasks: Sequence[SplitTask]) -> type[FrameSink]:
    """Return a sink for the splits of these tasks; the class travels by value, with the tasks in it."""

    class Files(FrameSink):
        pass

    Files.tasks = pickle.dumps(list(tasks))
    return Files
