"""LocalLog: the segments of one replica on disk: rolling, finding, flushing, truncating, deleting.

It knows files and positions. What records mean, producers, epochs and who may read how far, is the business
of the `UnifiedLog` around it, which also turns the `OSError` and `CorruptRecord` raised here into answers
(Kafka class `LocalLog`).

Everything below the recovery point is on disk for good; a start after a crash trusts it. Segments on their
way out are renamed to `.deleted` at once and deleted when `file.delete.delay.ms` has passed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.storage.file_deletion import PendingDeletions
from kcli.storage.file_records import EntryPosition
from kcli.storage.flush_plan import FlushPlan
from kcli.storage.log_read import LogOffsetMetadata
from kcli.storage.log_segment import LogSegment

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.storage.log_config import LogConfig
    from kcli.storage.log_segments import LogSegments
    from kcli.storage.transaction_index import AbortedTransaction

NO_ENTRY = EntryPosition(0, 0, -1, -1)


class LocalLog:
    """The segments in `directory`; there is always at least one."""

    __slots__ = (
        "_deletions",
        "_random_below",
        "_report",
        "_truncations",
        "config",
        "directory",
        "end_offset",
        "last_flushed_ms",
        "recovery_point",
        "segments",
    )

    def __init__(
        self,
        *,
        directory: str,
        config: LogConfig,
        segments: LogSegments,
        end_offset: int,
        recovery_point: int,
        now_ms: int,
        report: Callable[[str], None],
        random_below: Callable[[int], int],
    ) -> None:
        self.directory = directory
        self.config = config
        self.segments = segments
        self.recovery_point = recovery_point
        self.last_flushed_ms = now_ms
        self._report = report
        self._random_below = random_below
        self._deletions = PendingDeletions()
        self._truncations = 0
        self.set_end(end_offset)

    # --- the end

    def set_end(self, offset: int) -> None:
        """Take note that the next record gets `offset`, behind what the active segment holds now."""
        self.end_offset = offset
        if self.recovery_point > offset:
            self.recovery_point = offset

    def end(self) -> LogOffsetMetadata:
        """Return the end and where it is."""
        return LogOffsetMetadata(self.end_offset, self.segments.active.base_offset, self.segments.active.size)

    # --- find

    def locate(self, offset: int) -> LogOffsetMetadata:
        """Return where an offset within the log is. Raises `CorruptRecord` and `OSError`."""
        segment = self.segments.floor(offset) if offset < self.end_offset else None
        while segment is not None:
            entry = segment.find(offset)
            if entry is not None:
                return LogOffsetMetadata(offset, segment.base_offset, entry.position)
            segment = self.segments.higher(segment.base_offset)
        return self.end()

    def find_slice(
        self, offset: int, max_bytes: int, limit: LogOffsetMetadata, min_one: bool
    ) -> tuple[LogSegment, EntryPosition, int]:
        """Return segment, first batch and size of the slice from `offset` to the limit; size 0 if empty.

        Raises `CorruptRecord` and `OSError`.
        """
        segment = self.segments.floor(offset) if offset < limit.offset else None
        while segment is not None and segment.base_offset <= limit.segment_base_offset:
            entry = segment.find(offset)
            if entry is not None:
                # Never past the limit in its own segment: what lies behind may still be uncommitted.
                is_last = segment.base_offset == limit.segment_base_offset
                size = (limit.position if is_last else segment.size) - entry.position
                return segment, entry, min(size, max(max_bytes, entry.size) if min_one else max_bytes)
            # The records up to the next segment were compacted away.
            segment = self.segments.higher(segment.base_offset)
        return self.segments.active, NO_ENTRY, 0

    def aborted_in(self, offset: int, segment: LogSegment, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that touch the records from `offset` to file position `end`.

        Raises `CorruptIndex` and `OSError`.
        """
        upper = segment.indexes.offsets.upper_bound(end)
        if upper is None:
            higher = self.segments.higher(segment.base_offset)
            upper = self.end_offset if higher is None else higher.base_offset
        aborted: list[AbortedTransaction] = []
        current: LogSegment | None = segment
        while current is not None:
            found, complete = current.indexes.transactions.collect(offset, upper)
            aborted += found
            if complete:
                break
            current = self.segments.higher(current.base_offset)
        return aborted

    # --- roll

    def roll(self, base_offset: int, now_ms: int) -> LogSegment:
        """Finish the active segment and begin another. Raises `OSError`."""
        active = self.segments.active
        if active.base_offset == base_offset and not active.size:
            # An empty segment with a full index, or rolled for its age: it is made anew.
            self.remove(active, now_ms)
        elif base_offset <= active.base_offset:
            raise ValueError(f"cannot roll `{self.directory}` at offset {base_offset}")
        else:
            active.finish()
        segment = self._create_segment(base_offset, now_ms)
        self.set_end(self.end_offset)
        return segment

    def _create_segment(self, base_offset: int, now_ms: int) -> LogSegment:
        for path in LogSegment.paths(self.directory, base_offset):
            if os.path.exists(path):
                self._report(f"deleting a file in the way of a new segment: `{path}`")
                os.unlink(path)
        jitter_ms = min(self.config.segment_jitter_ms, self.config.segment_ms)
        segment = LogSegment.create(
            self.directory,
            base_offset,
            config=self.config,
            now_ms=now_ms,
            roll_jitter_ms=self._random_below(jitter_ms) if jitter_ms > 0 else 0,
            report=self._report,
        )
        self.segments.add(segment)
        return segment

    # --- truncate, delete

    def truncate_to(self, offset: int, now_ms: int) -> list[LogSegment]:
        """Drop the batches that end at or above `offset`, not below the first segment's base offset.

        Return the segments that went. Raises `CorruptRecord` and `OSError`.
        """
        self._truncations += 1
        removed = self.segments.above(offset)
        for segment in removed:
            self.remove(segment, now_ms)
        self.segments.active.truncate_to(offset, now_ms)
        self.set_end(offset)
        return removed

    def start_over_at(self, offset: int, now_ms: int) -> None:
        """Drop everything; the next record gets `offset`. Raises `OSError`."""
        self._truncations += 1
        for segment in self.segments:
            self.remove(segment, now_ms)
        self._create_segment(offset, now_ms)
        self.set_end(offset)

    def remove(self, segment: LogSegment, now_ms: int) -> None:
        """Take a segment out; its files are marked now and deleted later. Raises `OSError`."""
        self.segments.remove(segment)
        for path in segment.mark_deleted():
            self.delete_later(path, now_ms)

    def delete_later(self, path: str, now_ms: int) -> None:
        """Delete a file that was marked when the delay has passed."""
        self._deletions.add(path, now_ms=now_ms, delay_ms=self.config.file_delete_delay_ms)

    def take_due_deletions(self, now_ms: int) -> list[str]:
        """Return the paths of the files that were marked long enough ago, for the caller to delete."""
        return self._deletions.take_due(now_ms)

    # --- flush

    def is_flush_due(self, now_ms: int) -> bool:
        """Whether `flush.messages` or `flush.ms` asks for a flush up to the end."""
        unflushed = self.end_offset - self.recovery_point
        waited_ms = now_ms - self.last_flushed_ms
        # Below 0 the clock was set back; how long it has been is unknown.
        is_late = waited_ms >= self.config.flush_ms or waited_ms < 0
        return unflushed > 0 and (unflushed >= self.config.flush_messages or is_late)

    @property
    def has_rolled(self) -> bool:
        """Whether a segment that is not on disk for good has another behind it."""
        return self.recovery_point < self.segments.active.base_offset

    def has_unflushed_files(self) -> bool:
        """Whether there are segments whose very existence is not on disk for good."""
        return self.segments.active.base_offset >= self.recovery_point

    def plan_flush(self, offset: int, small_files: list[str]) -> FlushPlan:
        """Bring the index files up to date, and return what to sync up to `offset`. Raises `OSError`."""
        segments = self.segments.between(self.recovery_point, offset)
        for segment in segments:
            segment.indexes.write()
        files = [segment.records.handle for segment in segments]
        paths = [path for segment in segments for path in segment.index_paths()]
        directory = self.directory if self.has_unflushed_files() else None
        return FlushPlan(
            offset, truncations=self._truncations, files=files, paths=paths + small_files, directory=directory
        )

    def commit_flush(self, plan: FlushPlan, now_ms: int) -> None:
        """Raise the recovery point after a plan was run, unless the log was truncated meanwhile."""
        if plan.truncations == self._truncations and plan.offset > self.recovery_point:
            self.recovery_point = plan.offset
            self.last_flushed_ms = now_ms

    # --- life

    def rename_directory(self, path: str) -> None:
        """Move to another directory name. Raises `OSError`."""
        os.replace(self.directory, path)
        self._deletions.moved_to(path)
        self.directory = path
        for segment in self.segments:
            segment.moved_to(path)

    def close_handlers(self) -> None:
        """Let go of the files, writing nothing."""
        for segment in self.segments:
            segment.close_handlers()
