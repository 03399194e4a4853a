"""FlushPlan: the fsyncs that make a log durable up to an offset.

Planned and committed by the thread that owns the log, run in any: the plan holds on to open files and
paths only, so the log may be appended to, rolled and truncated meanwhile.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.storage.log_paths import sync_directory

if TYPE_CHECKING:
    from kcli.storage.file_records import OpenFile


class FlushPlan:
    """Everything below `offset` is durable once `run` has returned and the log has committed the plan."""

    __slots__ = ("_directory", "_files", "epoch_changes", "offset", "paths", "snapshots", "truncations")

    def __init__(
        self, offset: int, truncations: int, files: list[OpenFile], paths: list[str], directory: str | None
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
            try:
                descriptor = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                # Never written, or deleted since: a segment's age or a truncation overtook the flush.
                continue
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        if self._directory is not None:
            try:
                sync_directory(self._directory)
                sync_directory(os.path.dirname(self._directory))
            except FileNotFoundError:
                # The replica was deleted meanwhile.
                return
