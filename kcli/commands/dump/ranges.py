"""RangedDump: dumps a long log by ranges in several processes, with the output of one.

The output of a range is printed only if the range begins where the one before it ended: see
`kcli.forensics.ranges.log_ranges`. If it does not, or the range has a fault, this process dumps the rest of
it.

A process sends, for each range: a `RangeStart`, pieces of output, a `FirstRecord` before the first record, an
array of pairs of offsets that do not follow each other, and a `RangeEnd`.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from kcli.commands.dump.text_lines import run_lines
from kcli.commands.dump.view import FirstRecord, Range
from kcli.commands.shared.output import OutputFormat
from kcli.forensics.contents.log_files import DumpFile, FileKind
from kcli.forensics.entries.segment_file import LONG_BYTES
from kcli.forensics.ranges.log_ranges import RangeEnd, RangeQueue, RangeReader, RangeStart, stretches
from kcli.forensics.ranges.worker_pool import MESSAGE_BYTES, Piece, Send, WorkerPool, processors

if TYPE_CHECKING:
    from kcli.commands.dump.options import DumpOptions
    from kcli.commands.dump.view import Layout, RangedView
    from kcli.commands.shared.progress import Advance

RANGE_BYTES = 4 * 1024 * 1024
BATCHES_RANGE_BYTES = 32 * 1024 * 1024
"""The size of ranges if only batches are printed: that is little output."""


ReadOn = Callable[[RangeEnd, int | None], RangeEnd]
"""Dumps a log in this process, from the end of a range up to a position or to its end; returns how far."""


def range_pool(files: Sequence[DumpFile], options: DumpOptions, form: OutputFormat) -> WorkerPool | None:
    """Return a pool that dumps ranges of these files, None if it would gain nothing."""
    if options.max_bytes is not None:
        return None
    count = processors()
    if count < 2 or not any(is_long(file) for file in files):
        return None

    def work(wanted: Range, send: Send) -> None:
        if has_batch_lines(options, form):
            dump_batches(files[wanted.file], wanted, send)
        else:
            from kcli.commands.dump.range_records import RangeRecords

            RangeRecords(files[wanted.file], options, form, send).run(wanted)

    return WorkerPool.forked(work, count)


def has_batch_lines(options: DumpOptions, form: OutputFormat) -> bool:
    """Whether a dump prints only batches, as text."""
    return options.shows_only_batches and form is OutputFormat.TEXT


def is_long(file: DumpFile) -> bool:
    try:
        return file.kind is FileKind.LOG and os.stat(file.path).st_size >= LONG_BYTES
    except OSError:
        return False


def dump_batches(file: DumpFile, wanted: Range, send: Send) -> None:
    assert file.offset is not None
    reader = RangeReader(file.path, file.offset, start=wanted.start, stop=wanted.end)
    text = bytearray()
    for item in reader.read():
        if isinstance(item, RangeStart):
            send(item)
            continue
        text += run_lines(item)
        if len(text) > MESSAGE_BYTES:
            send(text)
            text.clear()
    send(text)
    send(RangeEnd(reader.last_offset, reader.position, is_sound=reader.is_done))


class LongLogs:
    """Gives the ranges of long logs to a pool, those of the first log at once."""

    def __init__(
        self, pool: WorkerPool, files: Sequence[DumpFile], options: DumpOptions, form: OutputFormat
    ) -> None:
        self.queue = RangeQueue[Range](pool)
        self._count = pool.count
        self._files = files
        self._sizes: dict[int, int] = {}
        self._range_bytes = BATCHES_RANGE_BYTES if has_batch_lines(options, form) else RANGE_BYTES
        first = next((file for file in files if is_long(file)), None)
        if first is not None and form is not OutputFormat.TABLE:
            with suppress(OSError):  # reading the file reports it
                self.begin(first)

    def begin(self, file: DumpFile, layout: Layout | None = None) -> int:
        """Let the pool begin with a log, unless it has; return its size. Raises `OSError`, `WorkerGone`."""
        number = self._files.index(file)
        if number not in self._sizes:
            self._sizes[number] = os.stat(file.path).st_size
        parts = stretches(self._sizes[number], self._range_bytes, self._count)
        self.queue.begin(number, (Range(number, *part, layout) for part in parts))
        return self._sizes[number]


class RangedDump:
    """Dumps the sound parts of long logs with the help of a pool."""

    def __init__(self, logs: LongLogs, view: RangedView, options: DumpOptions) -> None:
        self._logs = logs
        self._queue = logs.queue
        self._view = view
        self._options = options

    def takes(self, file: DumpFile) -> bool:
        return is_long(file)

    def run(self, file: DumpFile, advance: Advance, read_on: ReadOn) -> None:
        """Print a log; `read_on` dumps the parts that are not sound. Raises `OSError` and `WorkerGone`."""
        last = RangeEnd(-1, 0)
        layout = self._view.begin_ranges(file)
        if layout is None:
            read_on(last, None)
            return
        size = self._logs.begin(file, layout if layout.names else None)
        while last.next_position < size and (wanted := self._queue.next()) is not None:
            before = last.next_position
            last = self._take(file, wanted, last)
            advance(last.next_position - before)
            if not last.is_sound:
                last = read_on(last, wanted.end if wanted.end < size else None)
        self._queue.discard()

    def _take(self, file: DumpFile, wanted: Range, last: RangeEnd) -> RangeEnd:
        """Print the next range, unless it does not follow on `last`; return how it ended."""
        view = self._view
        for message in self._queue.follow(last, wanted.end):
            match message:
                case FirstRecord():
                    view.follow(message.offset)
                case Piece():
                    view.print(message)
                case array():
                    view.gaps(zip(message[0::2], message[1::2], strict=True))
        end = self._queue.end
        if end.next_position > last.next_position:
            self._options.decoder.failures += end.failures
            if end.last_record_offset >= 0:
                view.resume(file, end.last_record_offset)
        return end
