"""Overwriting: what an overwriting commit dropped is removed once it is there, by whoever holds the lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.spark.job.export_log import DamagedLog, read_commit, read_plan
from kcli.spark.job.state_paths import commit_path, plan_path, receipts_path

if TYPE_CHECKING:
    from kcli.spark.job.export_log import ExportLog


def remove_dropped(log: ExportLog) -> None:
    """Remove the files and log of everything before an overwriting last commit; do nothing otherwise.

    A commit's own file goes last, so that what is interrupted is taken up again.
    """
    last = log.last
    if last is None or not last.overwrites:
        return
    _renew_identity(log)
    target = log.target
    live = {file.path for file in (*last.files, *last.dead_letters)}
    directories = set()
    for number in [one for one in log.commits if one < last.number]:
        try:
            dropped = read_commit(target, number)
        except DamagedLog:  # a repair has listed what there is in its own commit
            dropped = None
        for file in (*dropped.files, *dropped.dead_letters) if dropped else ():
            if file.path not in live:
                target.remove(file.path)
                directories.add(file.path.rpartition("/")[0])
        for entry in target.list(receipts_path(number)):
            target.remove(entry.path)
        target.remove_empty_directories(receipts_path(number))
        target.remove(plan_path(number))
        target.remove(commit_path(number))
        log.commits.remove(number)
    for directory in filter(None, directories):
        target.remove_empty_directories(directory)


def _renew_identity(log: ExportLog) -> None:
    assert log.last is not None
    try:
        identity = read_plan(log.target, log.last.number).identity
    except DamagedLog:  # a repair's commit has no plan
        return
    if identity != log.identity:
        log.write_identity(identity)
