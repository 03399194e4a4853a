"""MetadataCopies: the metadata log of every node that is there, kept alike.

The node in office writes each decision into its own copy first, durably, and then, as it is, into those of
the nodes it reaches: all are on one machine, so one of them has to survive a power failure. A copy that has
missed something, because its node was down, paused or cut off, is brought level before it is written to
again: what it has and the other has not is cut off, what it lacks is copied, or the other's snapshot where
that begins later.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.broker.metadata.metadata_log import MetadataLog
from kcli.protocol.topics import METADATA_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

DAMAGED_PREFIX = "damaged-metadata-log."


class MetadataCopies:
    """The copies that are open, by node."""

    def __init__(self, *, wall_ms: Callable[[], int], report: Callable[[str], None]) -> None:
        self._wall_ms = wall_ms
        self._report = report
        self._logs: dict[int, MetadataLog] = {}

    def __iter__(self) -> Iterator[tuple[int, MetadataLog]]:
        """Iterate over (node id, copy)."""
        return iter(sorted(self._logs.items()))

    def __contains__(self, node_id: int) -> bool:
        return node_id in self._logs

    def __getitem__(self, node_id: int) -> MetadataLog:
        return self._logs[node_id]

    def open(self, node_id: int, log_directory: str) -> MetadataLog:
        """Open the copy of a node, or make an empty one. Raises as `MetadataLog.open` does."""
        log = MetadataLog.open(log_directory, node_id=node_id, wall_ms=self._wall_ms, report=self._report)
        self._logs[node_id] = log
        return log

    def close(self, node_id: int) -> None:
        """Let go of a copy; nothing happens if there is none. Raises `OSError`."""
        log = self._logs.pop(node_id, None)
        if log is not None:
            log.close()

    def newest(self, among: Iterable[int]) -> int | None:
        """Return which of these nodes has the newest copy, among equals the lowest; None if none has one."""
        known = [node_id for node_id in among if node_id in self._logs]
        return max(known, key=lambda node_id: (*self.version(node_id), -node_id), default=None)

    def version(self, node_id: int) -> tuple[int, int]:
        """Return the epoch and the end of a copy: the greater one knows more."""
        log = self._logs[node_id]
        return log.epoch, log.end_offset


def set_aside(log_directory: str) -> str:
    """Rename the damaged copy in a log directory; return what it is called now. Raises `OSError`."""
    number = 1
    while os.path.exists(kept := f"{log_directory}/{DAMAGED_PREFIX}{number}"):
        number += 1
    os.rename(f"{log_directory}/{METADATA_TOPIC}-0", kept)
    return kept


def bring_level(copy: MetadataLog, source: MetadataLog) -> None:
    """Have a copy hold what the source holds. Raises `OSError`."""
    agreed = copy.agrees_until(source)
    if min(agreed, copy.end_offset) < max(copy.start_offset, source.start_offset):
        snapshot = source.snapshot()
        if snapshot is None:
            copy.restart()
        else:
            copy.install(*snapshot, sync=False)
    elif agreed < copy.end_offset:
        copy.truncate(agreed)
    for batch in source.batches_from(copy.end_offset):
        copy.write(batch)
