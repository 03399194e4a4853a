"""Verbs for tests of exports: an engine in the same process, a run, and what is in a target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.dataset
import pyarrow.parquet as pq

from kcli.spark.export.engine import NoProgress, Progress
from kcli.spark.export.export_run import run_export
from kcli.spark.export.log.commit import Summary
from kcli.spark.export.log.export_log import list_export
from kcli.spark.export.log.receipt import Receipt
from kcli.spark.export.options import ExportOptions, WriteOptions
from kcli.spark.export.target.layout import STATE
from kcli.spark.export.target.local_target import LocalTarget
from kcli.spark.export.target.target import Target
from kcli.spark.export.writing.split_task import SplitTask
from kcli.spark.export.writing.task import write_split
from kcli.spark.source.ranges.selection import Subscribe
from kcli.spark.source.source import Source
from kcli.spark.split import COLUMNS, Reading
from tests.spark.export.fake_source import key_of, time_of, value_of

ALL_COLUMNS = WriteOptions(reading=Reading(columns=COLUMNS))


class InlineEngine:
    """Runs one task after the other, here."""

    slots = 1

    def run(self, tasks: Sequence[SplitTask], on_done: Callable[[Receipt], None], progress: Progress) -> None:
        for task in tasks:
            on_done(write_split(task, progress.advanced))

    def close(self) -> None:
        pass


@dataclass
class Watched(NoProgress):
    """Keeps what it was told."""

    rows: int = 0
    read_bytes: int = 0
    totals: list[tuple[int, int]] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def planned(self, splits: int, total_bytes: int) -> None:
        self.totals.append((splits, total_bytes))

    def advanced(self, rows: int, read_bytes: int) -> None:
        self.rows += rows
        self.read_bytes += read_bytes

    def finished(self, receipt: Receipt) -> None:
        self.receipts.append(receipt)

    def note(self, text: str) -> None:
        self.notes.append(text)


def options(*topics: str, **fields: object) -> ExportOptions:
    return ExportOptions(selection=Subscribe(topics or ("orders",)), **fields)  # type: ignore[arg-type]


def export(
    source: Source,
    target: Target | Path,
    asked: ExportOptions | None = None,
    *,
    engine: object = None,
    progress: Progress | None = None,
) -> Summary:
    return run_export(
        source,
        LocalTarget(str(target)) if isinstance(target, Path) else target,
        asked or options(),
        engine or InlineEngine(),  # type: ignore[arg-type]
        progress or NoProgress(),
    )


def offsets_in(target: Path) -> dict[tuple[str, int], list[int]]:
    """Return the offsets of every partition in the committed files, sorted, duplicates too."""
    found: dict[tuple[str, int], list[int]] = {}
    for file in list_export(LocalTarget(str(target))).files:
        offsets = pq.ParquetFile(target / file.path).read(columns=["offset"]).column("offset").to_pylist()
        for one in file.pieces:
            rows = offsets[one.first_row : one.first_row + one.rows]
            found.setdefault((file.topic, one.partition), []).extend(rows)
    return {one: sorted(offsets) for one, offsets in found.items()}


def offsets_on_disk(target: Path) -> dict[tuple[str, int], list[int]]:
    """Return the offsets of every partition as a plain reader of the directory finds them."""
    table = pyarrow.dataset.dataset(target, format="parquet", partitioning="hive").to_table(
        columns=["topic", "partition", "offset"]
    )
    found: dict[tuple[str, int], list[int]] = {}
    for row in table.to_pylist():
        found.setdefault((row["topic"], row["partition"]), []).append(row["offset"])
    return {one: sorted(offsets) for one, offsets in found.items()}


def files_in(target: Path) -> set[str]:
    """Return the paths of all files, hidden ones and the target's state too."""
    found = LocalTarget(str(target))
    return {entry.path for part in ("", STATE) for entry in found.list(part, recursive=True)}


def temporary_files(target: Path) -> list[str]:
    return [path for path in files_in(target) if path.rpartition("/")[2].startswith(".")]


def expected_row(offset: int, *, step_us: int = 1_000_000) -> dict[str, object]:
    """Return a row as the fake source makes it, without topic and partition."""
    return {
        "key": key_of(offset),
        "value": value_of(offset),
        "offset": offset,
        "timestamp": time_of(offset, step_us),
        "timestampType": 0,
    }
