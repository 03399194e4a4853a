"""SplitRows: one attempt's way from a reader to files and a receipt."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from kcli.spark.job.dead_letters import DeadBatches
from kcli.spark.job.footer import footer_metadata
from kcli.spark.job.layout import Layout
from kcli.spark.job.receipt import Counters, Receipt
from kcli.spark.job.shaping import RowShaper
from kcli.spark.job.split_writer import Place, SplitWriter
from kcli.spark.job.state_paths import DEAD_VALUES
from kcli.spark.reading import ReadCounters

if TYPE_CHECKING:
    import pyarrow as pa

    from kcli.spark.job.task import SplitTask


class _Tell(Protocol):
    def __call__(self, counters: ReadCounters, *, now: bool = False) -> None: ...


def dead_rows_writer(task: SplitTask, attempt: str, schema: pa.Schema) -> SplitWriter:
    """Return what writes the rows of a split whose keys or values their formats do not fit."""
    flat = Layout(())
    return SplitWriter(
        Place(task.target, flat, task.split, flat.stem(task.split, task.plan), attempt, DEAD_VALUES),
        schema=schema,
        metadata=footer_metadata(task),
        parquet=task.options.parquet,
    )


class SplitRows:
    """Reads a split, shapes its rows and writes them."""

    def __init__(self, task: SplitTask, attempt: str) -> None:
        self._task = task
        self._attempt = attempt
        self._shaper = RowShaper(task.options, task.split)
        self._dead = DeadBatches(task.target, task.split, task.plan)
        self._writer = SplitWriter(
            Place(task.target, task.options.layout, task.split, task.stem, attempt),
            schema=self._shaper.schema,
            metadata=footer_metadata(task),
            parquet=task.options.parquet,
        )
        self._dead_rows = dead_rows_writer(task, attempt, self._shaper.dead_schema)

    def write(self, tell: _Tell) -> Receipt:
        """Write all rows and return the receipt; the files stand under their temporary names."""
        task = self._task
        met = ReadCounters(on_damaged_batch=self._dead.keep)
        counters = self._copy(met, tell)
        files, dead_letters = self._writer.finish(), self._dead_rows.finish()
        tell(met, now=True)
        return Receipt(
            plan=task.plan,
            plan_id=task.plan_id,
            index=task.index,
            attempt=self._attempt,
            topic=task.split.topic,
            partition=task.split.partition,
            start=task.split.start,
            end=task.split.end,
            files=files,
            dead_letters=dead_letters,
            counters=counters,
            missing=tuple(met.missing),
            marks=met.marks,
        )

    def _copy(self, met: ReadCounters, tell: _Tell) -> Counters:
        """Take every row from the reader to a writer; return what there was."""
        task = self._task
        reading = replace(task.options.reading, columns=self._shaper.columns)
        read = rows = bad_values = dead = 0
        for batch in task.reader.read(task.split, reading, met):
            shaped = self._shaper.shape(batch)
            read += batch.num_rows
            rows += shaped.rows.num_rows
            bad_values += shaped.bad_values
            self._writer.add(shaped.rows, shaped.offsets, shaped.times_us)
            if shaped.dead is not None:
                dead += shaped.dead.num_rows
                self._dead_rows.add(shaped.dead, shaped.dead.column("offset").to_numpy(), None)
            tell(met)
        return Counters(
            rows=rows,
            bytes_read=met.bytes_read,
            rows_filtered=read - rows - dead,
            corrupt_batches=met.corrupt_batches,
            corrupt_bytes=met.corrupt_bytes,
            bad_values=bad_values,
            dead_letter_batches=self._dead.count,
            dead_letter_rows=dead,
        )

    def discard(self) -> None:
        """Remove everything that this attempt wrote."""
        self._writer.discard()
        self._dead_rows.discard()
