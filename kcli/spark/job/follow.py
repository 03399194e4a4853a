"""Following: an export that is repeated until it is told to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.spark.job.engine import Engine, Progress
    from kcli.spark.job.options import ExportOptions, FollowOptions
    from kcli.spark.job.summary import Summary
    from kcli.spark.job.target import Target
    from kcli.spark.source import Source


def follow_export(
    source: Source,
    target: Target,
    options: ExportOptions,
    engine: Engine,
    progress: Progress,
    *,
    follow: FollowOptions,
) -> Summary:
    """Export again and again until SIGINT or SIGTERM, and return the sum of what was done.

    The first signal lets a running plan end and then ends the work; a second one raises `Interrupted` and
    leaves the plan to the next run.
    """
    raise NotImplementedError
