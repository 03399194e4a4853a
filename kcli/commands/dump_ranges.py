"""Dumping a long log by ranges in several processes: the same text, sooner.

The log is cut where a batch begins, searched for every `RANGE_BYTES` by its looks and its checksum. A batch
that is found inside of a record is no harm: a range is sound only if its batches end exactly where the next
range begins, so that all beginnings follow from that of the file. At the first range that is not, and for the
last bytes of the file, the dump goes on in this process.
"""

from __future__ import annotations

import io
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kcli.commands.dump_batches import BatchLines, Shown, prints_only_batches
from kcli.commands.dump_complaints import MOST_PAIRS, Complaints
from kcli.commands.dump_files import DumpFile, FileKind
from kcli.commands.dump_output import FLUSH_BYTES, DumpOutput
from kcli.commands.dump_pool import FrameWriter, Range, RangeEnd, RangePool, processors
from kcli.commands.dump_segment import SegmentDump
from kcli.commands.dump_text import TextDump
from kcli.protocol.record import CorruptRecord
from kcli.storage.batch_scan import MAX_RELATIVE_OFFSET, ScannedEntry, scan
from kcli.storage.entry_search import EntrySearch
from kcli.storage.segment_file import SegmentFile

if TYPE_CHECKING:
    from kcli.commands.dump_options import DumpOptions
    from kcli.commands.progress import Advance

LONG_BYTES = 32 * 1024 * 1024
"""From how many bytes on a log is worth it."""
RANGE_BYTES = 4 * 1024 * 1024
BATCHES_RANGE_BYTES = 16 * 1024 * 1024
"""Where batches alone are printed, which is little."""
MOST_HELD_BYTES = 16 * 1024 * 1024
"""How much text a process makes before it gives it back; at the beginning of a file, where someone waits for
it, less."""

BEFORE_ALL = -2
"""The offset before a range: which one it was is not known."""


def range_pool(files: Sequence[DumpFile], options: DumpOptions) -> RangePool | None:
    """Return processes that dump ranges of these files, None if there is nothing to gain."""
    if options.max_bytes is not None or options.continues:
        return None
    count = processors()
    if count < 2 or not any(is_long(file) for file in files):
        return None

    def work(wanted: Range, frames: FrameWriter) -> None:
        RangeDump(files[wanted.file], options).run(wanted, frames)

    return RangePool(work, count)


def is_long(file: DumpFile) -> bool:
    """Whether a file is a log that takes a while."""
    try:
        return file.kind is FileKind.LOG and os.stat(file.path).st_size >= LONG_BYTES
    except OSError:
        return False


def ranges_of(number: int, file: DumpFile, size: int, each: int) -> Iterator[Range]:
    """Yield ranges of so many bytes from the beginning of a log on; the last ones belong to none.

    Raises `OSError`.
    """
    assert file.offset is not None
    with SegmentFile(file.path) as segment:
        search = EntrySearch(segment, file.offset + MAX_RELATIVE_OFFSET)
        start = 0
        while start + 2 * each < size:
            found = search.next_entry(start + each, file.offset, start + 2 * each)
            if found is None:
                return
            yield Range(number, start, found.position)
            start = found.position


class RangeDump:
    """Dumps a range in a process of its own."""

    def __init__(self, file: DumpFile, options: DumpOptions) -> None:
        self._file = file
        self._options = options
        self._sink = io.BytesIO()
        self._gaps = GapCollector()
        self._view = TextDump(DumpOutput(self._sink), options, self._gaps)

    def run(self, wanted: Range, frames: FrameWriter) -> None:
        """Give the text of a range, up to where something is wrong with it."""
        if prints_only_batches(self._options):
            self._run_batches(wanted, frames)
        else:
            self._run_entries(wanted, frames)

    def _run_batches(self, wanted: Range, frames: FrameWriter) -> None:
        assert self._file.offset is not None
        lines = BatchLines(self._file.path, self._file.offset, Shown(next_position=wanted.start))
        try:
            text = b"".join(lines.run(wanted.end))
        except OSError:
            text = b""
        if text:
            frames.first_offset(lines.first_offset)
            frames.data(text)
        is_sound = lines.shown.next_position == wanted.end
        frames.end(RangeEnd(*lines.shown, -1, 0, is_sound))

    def _run_entries(self, wanted: Range, frames: FrameWriter) -> None:
        shown = Shown(next_position=wanted.start)
        most_held = MOST_HELD_BYTES if wanted.start else FLUSH_BYTES
        self._options.decoder.failures = 0
        self._view.resume(self._file, BEFORE_ALL)
        is_sound = False
        try:
            for item in scan(self._file.path, start=wanted.start, segment_base=self._file.offset):
                if not isinstance(item, ScannedEntry) or not item.is_whole or item.damages:
                    break
                if item.position >= wanted.end:
                    is_sound = item.position == wanted.end
                    break
                if shown.last_position < 0:
                    frames.first_offset(item.first_offset)
                self._show(item)
                shown = Shown(item.position, item.last_offset, item.end)
                if self._sink.tell() >= most_held:
                    frames.data(self._take())
        except (CorruptRecord, OSError):
            is_sound = False
        frames.data(self._take())
        frames.gaps(self._gaps.take())
        failures = self._options.decoder.failures
        frames.end(RangeEnd(*shown, self._view.last_record_offset, failures, is_sound))

    def _show(self, entry: ScannedEntry) -> None:
        """Print a batch, or nothing of it: its first records are worth nothing without what is wrong then."""
        self._view.flush()
        before = self._sink.tell(), self._view.last_record_offset, len(self._gaps.pairs)
        try:
            SegmentDump(self._file, self._options, self._view).show(entry)
            self._view.flush()
        except CorruptRecord:
            self._view.flush()
            self._sink.seek(before[0])
            self._sink.truncate()
            self._view.resume(self._file, before[1])
            del self._gaps.pairs[before[2] :]
            raise

    def _take(self) -> bytes:
        self._view.flush()
        data = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return data


class GapCollector(Complaints):
    """Keeps the offsets that do not follow on each other as numbers, to be sent elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: array[int] = array("q")

    def gaps(self, path: str, pairs: Iterable[tuple[int, int]]) -> None:
        """Keep pairs, but not endlessly many."""
        if len(self.pairs) < 2 * MOST_PAIRS:
            for pair in pairs:
                self.pairs.extend(pair)

    def take(self) -> array[int]:
        """Return the pairs and forget them."""
        pairs, self.pairs = self.pairs, array("q")
        return pairs


class RangedDump:
    """Dumps a long log by way of a pool, as far as it is sound."""

    def __init__(self, pool: RangePool, view: TextDump, options: DumpOptions, complaints: Complaints) -> None:
        self._pool = pool
        self._view = view
        self._options = options
        self._complaints = complaints
        self._given = 0
        self._taken = 0

    def takes(self, file: DumpFile) -> bool:
        """Whether a file is worth it."""
        return is_long(file)

    def run(self, number: int, file: DumpFile, advance: Advance) -> Shown:
        """Print what is sound; return how far that is. Raises `OSError`."""
        each = BATCHES_RANGE_BYTES if prints_only_batches(self._options) else RANGE_BYTES
        ranges = ranges_of(number, file, os.stat(file.path).st_size, each)
        pending: list[Range] = []
        last = RangeEnd(*Shown(), -1, 0, True)
        while True:
            while len(pending) < self._pool.capacity and (following := next(ranges, None)) is not None:
                pending.append(following)
                self._pool.give(self._given, following)
                self._given += 1
            if not pending:
                return Shown(*last[:3])
            wanted = pending.pop(0)
            end = self._take(file, last)
            if end is not None and end.last_position >= 0:
                last = end
                self._view.resume(file, end.last_record_offset)
                advance(wanted.end - wanted.start)
            if end is None or not end.is_sound:
                for _ in pending:
                    self._discard()
                return Shown(*last[:3])

    def _take(self, file: DumpFile, last: RangeEnd) -> RangeEnd | None:
        """Print the text of the next range; None, and nothing printed, if it does not follow on the last."""
        follows = True
        for frame in self._pool.take(self._next_number()):
            if isinstance(frame, int):
                follows = frame > last.last_offset
            elif isinstance(frame, bytes):
                if follows:
                    self._view.print(frame)
            elif isinstance(frame, array):
                if follows:
                    self._complain(file, frame, last)
            else:
                self._options.decoder.failures += frame.failures if follows else 0
                end = frame
        if end.last_record_offset < 0:
            end = end._replace(last_record_offset=last.last_record_offset)
        return end if follows else None

    def _complain(self, file: DumpFile, numbers: array[int], last: RangeEnd) -> None:
        pairs = list(zip(numbers[0::2], numbers[1::2], strict=True))
        if pairs and pairs[0][0] == BEFORE_ALL:
            pairs[0] = last.last_record_offset, pairs[0][1]
            if pairs[0][1] == pairs[0][0] + 1:
                del pairs[0]
        if self._options.filter.is_empty:
            self._complaints.gaps(file.path, pairs)

    def _discard(self) -> None:
        for _ in self._pool.take(self._next_number()):
            pass

    def _next_number(self) -> int:
        self._taken += 1
        return self._taken - 1
