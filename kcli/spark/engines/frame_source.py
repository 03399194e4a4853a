"""FrameSource: the rows of a plan's splits as a DataFrame for Spark SQL, one partition per task.

Spark runs the reader and the writer of a task as two Python processes on one machine, and passes rows between
them and nothing else. So the reader leaves its counts as a `ReadReport`, a file in the temporary directory
that is named by the task.
"""

from __future__ import annotations

import json
import os
import pickle
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from kcli.spark.engines.frame_columns import frame_schema, frame_shaper
from kcli.spark.engines.task_failure import leaving_failure
from kcli.spark.export.log.receipt import WrittenFile
from kcli.spark.export.target.layout import receipts_path
from kcli.spark.export.writing.task import DeadBatches, dead_rows_writer
from kcli.spark.python_worker import keep_what_is_loaded
from kcli.spark.split import BatchMark, OffsetInterval, ReadCounters

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from kcli.spark.export.writing.row_shaper import Shaped
    from kcli.spark.export.writing.split_task import SplitTask


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReport:
    """The counts of one attempt at one split, which the reader leaves for the writer."""

    rows: int = 0
    bytes_read: int = 0
    bad_values: int = 0
    corrupt_batches: int = 0
    corrupt_bytes: int = 0
    dead_letter_batches: int = 0
    dead_letter_rows: int = 0
    dead_letters: tuple[WrittenFile, ...] = ()
    """Files of rows that could not be decoded, under their temporary names."""
    missing: tuple[OffsetInterval, ...] = ()
    marks: tuple[BatchMark, ...] = ()

    def leave(self, task: SplitTask, attempt_id: int) -> None:
        """Write the report; the writer may look for it as soon as it has the last row."""
        path = _path(task, attempt_id)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(asdict(self)))
        os.replace(temporary, path)


def take_report(task: SplitTask, attempt_id: int) -> ReadReport | None:
    """Return and remove the report of an attempt, None if the reader leaves none."""
    path = _path(task, attempt_id)
    try:
        fields = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    path.unlink()
    fields["missing"] = tuple(OffsetInterval(*one) for one in fields["missing"])
    fields["marks"] = tuple(BatchMark(*one) for one in fields["marks"])
    fields["dead_letters"] = tuple(WrittenFile.from_json(one) for one in fields["dead_letters"])
    return ReadReport(**fields)


def _path(task: SplitTask, attempt_id: int) -> Path:
    return Path(tempfile.gettempdir(), f"kcli-{task.plan_id}-{task.index}-{attempt_id}.json")


NAME = "kcli-rows"


class FrameReader(DataSourceReader):
    def __init__(self, tasks: bytes, schema: StructType) -> None:
        self._tasks = tasks
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(position) for position in range(len(pickle.loads(self._tasks)))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        task: SplitTask = pickle.loads(self._tasks)[partition.value]
        schema = to_arrow_schema(self._schema, timezone="UTC")
        context = TaskContext.get()
        assert context is not None
        attempt_id = context.taskAttemptId()
        with leaving_failure(task, attempt_id), task.target.while_writing(receipts_path(task.plan)):
            yield from _Rows(task, partition.value, schema).read(attempt_id)
        keep_what_is_loaded()


class _Rows:
    """The rows of one split on their way to SQL; rows that cannot be decoded go to files of their own."""

    def __init__(self, task: SplitTask, position: int, schema: pa.Schema) -> None:
        self._task = task
        self._position = position
        self._schema = schema
        self._shaper = frame_shaper(task.options, task.split)
        self._dead = DeadBatches(task.target, task.split, task.plan)
        self._dead_rows = dead_rows_writer(task, os.urandom(4).hex(), self._shaper.dead_schema)

    def read(self, attempt_id: int) -> Iterator[pa.RecordBatch]:
        task, shaper = self._task, self._shaper
        met = ReadCounters(on_damaged_batch=self._dead.keep)
        read = bad_values = dead = 0
        reading = replace(task.options.reading, columns=shaper.columns)
        try:
            for batch in task.reader.read(task.split, reading, met):
                shaped = shaper.shape(batch)
                read += batch.num_rows
                bad_values += shaped.bad_values
                if shaped.dead is not None:
                    dead += shaped.dead.num_rows
                    self._dead_rows.add(shaped.dead, shaped.dead.column("offset").to_numpy(), None)
                if shaped.rows.num_rows:
                    yield _with_places(shaped, self._position, self._schema)
            files = self._dead_rows.finish()
        except BaseException:
            self._dead_rows.discard()
            raise
        ReadReport(
            rows=read,
            bytes_read=met.bytes_read,
            bad_values=bad_values,
            corrupt_batches=met.corrupt_batches,
            corrupt_bytes=met.corrupt_bytes,
            dead_letter_batches=self._dead.count,
            dead_letter_rows=dead,
            dead_letters=files,
            missing=tuple(met.missing),
            marks=met.marks,
        ).leave(task, attempt_id)


def _with_places(shaped: Shaped, position: int, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with the columns of their origin, in exactly the types that Spark expects."""
    count = shaped.rows.num_rows
    hidden = [
        pa.array([position], pa.int32()).take(pa.array([0] * count, pa.int8())),
        pa.array(shaped.offsets),
        pa.array(shaped.times_us),
    ]
    columns = [*shaped.rows.columns, *hidden]
    arrays = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class FrameSource(DataSource):
    """The source; `source_of` makes a subclass with tasks."""

    tasks: ClassVar[bytes]

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        task: SplitTask = pickle.loads(self.tasks)[0]
        return from_arrow_schema(frame_schema(task.options))

    def reader(self, schema: StructType) -> FrameReader:
        return FrameReader(self.tasks, schema)


def source_of(tasks: Sequence[SplitTask]) -> type[FrameSource]:
    """Return a source of the rows of these tasks' splits; the class travels by value, with its tasks."""

    class Rows(FrameSource):
        pass

    Rows.tasks = pickle.dumps(list(tasks))
    return Rows
