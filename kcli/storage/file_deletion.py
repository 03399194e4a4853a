"""Deleting files: a list of what waits for its delay, and the plan that unlinks what is due.

Files and directories are renamed at once, and unlinked when `file.delete.delay.ms` has passed. What is due is
taken off the list by the thread that owns the logs; unlinking, slow for large files, is for any thread.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class PendingDeletions:
    """Paths that were marked deleted, each with the time of that and the time from which it may go."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items: list[tuple[int, int, str]] = []

    def add(self, path: str, *, now_ms: int, delay_ms: int) -> None:
        """Let a path go when the delay has passed."""
        self._items.append((now_ms, now_ms + delay_ms, path))

    def take_due(self, now_ms: int) -> list[str]:
        """Take out the paths that may go now; a clock that was set back since does not hold them up."""
        if not self._items:
            return []
        due = [path for marked_ms, due_ms, path in self._items if due_ms <= now_ms or now_ms < marked_ms]
        if due:
            self._items = [item for item in self._items if item[0] <= now_ms < item[1]]
        return due

    def moved_to(self, directory: str) -> None:
        """Take note that the directory of all the paths has another name now."""
        self._items = [
            (marked_ms, due_ms, f"{directory}/{os.path.basename(path)}")
            for marked_ms, due_ms, path in self._items
        ]


class DeletionPlan:
    """Paths to unlink; `failures` are those that could not be, once `run` has returned."""

    __slots__ = ("failures", "paths")

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths
        self.failures: list[tuple[str, OSError]] = []

    def run(self) -> None:
        """Unlink files and whole directories, in any thread; what is gone already is passed over."""
        # Its own imports are many, and a start deletes nothing.
        import shutil

        for path in self.paths:
            try:
                if os.path.isdir(path):
                    shutil.rmtree(path)
                else:
                    os.unlink(path)
            except FileNotFoundError:
                # The file of an offset that was used again had taken the place of one marked before it.
                continue
            except OSError as error:
                self.failures.append((path, error))
