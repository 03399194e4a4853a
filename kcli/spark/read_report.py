"""ReadReport: what reading a split met, from the worker that read it to the one that writes it.

Spark runs them as two Python processes of one task, with its own engine in between, which carries rows and
nothing else. They are on one machine: the report is a file in its temporary directory, named by the task.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.spark.job.receipt import WrittenFile
from kcli.spark.reading import BatchMark, OffsetInterval

if TYPE_CHECKING:
    from kcli.spark.job.task import SplitTask


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReport:
    """Counts of one attempt at one split."""

    rows: int = 0
    bytes_read: int = 0
    bad_values: int = 0
    corrupt_batches: int = 0
    corrupt_bytes: int = 0
    dead_letter_batches: int = 0
    dead_letter_rows: int = 0
    dead_letters: tuple[WrittenFile, ...] = ()
    """Files of rows whose keys or values do not fit, under their temporary names."""
    missing: tuple[OffsetInterval, ...] = ()
    marks: tuple[BatchMark, ...] = ()

    def leave(self, task: SplitTask, attempt_id: int) -> None:
        """Write the report; its reader may begin as soon as the last row has come."""
        path = _path(task, attempt_id)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(asdict(self)))
        os.replace(temporary, path)


def take_report(task: SplitTask, attempt_id: int) -> ReadReport | None:
    """Return and remove the report of an attempt, None where the reader leaves none."""
    path = _path(task, attempt_id)
    try:
        fields = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    path.unlink()
    fields["missing"] = tuple(OffsetInterval(*one) for one in fields["missing"])
    fields["marks"] = tuple(BatchMark(*one) for one in fields["marks"])
    fields["dead_letters"] = tuple(WrittenFile(**one) for one in fields["dead_letters"])
    return ReadReport(**fields)


def _path(task: SplitTask, attempt_id: int) -> Path:
    return Path(tempfile.gettempdir(), f"kcli-{task.plan_id}-{task.index}-{attempt_id}.json")
