"""FlushPlan: the fsyncs that make a log durable up to an offset.

Planned and committed by the thread that owns the log, run in any: the plan holds on to open files and
paths only, so the log may be appended to, rolled and truncated meanwhile. What is synced counts as such only
when the plan is committed: it may fail, or never be run.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.storage import disk
from kcli.storage.log_paths import PARTITION_METADATA

if TYPE_CHECKING:
    from kcli.storage.file_records import OpenFile
    from kcli.storage.unified_log import UnifiedLog


class FlushPlan:
    """Everything below `offset` is durable once `run` has returned and the log has committed the plan."""

    __slots__ = ("_directory", "_files", "epoch_changes", "offset", "paths", "snapshots", "truncations")

    def __init__(
        self, offset: int, *, truncations: int, files: list[OpenFile], paths: list[str], directory: str | None
    ) -> None:
        self.offset = offset
        self.truncations = truncations
        self.paths = paths
        self.epoch_changes = 0
        """Which state of the leader epochs is synced."""
        self.snapshots: tuple[int, ...] = ()
        """The producer snapshots that are synced."""
        self._files = files
        self._directory = directory

    def run(self) -> None:
        """Sync the log files, then the small files that exist, then the directory. Raises `OSError`."""
        for file in self._files:
            os.fsync(file.descriptor)
        for path in self.paths:
            # Never written, or deleted since: a segment's age or a truncation overtook the flush.
            with suppress(FileNotFoundError):
                disk.sync_path(path)
        if self._directory is not None:
            try:
                disk.sync_path(self._directory)
                disk.sync_path(os.path.dirname(self._directory))
            except FileNotFoundError:
                # The replica was deleted meanwhile.
                return


def plan_due_flush(log: UnifiedLog, now_ms: int) -> FlushPlan | None:
    """Return what to sync now: everything if a flush is due, what is rolled after a roll, or nothing.

    Raises `KafkaError` KAFKA_STORAGE_ERROR.
    """
    if log.local.is_flush_due(now_ms):
        return plan_flush(log)
    if log.local.has_rolled:
        return plan_flush(log, up_to=log.segments.active.base_offset)
    return None


def plan_flush(log: UnifiedLog, up_to: int | None = None) -> FlushPlan | None:
    """Bring the index files up to date and return what to sync, None if all is durable.

    Run the plan anywhere, then call `commit_flush`, or the log's `failed` with the `OSError` that it raised.
    The offset defaults to the log end. Raises `KafkaError` KAFKA_STORAGE_ERROR.
    """
    if log.failure is not None:
        # After an fsync that failed the next one may succeed without having written anything.
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, log.failure)
    offset = log.log_end_offset if up_to is None else up_to
    if offset <= log.recovery_point:
        return None
    epochs, snapshots = log.leader_epochs, tuple(log.unsynced_snapshots)
    paths = [log.snapshots.path(snapshot) for snapshot in snapshots]
    if epochs.changes != epochs.synced_changes:
        paths.append(epochs.path)
    if log.local.has_unflushed_files():
        paths.append(f"{log.directory}/{PARTITION_METADATA}")
    try:
        plan = log.local.plan_flush(offset, paths)
    except OSError as error:
        raise log.failed("flush", error) from error
    plan.snapshots, plan.epoch_changes = snapshots, epochs.changes
    return plan


def commit_flush(log: UnifiedLog, plan: FlushPlan, *, now_ms: int) -> None:
    """Raise the recovery point after a plan was run, unless the log was truncated or failed meanwhile."""
    if log.failure is not None:
        return
    log.leader_epochs.synced_changes = max(log.leader_epochs.synced_changes, plan.epoch_changes)
    log.unsynced_snapshots = [each for each in log.unsynced_snapshots if each not in plan.snapshots]
    log.local.commit_flush(plan, now_ms)


def flush(log: UnifiedLog, *, now_ms: int) -> None:
    """Make everything durable, at once. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
    plan = plan_flush(log)
    if plan is None:
        return
    try:
        plan.run()
    except OSError as error:
        raise log.failed("flush", error) from error
    commit_flush(log, plan, now_ms=now_ms)
