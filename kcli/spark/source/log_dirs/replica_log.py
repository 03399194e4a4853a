"""ReplicaLog: the log of one replica as it is now: where it starts and ends, and what is in it.

The end is behind the last whole batch. Incomplete batches, of a broker that died or is writing, do not count,
nor do zeros of a preallocated file. Damage that intact batches follow is not the end.

A log is compared with the batches that earlier runs read. A batch with the offset of a mark tells by its
leader epoch. If it was deleted or compacted away, the checkpoint of leader epochs tells where the epoch ends;
without the checkpoint nothing does.

Timestamps need not ascend, so a search by time asks every segment. A time index entry says that no record up
to an offset is newer than a time; it counts if the batch at the offset has that time. As in brokers,
transaction markers count as records.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from kcli.errors import KcliError
from kcli.forensics.entries.scanned_entry import ScannedEntry, view_of
from kcli.forensics.entries.segment_file import SegmentFile
from kcli.forensics.entries.segment_scan import scan
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch_header import MAGIC
from kcli.spark.source.log_dirs.segment import (
    CannotRead,
    HeadWalk,
    floor_index,
    is_sound,
    list_segments,
    load_index,
    locate,
    path_of,
    reading,
    resynced,
)
from kcli.spark.source.log_dirs.transactions import heads_from, last_stable_offset
from kcli.spark.split import OffsetInterval
from kcli.storage.index.index_file import CorruptIndex
from kcli.storage.index.time_index import TimeIndex
from kcli.storage.log.leader_epochs import LeaderEpochs
from kcli.storage.log_paths import TIME_INDEX_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcli.protocol.records.batch_header import BatchHead
    from kcli.spark.source.log_dirs.replicas import Replica
    from kcli.spark.source.log_dirs.segment import Segment
    from kcli.spark.split import BatchMark


def divergence(
    segments: Sequence[Segment], epochs: LeaderEpochs, marks: Sequence[BatchMark], offsets: OffsetInterval
) -> int | None:
    """Return the lowest offset where a log differs, None if it has all batches of the marks.

    `epochs` are those of its checkpoint, `offsets` its range from start to end. Raises `OSError`.
    """
    found = [_divergence(segments, epochs, mark, offsets) for mark in marks]
    return min((offset for offset in found if offset is not None), default=None)


def _divergence(
    segments: Sequence[Segment], epochs: LeaderEpochs, mark: BatchMark, offsets: OffsetInterval
) -> int | None:
    written_by = _epoch_of(segments, mark.offset) if mark.offset >= offsets.start else None
    if written_by == mark.leader_epoch:
        return None
    if len(epochs):
        epoch, end = epochs.end_offset_for(mark.leader_epoch, offsets.end)
        if epoch != mark.leader_epoch or end <= mark.offset:
            return max(end, 0)
    return None if written_by is None else _first_above(segments, mark, offsets.start)


def _epoch_of(segments: Sequence[Segment], offset: int) -> int | None:
    """Return the leader epoch of the batch with an offset, None without such a batch."""
    for head, _ in heads_from(segments, offset):
        if head.last_offset >= offset:
            has_epoch = head.base_offset <= offset and head.magic == MAGIC
            return head.partition_leader_epoch if has_epoch else None
    return None


def _first_above(segments: Sequence[Segment], mark: BatchMark, start: int) -> int:
    """Return where the batches of later epochs begin, 0 if there are none before the mark."""
    for head, _ in heads_from(segments, start):
        if head.base_offset > mark.offset:
            break
        if max(head.partition_leader_epoch, 0) > mark.leader_epoch:
            return head.base_offset
    return 0


def log_end_offset(segments: Sequence[Segment]) -> int:
    """Return the offset behind the last whole batch, 0 without segments. Raises `OSError`."""
    if not segments:
        return 0
    segment = segments[-1]
    with SegmentFile(segment.path) as file:
        index = load_index(segment, file)
        position = index.last_position
        if position and not is_sound(segment, file, index.last_offset, position):
            position = 0
        end = segment.base_offset
        walk = HeadWalk(file, position)
        for head in walk:
            end = head.last_offset + 1
        # If no entry begins there it is the end, unless intact ones follow.
        items = scan(
            path_of(file), start=walk.position, end=file.end, resync=True, segment_base=segment.base_offset
        )
        for item in items:
            if isinstance(item, ScannedEntry) and item.is_valid and not item.damages:
                end = max(end, item.last_offset + 1)
    return end


def offset_for_timestamp(segments: Sequence[Segment], timestamp_ms: int, start: int, end: int) -> int | None:
    """Return the earliest offset in `start..end - 1` with a record at or after a time. Raises `OSError`."""
    for segment in segments[floor_index(segments, start) :]:
        if segment.base_offset >= end:
            return None
        found = _in_segment(segment, timestamp_ms, start)
        if found is not None:
            return found if found < end else None
    return None


def _in_segment(segment: Segment, timestamp_ms: int, start: int) -> int | None:
    with SegmentFile(segment.path) as file:
        position = _begin(segment, file, timestamp_ms, start)
        for head in resynced(segment, file, position):
            if head.max_timestamp >= timestamp_ms and head.last_offset >= start:
                found = _in_entry(head, file, timestamp_ms, start)
                if found is not None:
                    return found
    return None


def _begin(segment: Segment, file: SegmentFile, timestamp_ms: int, start: int) -> int:
    """Return a position; no matching entry begins before it."""
    index = load_index(segment, file)
    times = TimeIndex(segment.index_path(TIME_INDEX_SUFFIX), segment.base_offset, 0)
    try:
        times.load()
    except (FileNotFoundError, CorruptIndex):
        return locate(segment, file, start, index)
    latest, offset = times.lookup(timestamp_ms - 1)
    if latest < 0 or offset < start:
        return locate(segment, file, start, index)
    position = locate(segment, file, offset, index)
    head = next(resynced(segment, file, position), None)
    if head is None or head.max_timestamp != latest or head.last_offset < offset:
        return locate(segment, file, start, index)
    return position


def _in_entry(head: BatchHead, file: SegmentFile, timestamp_ms: int, start: int) -> int | None:
    """Return the first matching offset in an entry; the entry's own if its records cannot be read."""
    entry = view_of(file.read(head.position, head.size_in_bytes))
    try:
        for record in entry.records():
            if record.timestamp >= timestamp_ms and record.offset >= start:
                return record.offset
    except CorruptRecord:
        return max(head.base_offset, start)
    return None


T = TypeVar("T")
_ATTEMPTS = 5


class ReplicaLog:
    """The log of a replica; properties are computed once. Raises `CannotRead`. `report` gets warnings."""

    def __init__(self, replica: Replica, report: Callable[[str], None]) -> None:
        self.replica = replica
        self.segments = list_segments(replica.path)
        self._report = report

    def ask(self, question: Callable[[Sequence[Segment]], T]) -> T:
        """Return the answer that the segments give; list them again if a broker has deleted one."""
        for _ in range(_ATTEMPTS):
            try:
                with reading(self.replica.path):
                    return question(self.segments)
            except CannotRead as error:
                if not isinstance(error.__cause__, FileNotFoundError):
                    raise
                self.segments = list_segments(self.replica.path)
        raise KcliError(f"the files in `{self.replica.path}` disappear while they are read")

    @cached_property
    def start_offset(self) -> int:
        first = self.segments[0].base_offset if self.segments else 0
        return max(first, self.replica.log_start or 0)

    @cached_property
    def log_end_offset(self) -> int:
        """The offset behind the last whole batch, whether other replicas have it or not."""
        return max(self.ask(log_end_offset), self.start_offset)

    @cached_property
    def end_offset(self) -> int:
        """The end of what may be read: the high watermark, if it was checkpointed."""
        mark, end = self.replica.high_watermark, self.log_end_offset
        path = self.replica.path
        if mark is None:
            self._report(f"no high watermark of `{path}` is known: it is read to its end")
            return end
        if mark > end:
            self._report(f"`{path}` ends at offset {end}, below its high watermark {mark}")
        return max(min(mark, end), self.start_offset)

    @cached_property
    def last_stable_offset(self) -> int:
        """The offset up to which every transaction has ended."""
        start, end = self.start_offset, self.end_offset
        return max(self.ask(lambda segments: last_stable_offset(segments, start, end)), start)

    def divergence(self, marks: Sequence[BatchMark]) -> int | None:
        epochs = LeaderEpochs(self.replica.path)
        with reading(self.replica.path):
            epochs.load(self._report)
        start, end = self.start_offset, self.log_end_offset
        return self.ask(lambda segments: divergence(segments, epochs, marks, OffsetInterval(start, end)))

    def at_timestamp(self, timestamp_ms: int) -> int | None:
        start, end = self.start_offset, self.end_offset
        return self.ask(lambda segments: offset_for_timestamp(segments, timestamp_ms, start, end))
