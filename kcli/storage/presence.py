"""Presence: whether log directories, and the replicas in them, are still where they were opened.

What is removed or moved away under a running process can still be written, and nobody finds it again. Kafka
meets that when it next makes a file there: a checkpoint, a segment. Here it is looked for, so that what is
there again under its name, and a replica that never fills its segment, are noticed as well.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.storage.log_manager import LogManager
    from kcli.storage.unified_log import UnifiedLog


class PresencePlan:
    """Replicas to look for; `missing` are those without a directory, once it was run."""

    __slots__ = ("_places", "missing")

    def __init__(self, places: Sequence[tuple[UnifiedLog, str]]) -> None:
        self.missing: list[UnifiedLog] = []
        self._places = places

    def run(self) -> None:
        """Look for the directories, in any thread."""
        self.missing = [log for log, directory in self._places if not os.path.isdir(directory)]


def plan_presence(manager: LogManager) -> PresencePlan:
    """Take log directories offline that are gone; return what looks for the replicas in the others.

    Run it, in a thread, then call `commit_presence`.
    """
    for directory in manager.directories.online:
        if not directory.is_in_place():
            manager.directories.fail(directory, f"log directory `{directory.path}` was removed or replaced")
    return PresencePlan([(log, log.directory) for log in _all_logs(manager)])


def commit_presence(manager: LogManager, plan: PresencePlan) -> None:
    """Take the log directories offline in which replicas are gone.

    One that was deleted or renamed in the meantime is not: that is looked at again, in the logs' own thread.
    """
    for log in plan.missing:
        # Anew for each: the first that fails takes the others of its directory with it.
        if log.failure is None and log in _all_logs(manager) and not os.path.isdir(log.directory):
            log.failed("find", FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))


def _all_logs(manager: LogManager) -> tuple[UnifiedLog, ...]:
    return (*manager, *manager.future.logs.values())
