"""Cleanable: how much of a log compaction may clean now, and what bounds it.

    log start <= first dirty <= first uncleanable <= base offset of the active segment

Records below the first dirty offset are clean: an earlier round has seen them. Nothing is cleaned from the
first uncleanable offset on: the smallest of the last stable offset, the active segment's base offset and,
with `min.compaction.lag.ms`, the base offset of the first dirty segment with a record that is younger
(Kafka classes `LogCleanerManager` and `LogToClean`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.storage.index.transaction_index import AbortedTransaction
    from kcli.storage.log.log_segment import LogSegment
    from kcli.storage.log.unified_log import UnifiedLog


class Bound(Enum):
    """What keeps a round from cleaning more."""

    ACTIVE_SEGMENT = "active segment"
    LAST_STABLE_OFFSET = "last stable offset"
    COMPACTION_LAG = "min.compaction.lag.ms"
    FULL_MAP = "full map"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanable:
    """The state of a log before a round; sizes in bytes."""

    first_dirty: int
    first_uncleanable: int
    bound: Bound
    clean_bytes: int
    cleanable_bytes: int
    overdue_ms: int
    """For how long the oldest dirty record waits beyond `max.compaction.lag.ms`, 0 if it does not."""
    has_invalid_checkpoint: bool
    """Whether the checkpointed offset lies outside the log: write `first_dirty` in its place."""
    unstable_producer_id: int | None
    """The producer whose open transaction bounds the round, None if it is another bound."""

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.cleanable_bytes

    @property
    def ratio(self) -> float:
        """The share of cleanable bytes in those up to the first uncleanable segment; 0 of an empty log."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    def is_eligible(self, min_cleanable_dirty_ratio: float) -> bool:
        """Whether a round should clean the log: it is dirty enough, or some record waits for too long."""
        return (self.overdue_ms > 0 and self.cleanable_bytes > 0) or self.ratio > min_cleanable_dirty_ratio


class LogToClean:
    """A log from the point of view of compaction (Kafka class `LogToClean`)."""

    __slots__ = ("log",)

    def __init__(self, log: UnifiedLog) -> None:
        self.log = log

    @property
    def has_invalid_checkpoint(self) -> bool:
        """Whether the checkpointed offset lies outside the log."""
        offset, log = self.log.cleaner_offset, self.log
        return offset is not None and not log.log_start_offset <= offset <= log.log_end_offset

    @property
    def first_dirty(self) -> int:
        """From where on the log is dirty: from its start if the checkpointed offset is not in the log."""
        offset = self.log.cleaner_offset
        return self.log.log_start_offset if offset is None or self.has_invalid_checkpoint else offset

    def measure(self, now_ms: int, *, ignore_lag: bool = False, as_if_rolled: bool = False) -> Cleanable:
        """Return how much of the log can be cleaned; `ignore_lag` is for `min.compaction.lag.ms`.

        With `as_if_rolled` the active segment counts as closed, and an empty one at the log end as active.
        Raises `OSError`.
        """
        log, first_dirty = self.log, self.first_dirty
        active = log.log_end_offset if as_if_rolled else log.segments.active.base_offset
        closed = self._closed_segments(active)
        bounds = {log.last_stable_offset: Bound.LAST_STABLE_OFFSET, active: Bound.ACTIVE_SEGMENT}
        lag_ms = 0 if ignore_lag else log.config.min_compaction_lag_ms
        if lag_ms > 0:
            young = next((each for each in closed if each.largest_timestamp > now_ms - lag_ms), None)
            if young is not None:
                bounds.setdefault(young.base_offset, Bound.COMPACTION_LAG)
        lowest = min(bounds)
        first_uncleanable = max(first_dirty, lowest)
        # The segment that holds the first uncleanable offset counts as uncleanable.
        limit = None if first_uncleanable >= active else log.segments.floor(first_uncleanable)
        limit_base = active if limit is None else limit.base_offset
        is_unstable = bounds[lowest] is Bound.LAST_STABLE_OFFSET
        return Cleanable(
            first_dirty=first_dirty,
            first_uncleanable=first_uncleanable,
            bound=bounds[lowest],
            clean_bytes=sum(each.size for each in log.segments if each.base_offset < first_dirty),
            cleanable_bytes=sum(each.size for each in closed if each.base_offset < limit_base),
            overdue_ms=self._overdue_ms(closed, now_ms),
            has_invalid_checkpoint=self.has_invalid_checkpoint,
            unstable_producer_id=self._open_producer(lowest) if is_unstable else None,
        )

    def aborted_in(self, sources: Sequence[LogSegment]) -> tuple[AbortedTransaction, ...]:
        """Return the aborted transactions that touch neighbouring segments, in the order of their markers.

        Raises `CorruptIndex` and `OSError`.
        """
        following = self.log.segments.higher(sources[-1].base_offset)
        upper = self.log.log_end_offset if following is None else following.base_offset
        aborted: list[AbortedTransaction] = []
        for segment in self.log.segments:
            found, is_complete = segment.indexes.transactions.collect(sources[0].base_offset, upper)
            aborted += found
            if is_complete:
                break
        return tuple(aborted)

    def _closed_segments(self, active: int) -> list[LogSegment]:
        """Return the segments below the active one, from the one that holds the first dirty offset on."""
        return self.log.segments.between(self.first_dirty, active) if self.first_dirty < active else []

    def _overdue_ms(self, closed: list[LogSegment], now_ms: int) -> int:
        """Return for how long the oldest dirty record waits beyond `max.compaction.lag.ms`."""
        deadline = now_ms - max(self.log.config.max_compaction_lag_ms, 0)
        if deadline <= 0:
            return 0
        timestamps = [each.indexes.first_timestamp for each in closed]
        oldest = min((timestamp for timestamp in timestamps if timestamp > 0), default=deadline)
        return max(deadline - oldest, 0)

    def _open_producer(self, offset: int) -> int | None:
        """Return the producer whose open transaction begins at an offset, None without one."""
        for entry in self.log.producer_state.producers.values():
            if entry.current_txn_first_offset == offset:
                return entry.producer_id
        return None
