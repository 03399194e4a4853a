"""The run of an export: lock, resume what was begun, plan, run the tasks, commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.spark.job.engine import Engine, Progress
    from kcli.spark.job.options import ExportOptions
    from kcli.spark.job.summary import Summary
    from kcli.spark.job.target import Target
    from kcli.spark.source import Source


def run_export(
    source: Source, target: Target, options: ExportOptions, engine: Engine, progress: Progress
) -> Summary:
    """Export what was asked for and is not yet in the target, exactly once, and return what was done."""
    raise NotImplementedError
