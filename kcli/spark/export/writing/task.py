"""`write_split`: one attempt of a task, from the reader to files and a receipt.

It runs wherever an engine puts it, and may run more than once for one task, even at the same time: the first
attempt that creates the receipt has written the splits, every other one removes its files.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING
from zlib import crc32

import pyarrow as pa

from kcli.errors import KcliError
from kcli.spark.export.log.receipt import Counters, Receipt, SplitRead
from kcli.spark.export.log.receipts import Receipts
from kcli.spark.export.target.layout import (
    DEAD_BATCHES,
    DEAD_SUFFIX,
    DEAD_VALUES,
    Layout,
    commit_path,
    receipts_path,
)
from kcli.spark.export.writing.row_shaper import RowShaper
from kcli.spark.export.writing.split_writer import Place, SplitWriter
from kcli.spark.split import ReadCounters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kcli.spark.export.target.target import Target
    from kcli.spark.export.writing.split_task import SplitTask
    from kcli.spark.split import Split

KEPT_BYTES = 512 * 1024 * 1024
"""More than a task needs: up to this size, free memory at the end of the heap is kept."""

HEAP_BLOCK_BYTES = 32 * 1024 * 1024
"""Blocks up to this size come from the heap; it is glibc's maximum."""

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


@cache
def keep_freed_memory() -> bool:
    """Let this process keep freed memory; return False where the C library is not glibc.

    glibc gives large blocks back to the kernel when they are free, and gets the next one page by page, each
    filled with zeros: a thirtieth of the CPU time of an export of large records.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    kept = mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES), mallopt(_M_MMAP_THRESHOLD, HEAP_BLOCK_BYTES)
    return all(kept)


_REPORT_SECONDS = 0.2
_COLLECT_AFTER = 50_000
"""Collect garbage only after so many more objects were made than freed."""


class DeadBatches:
    """Keeps the damaged batches of one split."""

    def __init__(self, target: Target, split: Split, plan: int) -> None:
        self._target = target
        self._split = split
        self._plan = plan
        self.count = 0

    def keep(self, topic: str, partition: int, position: int, raw: bytes, reason: str) -> None:
        """Write a batch and its facts; called as `ReadCounters.on_damaged_batch`."""
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
        """Write a file; return whether it now holds `raw`."""
        return self._target.create_exclusively(path, raw) or self._target.read(path) == raw


def dead_rows_writer(task: SplitTask, attempt: str, schema: pa.Schema) -> SplitWriter:
    """Return the writer of a task's rows whose keys or values could not be decoded."""
    flat = Layout(())
    return SplitWriter(
        Place(
            task.target,
            flat,
            task.splits,
            flat.stem(task.splits, task.plan),
            attempt,
            base=DEAD_VALUES,
            suffix=DEAD_SUFFIX,
        ),
        schema=schema,
        metadata=task.footer_metadata(),
        parquet=task.options.parquet,
    )


class TaskRows:
    """The rows of all splits of a task, and their files."""

    def __init__(self, task: SplitTask, attempt: str) -> None:
        self._task = task
        self._attempt = attempt
        shaper = RowShaper(task.options, task.splits[0])
        self._writer = SplitWriter(
            Place(task.target, task.options.layout, task.splits, task.stem, attempt),
            schema=shaper.schema,
            metadata=task.footer_metadata(),
            parquet=task.options.parquet,
        )
        self._dead_rows = dead_rows_writer(task, attempt, shaper.dead_schema)

    def write(self, tell: ThrottledReport) -> Receipt:
        """Write all rows and return the receipt; the files stand under their temporary names."""
        task = self._task
        reads, counters = [], Counters()
        for split in task.splits:
            met = ReadCounters()
            counters += self._copy(split, met, tell)
            tell.ended(met)
            reads.append(
                SplitRead(
                    topic=split.topic,
                    partition=split.partition,
                    start=split.start,
                    end=split.end,
                    missing=tuple(met.missing),
                    marks=met.marks,
                )
            )
        files, dead_letters = self._writer.finish(), self._dead_rows.finish()
        tell.now()
        return Receipt(
            plan=task.plan,
            plan_id=task.plan_id,
            index=task.index,
            attempt=self._attempt,
            reads=tuple(reads),
            files=files,
            dead_letters=dead_letters,
            counters=counters,
        )

    def _copy(self, split: Split, met: ReadCounters, tell: ThrottledReport) -> Counters:
        """Pass every row of a split from the reader to a writer; return the counts."""
        task, shaper = self._task, RowShaper(self._task.options, split)
        damaged = DeadBatches(task.target, split, task.plan)
        met.on_damaged_batch = damaged.keep
        self._writer.begin(split)
        self._dead_rows.begin(split)
        reading = replace(task.options.reading, columns=shaper.columns)
        read = rows = bad_values = dead = 0
        for batch in task.reader.read(split, reading, met):
            shaped = shaper.shape(batch)
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
            dead_letter_batches=damaged.count,
            dead_letter_rows=dead,
        )

    def discard(self) -> None:
        self._writer.discard()
        self._dead_rows.discard()


class ThrottledReport:
    """Tells, at most five times a second, what was read since the last time."""

    def __init__(self, report: Callable[[int, int], None]) -> None:
        self._report = report
        self._ended = self._reached = self._told = (0, 0)
        self._due = time.monotonic() + _REPORT_SECONDS

    def __call__(self, counters: ReadCounters) -> None:
        self._reached = (self._ended[0] + counters.rows, self._ended[1] + counters.bytes_read)
        if time.monotonic() >= self._due:
            self.now()

    def ended(self, counters: ReadCounters) -> None:
        """Take the last counts of a split; those of the next one begin at zero."""
        self(counters)
        self._ended = self._reached

    def now(self) -> None:
        self._due = time.monotonic() + _REPORT_SECONDS
        (rows, size), (rows_told, size_told) = self._reached, self._told
        self._report(rows - rows_told, size - size_told)
        self._told = self._reached


def write_split(task: SplitTask, report: Callable[[int, int], None] | None = None) -> Receipt:
    """Write the splits of a task and return its receipt, or that of a faster attempt.

    `report(rows, read_bytes)` is called several times a second with what was done since the last call. An
    error leaves nothing behind.
    """
    pa.set_cpu_count(1)
    keep_freed_memory()
    with _collecting_seldom(), task.target.while_writing(receipts_path(task.plan)):
        receipts = Receipts(task.target)
        done = receipts.read(task.plan, task.index) if task.target.renames else None
        if done is None:
            done = _attempt(task, report or (lambda _rows, _bytes: None))
        receipts.publish(done)
        return done


@contextmanager
def _collecting_seldom() -> Iterator[None]:
    """Make the garbage collector run rarely: there are thousands of batches, and none is part of a cycle.

    Looking for cycles took a fortieth of the CPU time of an export of large records.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(_COLLECT_AFTER, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def _attempt(task: SplitTask, report: Callable[[int, int], None]) -> Receipt:
    """Write the files of a task and their receipt; return the receipt that counts."""
    attempt = os.urandom(4).hex()
    rows, receipts = TaskRows(task, attempt), Receipts(task.target)
    try:
        receipt = rows.write(ThrottledReport(report))
        if task.target.size(commit_path(task.plan)) is not None:
            raise KcliError(f"plan {task.plan} was committed while an attempt at task {task.index} ran")
        if receipts.write(receipt):
            return receipt
        winner = receipts.read(task.plan, task.index)
    except BaseException:
        rows.discard()
        raise
    rows.discard()
    if winner is None:
        raise KcliError(f"the receipt of task {task.index} disappeared: two exports write to the target")
    return winner
