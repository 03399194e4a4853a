"""SplitTask and `write_split`: reads one split, writes its files and leaves a receipt.

It runs wherever an engine puts it and may run more than once for the same split, at the same time even: the
first attempt that creates the receipt has written the split, any other removes what it wrote.

Memory that a task lets go of stays with its process, which puts the next row group into it.

The C library gives large blocks back to the system as soon as they are free, and what it asks for then comes
page by page, each filled with zeros: a thirtieth of the CPU time of an export of large records. A worker soon
needs as much again, for the next row group or the next task, so it keeps what it had at its highest.
"""

from __future__ import annotations

import ctypes
import gc
import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.spark.export.log.receipts import publish, read_receipt, write_receipt
from kcli.spark.export.target.layout import commit_path, receipts_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kcli.spark.export.log.receipt import Receipt
    from kcli.spark.export.options import Identity, WriteOptions
    from kcli.spark.export.target.target import Target
    from kcli.spark.source.source import SplitReader
    from kcli.spark.split import OffsetInterval, ReadCounters, Split


KEPT_BYTES = 512 * 1024 * 1024
"""More than a task has: what is free at the end of the heap up to this size is not given back."""

HEAP_BLOCK_BYTES = 32 * 1024 * 1024
"""Blocks up to this size come from the heap, the most that glibc takes for an answer."""

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


@cache
def keep_freed_memory() -> bool:
    """Let this process keep its heap; return whether the C library can be told so, which is glibc's only."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    kept = mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES), mallopt(_M_MMAP_THRESHOLD, HEAP_BLOCK_BYTES)
    return all(kept)


_REPORT_SECONDS = 0.2
_COLLECT_AFTER = 50_000
"""So many objects more than were let go of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitTask:
    """Everything that is needed to write one split; plain data that pickles."""

    target: Target
    plan: int
    plan_id: str
    index: int
    """The split's number in its plan."""
    split: Split
    """What to read; the plan's split, without what was lost of it since."""
    stem: str
    """How the names of its files begin."""
    planned: OffsetInterval
    """What the plan reads of the split's partition."""
    identity: Identity
    reader: SplitReader
    options: WriteOptions


def write_split(task: SplitTask, report: Callable[[int, int], None] | None = None) -> Receipt:
    """Write a split and return its receipt, or that of the attempt that was faster.

    `report(rows, read_bytes)` is told of what was done since the last call, several times a second. An error
    leaves nothing behind.
    """
    import pyarrow as pa

    pa.set_cpu_count(1)
    keep_freed_memory()
    with _collecting_seldom(), task.target.while_writing(receipts_path(task.plan)):
        done = read_receipt(task.target, task.plan, task.index) if task.target.renames else None
        if done is None:
            done = _attempt(task, report or (lambda _rows, _bytes: None))
        publish(task.target, done)
        return done


@contextmanager
def _collecting_seldom() -> Iterator[None]:
    """Let the garbage collector wait: batches come by the thousand, none is part of a cycle.

    To look for those took a fortieth of the CPU time of an export of large records.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(_COLLECT_AFTER, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def _attempt(task: SplitTask, report: Callable[[int, int], None]) -> Receipt:
    """Write the files of a split and their receipt; return the receipt that counts."""
    from kcli.spark.export.writing.split_rows import SplitRows

    attempt = os.urandom(4).hex()
    rows = SplitRows(task, attempt)
    try:
        receipt = rows.write(_Throttled(report))
        if task.target.size(commit_path(task.plan)) is not None:
            raise KcliError(f"plan {task.plan} was committed while an attempt at split {task.index} ran")
        if write_receipt(task.target, receipt):
            return receipt
        winner = read_receipt(task.target, task.plan, task.index)
    except BaseException:
        rows.discard()
        raise
    rows.discard()
    if winner is None:
        raise KcliError(f"the receipt of split {task.index} came and went: two exports write to the target")
    return winner


class _Throttled:
    """Passes on what was done, not more often than a user can see."""

    def __init__(self, report: Callable[[int, int], None]) -> None:
        self._report = report
        self._told = (0, 0)
        self._due = time.monotonic() + _REPORT_SECONDS

    def __call__(self, counters: ReadCounters, *, now: bool = False) -> None:
        clock = time.monotonic()
        if clock < self._due and not now:
            return
        self._due = clock + _REPORT_SECONDS
        rows, size = counters.rows, counters.bytes_read
        self._report(rows - self._told[0], size - self._told[1])
        self._told = (rows, size)
