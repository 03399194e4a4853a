"""TableDump: the table form of a dump, for people; StreamedColumns: a table printed while its rows arrive."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from kcli.commands.dump.control_records import control_text
from kcli.commands.dump.segment import SegmentDump
from kcli.commands.dump.text_lines import CODEC_NAMES
from kcli.commands.dump.view import DumpOutput, Layout, OptionalLong, RangedView
from kcli.commands.shared.java import java_utf8
from kcli.commands.shared.output import OutputFormat, block_lines, note, screen_width
from kcli.escapes import escaped
from kcli.forensics.entries.scanned_entry import ScannedEntry, records_of
from kcli.forensics.entries.segment_scan import scan
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch import RecordBatch

if TYPE_CHECKING:
    from kcli.commands.dump.dump_errors import DumpErrors
    from kcli.commands.dump.options import DumpOptions
    from kcli.commands.dump.view import Row
    from kcli.forensics.contents.log_files import DumpFile
    from kcli.forensics.entries.damage import Damage
    from kcli.forensics.entries.scanned_entry import Batch, DumpedRecord


MEASURED_ROWS = 100
WIDEST_COLUMN = 40
GAP = "  "
MOST_SECONDS = 1024


class StreamedColumns:
    """A table of any number of rows; numbers are aligned to the right.

    The first rows decide the widths; a longer cell later moves only its own row. With a `layout` the table
    goes on below earlier rows. The last column may be as wide as it likes: nothing stands beside it.
    """

    def __init__(self, output: DumpOutput, names: Sequence[str], layout: Layout | None = None) -> None:
        self.names = names
        self.layout = layout
        self._output = output
        self._first_rows: list[Sequence[object]] = []

    def add(self, cells: Sequence[object]) -> None:
        """Print a row, or keep it until there are enough rows to decide the widths."""
        cells = [escaped(item) if isinstance(item, str) else item for item in cells]
        if self.layout is not None:
            self._print(cells, self.layout)
            return
        self._first_rows.append(cells)
        if len(self._first_rows) == MEASURED_ROWS:
            self.flush()

    def flush(self) -> None:
        if self.layout is not None:
            return
        rows = self._first_rows
        widths = [
            min(max(len(name), *(len(str(row[number])) for row in rows)), WIDEST_COLUMN)
            for number, name in enumerate(self.names)
        ]
        numbers = [all(type(row[number]) is int for row in rows) for number in range(len(self.names))]
        needed = sum(widths[:-1]) + len(GAP) * (len(widths) - 1) + len(self.names[-1])
        layout = Layout(self.names, widths, numbers, is_blocks=needed > screen_width())
        self.begin(layout)
        for row in rows:
            self._print(row, layout)
        self._first_rows = []

    def begin(self, layout: Layout) -> None:
        self.layout = layout
        if layout.is_blocks:
            return
        names = [
            name.rjust(width) if is_number else name.ljust(width)
            for name, width, is_number in zip(*layout[:3], strict=True)
        ]
        self._output.line(GAP.join(names).rstrip())
        self._output.line(GAP.join("─" * width for width in layout.widths))

    def _print(self, cells: Sequence[object], layout: Layout) -> None:
        if layout.is_blocks:
            self._output.line("\n".join([*block_lines(layout.names, map(str, cells)), ""]))
            return
        shown = [
            str(item).rjust(width) if type(item) is int else str(item).ljust(width)
            for item, width in zip(cells, layout.widths, strict=True)
        ]
        self._output.line(GAP.join(shown).rstrip())


def moment(timestamp: int) -> str:
    """Return a time in UTC, or the number if no calendar has it."""
    if timestamp < 0:
        return "-"
    second = _second_text(timestamp // 1000)
    return str(timestamp) if second is None else f"{second}.{timestamp % 1000:03}"


@lru_cache(MOST_SECONDS)
def _second_text(seconds: int) -> str | None:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return None


LINES_CHARACTERS = 64 * 1024
MEASURED_BYTES = 4 * 1024 * 1024
"""How much of a log is read at most to decide the widths of its columns."""

BATCH_COLUMNS = (
    "offsets",
    "count",
    "position",
    "size",
    "codec",
    "newest (UTC)",
    "producer",
    "sequence",
    "what",
    "checksum",
)
RECORD_COLUMNS = ("offset", "time (UTC)", "headers", "key", "value")
SIZE_COLUMNS = ("offset", "time (UTC)", "key size", "value size", "sequence", "headers")


class TableDump(RangedView):
    """Prints a dump in columns."""

    form = OutputFormat.TABLE

    def __init__(self, output: DumpOutput, options: DumpOptions, errors: DumpErrors) -> None:
        super().__init__(output)
        self._options = options
        self._errors = errors
        self._columns: StreamedColumns | None = None
        self._is_first = True
        self._is_plain = options.decoder.is_plain and options.prints_contents

    def file_begins(self, file: DumpFile) -> None:
        self._end_columns()
        self._file = file
        path = escaped(file.heading)
        self._output.line(path if self._is_first else f"\n{path}")
        self._is_first = False

    def begin_ranges(self, file: DumpFile) -> Layout | None:
        """Print the head of the columns, if the beginning of the file decides them."""
        layout = layout_of(file, self._options, self._errors)
        if layout is not None:
            self._columns = StreamedColumns(self._output, layout.names)
            self._columns.begin(layout)
        return layout

    def begin_range(self, file: DumpFile, layout: Layout, on_first: Callable[[int], None]) -> None:
        self._file = file
        self._columns = StreamedColumns(self._output, layout.names, layout)

    @property
    def layout(self) -> Layout | None:
        return None if self._columns is None else self._columns.layout

    def batch(self, entry: ScannedEntry) -> None:
        """Print a batch, unless its records are."""
        if not self._options.deep:
            self._row(BATCH_COLUMNS, batch_cells(entry))

    def records(self, batch: Batch) -> None:
        layout = self.layout if self._is_plain and not batch.is_control else None
        is_laid_out = layout is not None and layout.names == RECORD_COLUMNS and not layout.is_blocks
        if layout is not None and is_laid_out and isinstance(batch, RecordBatch):
            self._print_rows(batch, layout.widths)
        else:
            self.some_records(batch, records_of(batch))

    def _print_rows(self, batch: RecordBatch, widths: Sequence[int]) -> None:
        lines: list[str] = []
        characters = 0
        form = f"%{widths[0]}d{GAP}%-{widths[1]}s{GAP}%-{widths[2]}s{GAP}%-{widths[3]}s{GAP}%s"
        try:
            for record in batch.records():
                key, value, headers = record.key, record.value, record.headers
                line = form % (
                    record.offset,
                    moment(record.timestamp),
                    escaped(",".join(name for name, _ in headers)) if headers else "-",
                    "-" if key is None else escaped(java_utf8(key)),
                    "-" if value is None else escaped(java_utf8(value)),
                )
                lines.append(line.rstrip())
                characters += len(line)
                if characters > LINES_CHARACTERS:
                    self._print_lines(lines)
                    lines.clear()
                    characters = 0
        finally:
            self._print_lines(lines)

    def _print_lines(self, lines: Sequence[str]) -> None:
        if lines:
            self._output.line("\n".join(lines))

    def some_records(self, batch: Batch, records: Iterable[DumpedRecord]) -> None:
        for record in records:
            time = moment(record.timestamp)
            headers = ",".join(name for name, _ in record.headers) or "-"
            if not self._options.prints_contents:
                sequence = "-" if record.sequence < 0 else record.sequence
                sizes = (record.key_size, record.value_size)
                self._row(SIZE_COLUMNS, (record.offset, time, *map(size_text, sizes), sequence, headers))
            elif batch.is_control:
                self._row(RECORD_COLUMNS, (record.offset, time, "-", "-", control_text(record).strip()))
            else:
                key, value = self._options.decoder.texts(record)
                self._row(RECORD_COLUMNS, (record.offset, time, headers, dash(key), dash(value)))

    def row(self, row: Row) -> None:
        self._row(tuple(row.fields), tuple(map(cell, row.fields.values())))

    def remark(self, type: str, text: str) -> None:
        self._output.line(escaped(text))

    def damage(self, damage: Damage) -> None:
        if self._columns is not None:
            self._columns.flush()
        self._output.flush()
        for line in damage.lines(self._file.path):
            note(line)

    def close(self) -> None:
        self._end_columns()
        self._output.flush()
        for line in self._errors.lines():
            note(line)

    def _row(self, columns: Sequence[str], cells: Sequence[object]) -> None:
        if self._columns is None or self._columns.names != columns:
            self._end_columns()
            self._columns = StreamedColumns(self._output, columns)
        self._columns.add(cells)

    def _end_columns(self) -> None:
        if self._columns is not None:
            self._columns.flush()
            self._columns = None


def layout_of(file: DumpFile, options: DumpOptions, errors: DumpErrors) -> Layout | None:
    """Return the layout that the first rows decide, None if they decide none. Raises `OSError`."""
    view = TableDump(DumpOutput(io.BytesIO()), options, errors)
    segment, failures = SegmentDump(file, options, view), options.decoder.failures
    view.file_begins(file)
    try:
        for item in scan(file.path, segment_base=file.offset):
            if not isinstance(item, ScannedEntry) or item.damages or item.end > MEASURED_BYTES:
                break
            segment.show(item)
            if view.layout is not None:
                return view.layout
    except CorruptRecord:
        return None
    finally:
        options.decoder.failures = failures
    return None


def batch_cells(entry: ScannedEntry) -> Sequence[object]:
    batch = entry.batch
    valid = "ok" if entry.is_valid else "WRONG"
    codec = CODEC_NAMES[batch.attributes & 7]
    newest = moment(batch.max_timestamp)
    if not isinstance(batch, RecordBatch):
        what = f"magic {batch.magic}"
        return (f"…{batch.offset}", "-", entry.position, entry.size, codec, newest, "-", "-", what, valid)
    producer, sequence = "-", "-"
    if batch.producer_id >= 0:
        producer = f"{batch.producer_id}/{batch.producer_epoch}"
    if batch.base_sequence >= 0:
        sequence = f"{batch.base_sequence}…{batch.last_sequence}"
    marks = {
        "control": batch.is_control,
        "transaction": batch.is_transactional,
        "cleaned": batch.delete_horizon_ms is not None,
    }
    return (
        f"{batch.base_offset}…{batch.last_offset}",
        batch.count,
        entry.position,
        entry.size,
        codec,
        newest,
        producer,
        sequence,
        ",".join(name for name, is_set in marks.items() if is_set) or "-",
        valid,
    )


def dash(text: str | None) -> str:
    """Return a text, a dash for null."""
    return "-" if text is None else text


def size_text(size: int) -> object:
    """Return a size, a dash for that of null."""
    return "-" if size < 0 else size


def cell(value: object) -> object:
    if isinstance(value, OptionalLong):
        return "-" if value.value is None else value.value
    return value
