"""Whether a target may be exported to at all; nothing is changed here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.spark.job.failures import TargetRefused
from kcli.spark.job.local_target import LocalTarget
from kcli.spark.job.options import Mode
from kcli.spark.job.state_paths import IDENTITY, STATE

if TYPE_CHECKING:
    from kcli.spark.job.export_log import ExportLog
    from kcli.spark.job.target import Target


def check_ours(target: Target) -> None:
    """Raise `TargetRefused` for what is no directory, or holds files that no export wrote."""
    if isinstance(target, LocalTarget) and os.path.exists(target.root) and not os.path.isdir(target.root):
        raise TargetRefused(f"not a directory: `{target.uri}`")
    if target.size(IDENTITY) is not None:
        return
    foreign = _first_foreign(target)
    if foreign:
        raise TargetRefused(
            f"`{target.uri}` holds files that are not of an export: `{foreign}`",
            hint="export to an empty or new directory; if the files are an export that lost its `_kcli`, "
            "make that again with `--repair`",
        )


def check_whole(log: ExportLog) -> None:
    """Raise `TargetRefused` if there are data files and the log knows of nothing."""
    if log.commits or log.pending is not None:
        return
    for entry in log.target.list("", recursive=True):
        if entry.path.endswith(".parquet") and not entry.path.startswith(f"{STATE}/"):
            raise TargetRefused(
                f"`{log.target.uri}` has lost its log: no commit knows of `{entry.path}`",
                hint="make the log again from the files with `--repair`",
            )


def check_mode(log: ExportLog, mode: Mode) -> None:
    """Raise `TargetRefused` for a snapshot into a target that holds an export."""
    if mode is Mode.SNAPSHOT and log.commits:
        raise TargetRefused(
            f"`{log.target.uri}` already holds an export",
            hint="add what is new with `--mode append`, or replace it with `--mode overwrite`",
        )


def _first_foreign(target: Target) -> str | None:
    if isinstance(target, LocalTarget):
        try:
            names = sorted(os.listdir(target.root))
        except FileNotFoundError:
            return None
        return next((name for name in names if name != STATE), None)
    entries = target.list("", recursive=True)
    return next((one.path for one in entries if not one.path.startswith(f"{STATE}/")), None)
