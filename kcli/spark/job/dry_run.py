"""The dry run: what an export would read, without writing anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.spark.job.options import ExportOptions
    from kcli.spark.job.summary import Gap
    from kcli.spark.job.target import Target
    from kcli.spark.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPartition:
    """What an export would read of one partition."""

    topic: str
    partition: int
    start: int
    end: int
    records: int
    """At most: offsets that compaction and transactions left empty count too."""
    size_bytes: int
    splits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """What an export would do."""

    target: str
    resumes_plan: int | None
    """The plan of an earlier run that would be finished first."""
    partitions: tuple[PlannedPartition, ...]
    files: int
    """About how many files there would be, without those of several dates."""
    gaps: tuple[Gap, ...] = ()


def plan_export(source: Source, target: Target, options: ExportOptions, *, slots: int = 1) -> DryRun:
    """Return what an export would read; raise what it would be refused for."""
    raise NotImplementedError
