"""Retention: which of a log's oldest segments may be deleted.

Three rules apply one after the other: segments below the log start, over `retention.bytes`, and older than
`retention.ms`. Each takes segments from the old end up to the first that it must keep. No rule passes the
high watermark. The active segment qualifies too unless it is empty. Only the first rule applies to a log that
is only compacted (Kafka class `UnifiedLog`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.storage.log.local_log import LogSegments
    from kcli.storage.log.log_config import LogConfig
    from kcli.storage.log.log_segment import LogSegment


class Retention(NamedTuple):
    """What the rules know of a log. Delete what a rule returns before asking the next one."""

    segments: LogSegments
    config: LogConfig
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    now_ms: int

    def below_log_start(self) -> list[LogSegment]:
        """Return the segments that end at or below the log start."""
        return self._oldest(
            lambda _, following: following is not None and following.base_offset <= self.log_start_offset
        )

    def over_size(self) -> list[LogSegment]:
        """Return the oldest segments that the log can lose without falling below `retention.bytes`."""
        surplus = self.segments.size_bytes - self.config.retention_bytes
        if self.config.retention_bytes < 0 or surplus < 0:
            return []

        def may_go(segment: LogSegment, _: LogSegment | None) -> bool:
            nonlocal surplus
            if surplus < segment.size:
                return False
            surplus -= segment.size
            return True

        return self._oldest(may_go)

    def over_age(self) -> list[LogSegment]:
        """Return the oldest segments whose newest record is older than `retention.ms`. Raises `OSError`."""
        if self.config.retention_ms < 0:
            return []
        return self._oldest(
            lambda segment, _: self.now_ms - segment.largest_timestamp > self.config.retention_ms
        )

    def _oldest(self, may_go: Callable[[LogSegment, LogSegment | None], bool]) -> list[LogSegment]:
        deletable = []
        for segment in self.segments:
            following = self.segments.higher(segment.base_offset)
            if following is None and not segment.size:
                break
            end_offset = self.log_end_offset if following is None else following.base_offset
            if self.high_watermark < end_offset or not may_go(segment, following):
                break
            deletable.append(segment)
        return deletable


def rules_of(config: LogConfig) -> tuple[Callable[[Retention], list[LogSegment]], ...]:
    """Return the rules that apply to a log, in order."""
    if config.is_deleted:
        return Retention.below_log_start, Retention.over_size, Retention.over_age
    return (Retention.below_log_start,)
