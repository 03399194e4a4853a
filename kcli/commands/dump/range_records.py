"""RangeRecords: dumps the batches and records of a range in a process of its own, up to the first fault."""

from __future__ import annotations

import io
from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcli.commands.dump.dump_errors import MOST_PAIRS, DumpErrors
from kcli.commands.dump.forms import ranged_view
from kcli.commands.dump.segment import SegmentDump
from kcli.commands.dump.view import FLUSH_BYTES, DumpOutput, FirstRecord, Layout, Range
from kcli.forensics.entries.scanned_entry import ScannedEntry
from kcli.forensics.entries.segment_file import SegmentFile
from kcli.forensics.entries.segment_scan import scan
from kcli.forensics.ranges.log_ranges import RangeEnd, RangeStart, begin_of
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch import RecordBatch

if TYPE_CHECKING:
    from kcli.commands.dump.options import DumpOptions
    from kcli.commands.shared.output import OutputFormat
    from kcli.forensics.contents.log_files import DumpFile
    from kcli.forensics.ranges.worker_pool import Send

MOST_HELD_BYTES = 16 * 1024 * 1024
"""How much output a process collects before it sends it; less in the first range: a user waits for it."""

OFFSET_BYTES = 8


class RangeRecords:
    """Dumps a range of a file, and sends the output and what the parent must know."""

    def __init__(self, file: DumpFile, options: DumpOptions, form: OutputFormat, send: Send) -> None:
        self._file = file
        self._options = options
        self._send = send
        self._sink = io.BytesIO()
        self._gaps = GapCollector()
        self._view = ranged_view(form, options, self._gaps, DumpOutput(self._sink))
        self._segment = SegmentDump(file, options, self._view)
        self._first: tuple[int, int] | None = None
        """How much output comes before the first record shown, and its offset."""

    def run(self, wanted: Range) -> None:
        """Dump a range up to its first fault."""
        last_offset, position = -1, wanted.start
        most_held = MOST_HELD_BYTES if wanted.start else FLUSH_BYTES
        self._options.decoder.failures = 0
        self._view.begin_range(self._file, wanted.layout or Layout(), self._note_first)
        try:
            with SegmentFile(self._file.path) as segment:
                begin = begin_of(segment, self._file.offset or 0, start=wanted.start, stop=wanted.end)
            for item in scan(self._file.path, start=begin, segment_base=self._file.offset):
                if not isinstance(item, ScannedEntry) or not item.is_whole or item.damages:
                    break
                if item.position >= wanted.end:
                    break
                self._show(item)
                if last_offset < 0:  # the range begins with a batch that can be shown
                    self._send(self._start_of(item))
                last_offset, position = item.last_offset, item.end
                if self._sink.tell() >= most_held:
                    self._give()
        except (CorruptRecord, OSError):
            pass  # the process that goes on from there meets the error again
        self._give()
        self._send(self._gaps.pairs)
        failures, last_record = self._options.decoder.failures, self._view.last_record_offset
        self._send(RangeEnd(last_offset, position, last_record, failures, position >= wanted.end))

    def _start_of(self, entry: ScannedEntry) -> RangeStart:
        batch = entry.batch
        if isinstance(batch, RecordBatch):
            span = batch.last_offset_delta + 1
        else:
            span = 0 if batch.is_compressed else 1
        with SegmentFile(self._file.path) as segment:
            following = segment.read(entry.end, OFFSET_BYTES)
        is_there = len(following) == OFFSET_BYTES
        offset = int.from_bytes(following, "big") if is_there else None
        return RangeStart(entry.position, entry.first_offset, span, offset)

    def _show(self, entry: ScannedEntry) -> None:
        """Show a batch whole or not at all: the parent shows one that has a fault."""
        self._view.flush()
        before = self._sink.tell(), self._view.last_record_offset, len(self._gaps.pairs), self._first
        try:
            self._segment.show(entry)
            self._view.flush()
        except CorruptRecord:
            self._view.flush()
            self._sink.seek(before[0])
            self._sink.truncate()
            self._view.resume(self._file, before[1])
            del self._gaps.pairs[before[2] :]
            self._first = before[3]
            raise

    def _note_first(self, offset: int) -> None:
        self._view.flush()
        self._first = self._sink.tell(), offset

    def _give(self) -> None:
        self._view.flush()
        data = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        at = 0
        if self._first is not None:
            at, offset = self._first
            self._send(memoryview(data)[:at])
            self._send(FirstRecord(offset))
            self._first = None
        self._send(memoryview(data)[at:])


class GapCollector(DumpErrors):
    """Keeps pairs of offsets that do not follow each other as numbers, to be sent."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: array[int] = array("q")

    def gaps(self, path: str, pairs: Iterable[tuple[int, int]]) -> None:
        if len(self.pairs) < 2 * MOST_PAIRS:
            for pair in pairs:
                self.pairs.extend(pair)
