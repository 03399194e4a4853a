"""SplitTask and `write_split`: reads one split, writes its files and leaves a receipt.

It runs wherever an engine puts it and may run more than once for the same split, at the same time even: the
first attempt that creates the receipt has written the split, any other removes what it wrote.
"""

from __future__ import annotations

import gc
import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.spark.job.receipts import publish, read_receipt, write_receipt
from kcli.spark.job.state_paths import commit_path, receipts_path
from kcli.spark.job.task_memory import keep_freed_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kcli.spark.job.identity import Identity
    from kcli.spark.job.options import WriteOptions
    from kcli.spark.job.receipt import Receipt
    from kcli.spark.job.target import Target
    from kcli.spark.reading import OffsetInterval, ReadCounters
    from kcli.spark.source import SplitReader
    from kcli.spark.split import Split

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
    from kcli.spark.job.split_rows import SplitRows

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
