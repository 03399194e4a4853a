"""CleaningRun: the work of one round, group by group, in any thread but one at a time.

The first step reads the dirty part into the offset map. Each group of sources becomes one segment, written
beside them as `.cleaned`; the sources stay untouched until the swap. A round whose flag is set ends with
`CleaningDiscarded`, and its files are gone; groups that were swapped before stay, because what they dropped
is replaced by records that the log still has.

The work pauses every millisecond, so that the thread of an event loop soon gets its turn.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.protocol.compression.codecs import Codec, decompress
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch_header import CONTROL_BIT, HEADER_SIZE, MAGIC, BatchHead
from kcli.protocol.records.record_filter import index_keys
from kcli.storage import disk
from kcli.storage.cleaning.batch_filter import UNTOUCHED, BatchFilter, control_type_in
from kcli.storage.cleaning.cleaned_transactions import CleanedTransactions
from kcli.storage.cleaning.cleaning_stats import CleaningStats
from kcli.storage.cleaning.offset_map import ENTRY_BYTES, KEY_FORM, OffsetMap, stored_key
from kcli.storage.cleaning.segment_groups import Measured, group_segments
from kcli.storage.cleaning.segment_writer import SegmentWriter
from kcli.storage.log.file_records import ReadOnlyRecords
from kcli.storage.log_paths import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    segment_path,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kcli.storage.cleaning.cleaning_job import CleaningJob, SourceSegment
    from kcli.storage.log.file_records import FileRecords

WORK_SECONDS = 0.001
PAUSE_SECONDS = 0.0001


class CleaningDiscarded(KcliError):
    """The log has changed under a round, whose result is void."""


class CleanedSegments:
    """A segment that takes the place of `sources`, in files named `.cleaned`."""

    __slots__ = ("directory", "job", "size", "sources")

    def __init__(self, job: CleaningJob, sources: list[int], size: int) -> None:
        self.job = job
        self.directory = job.directory
        self.sources = sources
        """The base offsets of the sources, of which the first is that of the segment."""
        self.size = size

    @property
    def base_offset(self) -> int:
        return self.sources[0]

    def remove(self) -> None:
        """Delete the files, as far as they exist. Raises `OSError`."""
        for suffix in SEGMENT_SUFFIXES:
            with suppress(FileNotFoundError):
                os.unlink(segment_path(self.directory, self.base_offset, suffix + CLEANED_SUFFIX))

    def sync_directory(self) -> None:
        """Make the renames of the swap durable, in any thread. Raises `OSError`."""
        disk.sync_path(self.directory)


class Pauses:
    """Interrupts the work of a thread every `WORK_SECONDS`."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def maybe(self) -> None:
        """Sleep for a moment if it is time to."""
        if time.perf_counter() - self._since >= WORK_SECONDS:
            time.sleep(PAUSE_SECONDS)
            self._since = time.perf_counter()


class CleaningRun:
    """One round: `next_group` until it returns None; then `end_offset` and `stats` are known."""

    def __init__(
        self,
        job: CleaningJob,
        *,
        throttle: Callable[[int], None],
        is_discarded: Callable[[], bool],
        is_dry: bool = False,
    ) -> None:
        self.job = job
        self.stats = CleaningStats()
        self.is_map_full = False
        self.bytes_read = 0
        self.bytes_to_read = sum(source.size for source in (*self._dirty(), *job.sources))
        """Of log files, by both passes. Exact from the first step on: its pass may end early."""
        self._throttle = throttle
        self._is_discarded = is_discarded
        self._is_dry = is_dry
        self._map = OffsetMap(job.map_bytes)
        self._pauses = Pauses()
        self._groups: Iterator[CleanedSegments] | None = None

    @property
    def end_offset(self) -> int:
        """Up to where the round cleans; known after the first step."""
        return self._map.end

    def next_group(self) -> CleanedSegments | None:
        """Write the next cleaned segment and return it, None after the last one.

        Raises `CleaningDiscarded`, `CorruptRecord` and `OSError` (see `Compaction.misses`); no `.cleaned`
        file is left then.
        """
        if self._groups is None:
            self._groups = self._clean()
        try:
            return next(self._groups, None)
        except (CorruptRecord, FileNotFoundError) as error:
            # What looks like damage may be a truncation under way; files of a deleted log have other names.
            if self._is_void():
                raise CleaningDiscarded("the log has changed") from error
            raise

    def _check(self) -> None:
        if self._is_void():
            raise CleaningDiscarded("the log has changed")

    def _is_void(self) -> bool:
        return self.job.cleaning.is_discarded or self._is_discarded()

    def _clean(self) -> Iterator[CleanedSegments]:
        job, stats = self.job, self.stats
        self._fill_map()
        stats.map_utilization = self._map.utilization
        transactions = CleanedTransactions(job.aborted)
        batches = BatchFilter(job, self._map, transactions, stats)
        clean = [source for source in job.sources if source.base_offset < job.first_dirty]
        legacy_horizon_ms = 0
        if clean:
            legacy_horizon_ms = self._modified_ns(clean[-1]) // 1_000_000 - job.config.delete_retention_ms
        sources = {source.base_offset: source for source in job.sources if source.base_offset < self._map.end}
        self.bytes_to_read = self.bytes_read + sum(source.size for source in sources.values())
        groups = group_segments(
            [self._measured(source) for source in sources.values()],
            segment_bytes=job.config.segment_bytes,
            index_bytes=job.config.segment_index_bytes,
            end_offset=job.first_uncleanable,
        )
        for group in groups:
            members = [sources[each.base_offset] for each in group]
            yield self._clean_group(members, batches, legacy_horizon_ms)

    def _clean_group(
        self, members: list[SourceSegment], batches: BatchFilter, legacy_horizon_ms: int
    ) -> CleanedSegments:
        job, stats = self.job, self.stats
        writer = SegmentWriter(
            job.directory,
            members[0].base_offset,
            config=job.config,
            throttle=self._throttle,
            is_real=not self._is_dry,
        )
        batches.transactions.on_kept_abort = writer.add_aborted
        try:
            for source in members:
                modified_ns = self._modified_ns(source)
                batches.drop_legacy_tombstones = modified_ns // 1_000_000 <= legacy_horizon_ms
                self._clean_segment(source, batches, writer)
            writer.finish(modified_ns)
            self._check()
        except BaseException:
            writer.remove()
            raise
        stats.segments_before += len(members)
        stats.segments_after += 1
        stats.bytes_before += sum(source.size for source in members)
        stats.bytes_after += writer.size
        return CleanedSegments(job, [source.base_offset for source in members], writer.size)

    def _clean_segment(self, source: SourceSegment, batches: BatchFilter, writer: SegmentWriter) -> None:
        """Write what stays of one source."""
        records = self._records(source)
        stats = self.stats
        for position, run in self._runs(source, records, 0):
            view = memoryview(run)
            at = untouched = 0
            while at < len(run):
                head, data = batches.filter(run, at)
                stats.records_before += max(head.count, 0)
                size = head.size_in_bytes
                if data is UNTOUCHED:
                    writer.index(size, head.last_offset, head.max_timestamp)
                else:
                    writer.keep(records, position + untouched, view[untouched:at])
                    untouched = at + size
                    if data:
                        writer.index(len(data), batches.last_offset, batches.max_timestamp)
                        writer.write(data)
                at += size
                self._pauses.maybe()
            writer.keep(records, position + untouched, view[untouched:at])
            writer.flush()

    def _fill_map(self) -> None:
        """Enter the keys of the dirty part into the map, as far as it has room."""
        job, offset_map = self.job, self._map
        # Of older ones the walk would not see the end.
        transactions = CleanedTransactions(
            each for each in job.aborted if each.last_offset >= job.first_dirty
        )
        offset_map.end = job.first_dirty
        for source in self._dirty():
            records = self._records(source)
            for _, run in self._runs(source, records, self._start_in(source, records)):
                self.stats.map_bytes_read += len(run)
                at = 0
                while at < len(run):
                    head = BatchHead.at(run, at)
                    if head.base_offset >= job.first_uncleanable:
                        break
                    if not self._map_batch(run, head, transactions):
                        self.is_map_full = True
                        return
                    at = head.end
                    self._pauses.maybe()
        offset_map.end = job.first_uncleanable

    def _dirty(self) -> list[SourceSegment]:
        """Return the sources from the one that holds the first dirty offset on."""
        job = self.job
        return [
            source
            for source, following in zip(job.sources, (*job.sources[1:], None), strict=True)
            if following is None or following.base_offset > job.first_dirty
        ]

    def _map_batch(self, run: bytes, head: BatchHead, transactions: CleanedTransactions) -> bool:
        """Enter the keys of one batch; return False if they do not fit."""
        first_dirty = self.job.first_dirty
        offset_map = self._map
        last_offset = head.last_offset
        if head.magic == MAGIC and head.attributes & CONTROL_BIT:
            transactions.is_needless(control_type_in(run, head), head.producer_id, last_offset)
        elif head.is_transactional and transactions.is_aborted(head.producer_id, last_offset):
            pass
        elif last_offset >= first_dirty:
            is_first = offset_map.end <= first_dirty
            room = 2**62 if is_first else offset_map.room
            if head.magic == MAGIC:
                data = run[head.position + HEADER_SIZE : head.end]
                if head.codec is not Codec.NONE and head.count:
                    data = decompress(head.codec, data)
                left = index_keys(
                    data,
                    0,
                    head.count,
                    head.base_offset,
                    offset_map.offsets,
                    (first_dirty, room, ENTRY_BYTES),
                    KEY_FORM,
                )
            else:
                left = self._map_legacy(run, head, room)
            if left < 0:
                return False
            offset_map.room -= room - left
        offset_map.end = max(last_offset + 1, offset_map.end)
        return True

    def _map_legacy(self, run: bytes, head: BatchHead, room: int) -> int:
        """Enter the keys of an entry of magic 0 or 1; return the room left, -1 if they do not fit."""
        # Imported here: few logs hold the older formats.
        from kcli.protocol.records.message_set import LegacyEntry

        offsets = self._map.offsets
        for record in LegacyEntry(run, head.position).records():
            if record.key is not None and record.offset >= self.job.first_dirty:
                key = stored_key(record.key)
                if key not in offsets:
                    room -= ENTRY_BYTES + len(key)
                    if room < 0:
                        return -1
                offsets[key] = record.offset
        return room

    def _start_in(self, source: SourceSegment, records: FileRecords) -> int:
        """Return the position of the batch of a source that holds the first dirty offset."""
        if source.base_offset >= self.job.first_dirty:
            return 0
        entry = records.search(self.job.first_dirty, 0)
        return source.size if entry is None else entry.position

    def _runs(
        self, source: SourceSegment, records: FileRecords, position: int
    ) -> Iterator[tuple[int, bytes]]:
        """Yield the runs of whole batches of a source. Raises `CorruptRecord` if it does not end with one."""
        for run_position, run in records.scan(position, run_bytes=self.job.read_bytes):
            self.bytes_read += len(run)
            self._throttle(len(run))
            self._check()
            yield run_position, run
            position = run_position + len(run)
        if position != source.size:
            raise CorruptRecord(
                f"{source.size - position} bytes behind the last batch of a closed segment: `{records.path}`"
            )

    def _records(self, source: SourceSegment) -> FileRecords:
        return ReadOnlyRecords(self._path(source, LOG_SUFFIX), source.size)

    def _path(self, source: SourceSegment, suffix: str) -> str:
        return segment_path(self.job.directory, source.base_offset, suffix)

    def _modified_ns(self, source: SourceSegment) -> int:
        return os.stat(self._path(source, LOG_SUFFIX)).st_mtime_ns

    def _measured(self, source: SourceSegment) -> Measured:
        sizes = []
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            path = self._path(source, suffix)
            sizes.append(os.path.getsize(path) if os.path.exists(path) else 0)
        return Measured(source.base_offset, source.size, *sizes)


def run_job(
    job: CleaningJob,
    *,
    throttle: Callable[[int], None] = lambda size: None,
    is_discarded: Callable[[], bool] = lambda: False,
    is_dry: bool = False,
) -> CleaningRun:
    """Return the work of a round. `throttle` may sleep; it is told the bytes read and written, as they are.

    A dry run writes nothing, and its results must not be swapped in. `is_discarded` is asked besides the
    flag of the job.
    """
    return CleaningRun(job, throttle=throttle, is_discarded=is_discarded, is_dry=is_dry)
