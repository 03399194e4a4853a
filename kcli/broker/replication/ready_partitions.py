"""ReadyPartitions: the partitions that a follower's fetch session has something to tell about.

Partitions put their rows here as they change, so a session of a thousand idle partitions costs nothing.

| what changed | when the waiting fetch ends |
|---|---|
| records or leadership, or an error | at once |
| high watermark or log start offset | after `replica.fetch.wait.max.ms`, or with an earlier answer |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.waiting.pause_gate import Sleeper
from kcli.broker.waiting.timer import TimerCallback, monotonic_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kcli.broker.replication.fetch_data import FetchPartition
    from kcli.broker.waiting.timer import Timer


class ReadyPartitions:
    """The ready rows of one session, those that waited longest first."""

    __slots__ = (
        "_news",
        "_news_are_due",
        "_news_timer",
        "_sleeper",
        "_timer",
        "_wait_ms",
        "has_waited",
        "rows",
    )

    def __init__(self, timer: Timer, wait_ms: Callable[[], int]) -> None:
        self.rows: dict[FetchPartition, None] = {}
        """The partitions that may have records or an error."""
        self.has_waited = False
        """Whether other tasks could run during the last call."""
        self._news: dict[FetchPartition, None] = {}
        """The partitions whose offsets moved."""
        self._news_are_due = False
        self._news_timer: TimerCallback | None = None
        self._sleeper = Sleeper()
        self._timer = timer
        self._wait_ms = wait_ms

    @property
    def is_due(self) -> bool:
        """Whether a call can be answered right now."""
        return bool(self.rows) or self._news_are_due

    def note(self, row: FetchPartition) -> None:
        """Mark a partition that has records to read, or is not led here any more."""
        self.rows[row] = None
        if self._sleeper.task is not None:
            self._sleeper.wake()

    def note_all(self, rows: Iterable[FetchPartition]) -> None:
        """Mark partitions that may be read again."""
        self.rows.update(dict.fromkeys(rows))
        self._sleeper.wake()

    def note_offsets(self, row: FetchPartition) -> None:
        """Mark a partition whose high watermark or log start offset has moved."""
        self._news[row] = None
        if self._news_timer is None and not self._news_are_due:
            self._news_timer = TimerCallback(self.news_fell_due)
            self._timer.add(self._news_timer, max(self._wait_ms(), 1), monotonic_ms())

    def news_fell_due(self) -> None:
        """Answer with the moved offsets now."""
        self._cancel_news_timer()
        self._news_are_due = True
        self._sleeper.wake()

    def forget(self, row: FetchPartition) -> None:
        self.rows.pop(row, None)
        self._news.pop(row, None)

    def offsets_told(self, row: FetchPartition) -> None:
        """Note that an answer holds the offsets of a partition."""
        self._news.pop(row, None)

    def take_news(self) -> Iterable[FetchPartition]:
        """Return the partitions whose offsets moved since they were last told."""
        if not self._news and not self._news_are_due:
            return ()
        news, self._news = self._news, {}
        self._news_are_due = False
        self._cancel_news_timer()
        return news

    async def wait(self) -> None:
        """Return when a call can be answered, or after `wake`. Raises the error that `fail` was given."""
        self.has_waited = not self.is_due
        if self.has_waited:
            await self._sleeper.sleep()

    def wake(self) -> None:
        self._sleeper.wake()

    def fail(self, error: Exception) -> None:
        """Raise an error in the task that waits, if one does."""
        if self._sleeper.task is not None:
            self._sleeper.fail(error)

    def close(self) -> None:
        self._cancel_news_timer()

    def _cancel_news_timer(self) -> None:
        if self._news_timer is not None:
            self._timer.cancel(self._news_timer)
            self._news_timer = None
