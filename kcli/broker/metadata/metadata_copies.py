"""MetadataCopies: the copies of the metadata log, one for each node of the process.

The controller writes a decision into the copy of its own node first, durably, then into those of the nodes
it reaches. All are on one machine, so one durable copy survives a power failure. A copy that missed
decisions, because its node was down, paused or cut off, is brought up to date by `MetadataLog.follow`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.broker.metadata.metadata_log import MetadataLog
from kcli.broker.metadata.metadata_replay import InvalidMetadata
from kcli.errors import KcliError
from kcli.protocol.topics import METADATA_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

DAMAGED_PREFIX = "damaged-metadata-log."


class MetadataCopies:
    """The copies that are open, by node."""

    def __init__(self, *, wall_ms: Callable[[], int], report: Callable[[str], None]) -> None:
        self._wall_ms = wall_ms
        self._report = report
        self._logs: dict[int, MetadataLog] = {}

    def __iter__(self) -> Iterator[tuple[int, MetadataLog]]:
        return iter(sorted(self._logs.items()))

    def __contains__(self, node_id: int) -> bool:
        return node_id in self._logs

    def __getitem__(self, node_id: int) -> MetadataLog:
        return self._logs[node_id]

    def open(self, node_id: int, log_directory: str) -> MetadataLog:
        """Open the copy of a node, or make an empty one. Raises `KcliError`, as `MetadataLog.open` does."""
        try:
            log = MetadataLog.open(log_directory, node_id=node_id, wall_ms=self._wall_ms, report=self._report)
        except OSError as error:
            raise KcliError(f"cannot open the metadata log in `{log_directory}`: {error.strerror}") from error
        self._logs[node_id] = log
        return log

    def open_all(self, log_directories: Mapping[int, str]) -> None:
        """Open copies; replace a damaged one if another is sound, and keep its files. Raises `KcliError`."""
        damaged: dict[int, InvalidMetadata] = {}
        for node_id, log_directory in log_directories.items():
            try:
                self.open(node_id, log_directory)
            except InvalidMetadata as found:
                damaged[node_id] = found
        if damaged and not any(log.end_offset for log in self._logs.values()):
            raise min(damaged.items())[1]
        for node_id, error in damaged.items():
            try:
                kept = _set_aside(log_directories[node_id])
            except OSError as failure:
                raise error from failure
            self._report(f"{error.message}; node {node_id} gets another copy, this one is kept in `{kept}`")
            self.open(node_id, log_directories[node_id])

    def close(self, node_id: int) -> None:
        """Close the copy of a node, if there is one. Raises `OSError`."""
        log = self._logs.pop(node_id, None)
        if log is not None:
            log.close()

    def newest(self, among: Iterable[int]) -> int | None:
        """Return the node with the newest copy, the lowest of equal ones, None if no copy is open."""
        known = [node_id for node_id in among if node_id in self._logs]
        return max(known, key=lambda node_id: (*self.version(node_id), -node_id), default=None)

    def version(self, node_id: int) -> tuple[int, int]:
        """Return the epoch and the end of a copy; the newer copy has the greater pair."""
        log = self._logs[node_id]
        return log.epoch, log.end_offset


def _set_aside(log_directory: str) -> str:
    """Rename the damaged copy in a log directory; return its new path. Raises `OSError`."""
    number = 1
    while os.path.exists(kept := f"{log_directory}/{DAMAGED_PREFIX}{number}"):
        number += 1
    os.rename(f"{log_directory}/{METADATA_TOPIC}-0", kept)
    return kept
