"""SplitRows: one attempt's way from a reader to files and a receipt.

Damaged batches, kept as they were found: `<topic>-<partition>-<position>.bin` and a JSON file beside it.

Names tell where it was found, so that another attempt at the same split writes the same file. Positions
begin anew in every segment: what differs from a file of that name gets its checksum into the name.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol
from zlib import crc32

from kcli.spark.export.log.receipt import Counters, Receipt
from kcli.spark.export.target.layout import DEAD_BATCHES, DEAD_VALUES, Layout
from kcli.spark.export.writing.data_file import footer_metadata
from kcli.spark.export.writing.row_shaper import RowShaper
from kcli.spark.export.writing.split_writer import Place, SplitWriter
from kcli.spark.split import ReadCounters

if TYPE_CHECKING:
    import pyarrow as pa

    from kcli.spark.export.target.target import Target
    from kcli.spark.export.writing.task import SplitTask
    from kcli.spark.split import Split


class DeadBatches:
    """Keeps the damaged batches of one split."""

    def __init__(self, target: Target, split: Split, plan: int) -> None:
        self._target = target
        self._split = split
        self._plan = plan
        self.count = 0

    def keep(self, topic: str, partition: int, position: int, raw: bytes, reason: str) -> None:
        """Write a batch and what is known of it; `ReadCounters.on_damaged_batch` calls this."""
        stem = f"{DEAD_BATCHES}/{topic}-{partition}-{position}"
        if not self._write(f"{stem}.bin", raw):
            stem = f"{stem}-{crc32(raw):08x}"
            self._write(f"{stem}.bin", raw)
        facts = {
            "topic": topic,
            "partition": partition,
            "position": position,
            "size_bytes": len(raw),
            "reason": reason,
            "directory": self._split.directory,
            "split": [self._split.start, self._split.end],
            "plan": self._plan,
        }
        self._target.write_atomically(f"{stem}.json", json.dumps(facts, indent=1).encode() + b"\n")
        self.count += 1

    def _write(self, path: str, raw: bytes) -> bool:
        """Write a file, and return whether it now holds `raw`."""
        return self._target.create_exclusively(path, raw) or self._target.read(path) == raw


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
