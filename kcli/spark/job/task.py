"""SplitTask and `write_split`: reads one split, writes its files and leaves a receipt.

It runs wherever an engine puts it and may run more than once for the same split, at the same time even: the
first attempt that creates the receipt has written the split, any other removes what it wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.spark.job.options import WriteOptions
    from kcli.spark.job.receipt import Receipt
    from kcli.spark.job.target import Target
    from kcli.spark.reading import OffsetInterval
    from kcli.spark.source import SplitReader
    from kcli.spark.split import Split


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
    cluster_id: str | None
    reader: SplitReader
    options: WriteOptions


def write_split(task: SplitTask, report: Callable[[int, int], None] | None = None) -> Receipt:
    """Write a split and return its receipt, or that of the attempt that was faster.

    `report(rows, read_bytes)` is told of what was done since the last call, several times a second. An error
    leaves nothing behind.
    """
    raise NotImplementedError
