"""The periodic work on all logs of a node, in synchronous pieces for the broker's housekeeping to call.

What is slow, fsyncs and unlinking, comes as plans, to be run in a thread and committed afterwards (Kafka
class `LogManager`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.errors import reason_of
from kcli.storage.file_deletion import DeletionPlan
from kcli.storage.flush_plan import plan_due_flush
from kcli.storage.retention import delete_old_segments

if TYPE_CHECKING:
    from kcli.storage.flush_plan import FlushPlan
    from kcli.storage.log_manager import LogManager
    from kcli.storage.unified_log import UnifiedLog


def apply_retention(manager: LogManager, now_ms: int) -> int:
    """Apply retention to every log that is not only compacted; return how many segments went."""
    return manager.each(lambda log: delete_old_segments(log, now_ms))


def flush_plans(manager: LogManager, now_ms: int) -> list[tuple[UnifiedLog, FlushPlan]]:
    """Return what to sync now: logs that rolled, or whose `flush.ms` or `flush.messages` is due.

    Run each plan, in a thread, and call `commit_flush`, or the log's `failed` with its `OSError`.
    """
    plans: list[tuple[UnifiedLog, FlushPlan]] = []

    def add_plan(log: UnifiedLog) -> int:
        plan = plan_due_flush(log, now_ms)
        if plan is not None:
            plans.append((log, plan))
        return 0

    manager.each(add_plan)
    return plans


def expire_producers(manager: LogManager, now_ms: int) -> int:
    """Forget the producers that have been silent too long; return how many."""
    return sum(log.producer_state.remove_expired(now_ms) for log in manager)


def plan_deletions(manager: LogManager, now_ms: int) -> DeletionPlan | None:
    """Return what unlinks the files and directories that were marked deleted long enough ago, if any.

    Run it, in a thread, then call `commit_deletions`.
    """
    due = manager.deletions.take_due(now_ms)
    for log in manager:
        due += log.take_due_deletions(now_ms)
    return DeletionPlan(due) if due else None


def commit_deletions(manager: LogManager, plan: DeletionPlan) -> None:
    """Take the directories offline where something could not be unlinked."""
    for path, error in plan.failures:
        manager.directories.path_failed(path, f"cannot delete `{path}`: {reason_of(error)}")
