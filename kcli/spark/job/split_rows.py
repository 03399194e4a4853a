"""SplitRows: one attempt's way from a reader to files and a receipt."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from kcli import __version__
from kcli.spark.job.dead_letters import DeadBatches
from kcli.spark.job.receipt import Counters, Receipt
from kcli.spark.job.shaping import RowShaper
from kcli.spark.job.split_writer import Place, SplitWriter
from kcli.spark.reading import ReadCounters

if TYPE_CHECKING:
    from kcli.spark.job.task import SplitTask


class _Tell(Protocol):
    def __call__(self, counters: ReadCounters, *, now: bool = False) -> None: ...


class SplitRows:
    """Reads a split, shapes its rows and writes them."""

    def __init__(self, task: SplitTask, attempt: str) -> None:
        self._task = task
        self._attempt = attempt
        self._shaper = RowShaper(task.options)
        self._dead = DeadBatches(task.target, task.split, task.plan)
        self._writer = SplitWriter(
            Place(task.target, task.options.layout, task.split, task.stem, attempt),
            schema=self._shaper.schema,
            metadata=footer(task),
            parquet=task.options.parquet,
        )

    def write(self, tell: _Tell) -> Receipt:
        """Write all rows and return the receipt; the files stand under their temporary names."""
        task = self._task
        met = ReadCounters(on_damaged_batch=self._dead.keep)
        reading = replace(task.options.reading, columns=self._shaper.columns)
        rows = 0
        for batch in task.reader.read(task.split, reading, met):
            shaped = self._shaper.shape(batch)
            rows += shaped.rows.num_rows
            self._writer.add(*shaped)
            tell(met)
        files = self._writer.finish()
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
            counters=Counters(
                rows=rows,
                bytes_read=met.bytes_read,
                rows_filtered=0,
                corrupt_batches=met.corrupt_batches,
                corrupt_bytes=met.corrupt_bytes,
                dead_letter_batches=self._dead.count,
            ),
            missing=tuple(met.missing),
        )

    def discard(self) -> None:
        """Remove everything that this attempt wrote."""
        self._writer.discard()


def footer(task: SplitTask) -> dict[str, str]:
    """Return what files say of themselves: from it a lost log is made again."""
    split = task.split
    return {
        "kcli.topic": split.topic,
        "kcli.partition": str(split.partition),
        "kcli.start": str(split.start),
        "kcli.end": str(split.end),
        "kcli.plan": str(task.plan),
        "kcli.planned": f"{task.planned.start}-{task.planned.end}",
        "kcli.cluster": task.identity.cluster_id or "",
        "kcli.version": __version__,
        "kcli.identity": json.dumps(task.identity.to_json(), separators=(",", ":"), sort_keys=True),
    }
