"""CompactionProgress: how far the rounds of one `kcli broker compact` have come, for its progress bar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.protocol.topics import TopicPartition
    from kcli.storage.cleaning.cleaning_run import CleaningRun


class CompactionProgress:
    """The log that is compacted now and its round, which counts its bytes.

    The thread of a round calls `worked` for each piece of bytes; any thread may ask for the `row`.
    """

    __slots__ = ("_log", "_logs", "_number", "_on_work", "_run")

    def __init__(self, on_work: Callable[[dict[str, Any]], None] | None = None) -> None:
        self._on_work = on_work
        self._logs = self._number = 0
        self._log: TopicPartition | None = None
        self._run: CleaningRun | None = None

    def expect(self, logs: int) -> None:
        """Count so many logs in all."""
        self._logs = logs

    def begin_log(self, log: TopicPartition) -> None:
        """Go on with the next log, whose round is not planned yet."""
        self._number += 1
        self._log, self._run = log, None

    def begin_round(self, run: CleaningRun) -> None:
        """Follow the round on the log."""
        self._run = run

    def worked(self) -> None:
        """Report that the round has read or written something."""
        if self._on_work is not None:
            self._on_work(self.row())

    def row(self) -> dict[str, Any]:
        """Return the progress as JSON values; the bytes are those of this log, 0 before its plan is made."""
        run = self._run
        return {
            "log": "" if self._log is None else str(self._log),
            "number": self._number,
            "logs": self._logs,
            "bytes_read": 0 if run is None else run.bytes_read,
            "bytes_to_read": 0 if run is None else run.bytes_to_read,
        }
