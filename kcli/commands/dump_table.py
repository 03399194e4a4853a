"""The table form of a dump, for people: columns that are printed as the rows come, however many there are.

The first rows decide how wide the columns are; a longer cell later only moves its own row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kcli.commands.dump_control import control_text
from kcli.commands.dump_damage import describe
from kcli.commands.dump_entries import records_of
from kcli.commands.dump_batches import CODEC_NAMES
from kcli.commands.dump_view import OptionalLong
from kcli.commands.output import note
from kcli.protocol.record_batch import RecordBatch

if TYPE_CHECKING:
    from kcli.commands.dump_complaints import Complaints
    from kcli.commands.dump_entries import DumpedRecord
    from kcli.commands.dump_files import DumpFile
    from kcli.commands.dump_options import DumpOptions
    from kcli.commands.dump_output import DumpOutput
    from kcli.commands.dump_view import Row
    from kcli.storage.batch_run import BatchRun
    from kcli.storage.damage import Damage
    from kcli.storage.scanned_entry import Batch, ScannedEntry

MEASURED_ROWS = 100
WIDEST_COLUMN = 40
GAP = "  "
CONTROL_CHARACTERS = {number: f"\\x{number:02x}" for number in (*range(32), 127)}

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


class TableDump:
    """Prints a dump in columns."""

    def __init__(self, output: DumpOutput, options: DumpOptions, complaints: Complaints) -> None:
        self._output = output
        self._options = options
        self._complaints = complaints
        self._file: DumpFile
        self._columns: StreamedColumns | None = None
        self._is_first = True

    def file_begins(self, file: DumpFile) -> None:
        """Print the file's name."""
        self._end_columns()
        self._file = file
        self._output.line(file.path if self._is_first else f"\n{file.path}")
        self._is_first = False

    def log_begins(self, file: DumpFile) -> None:
        """Print nothing: the name says it."""

    def batches(self, run: BatchRun) -> None:
        """Print batches."""
        for entry in run.entries():
            self.batch(entry)

    def batch(self, entry: ScannedEntry) -> None:
        """Print a batch, unless its records are."""
        if not self._options.deep:
            self._row(BATCH_COLUMNS, batch_cells(entry))

    def records(self, batch: Batch) -> None:
        """Print all records."""
        self.some_records(batch, records_of(batch))

    def some_records(self, batch: Batch, records: Iterable[DumpedRecord]) -> None:
        """Print records."""
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
                self._row(RECORD_COLUMNS, (record.offset, time, headers, contents(key), contents(value)))

    def row(self, row: Row) -> None:
        """Print an entry of any other file."""
        self._row(tuple(row.fields), tuple(map(cell, row.fields.values())))

    def remark(self, type: str, text: str) -> None:
        """Print a line about the file."""
        self._output.line(text)

    def damage(self, damage: Damage) -> None:
        """Explain damage on standard error, after all that came before it."""
        if self._columns is not None:
            self._columns.flush()
        self._output.flush()
        for line in describe(self._file.path, damage):
            note(line)

    def complaint(self, type: str, fields: dict[str, object]) -> None:
        """Print nothing yet."""

    def trailing(self, size_bytes: int) -> None:
        """Print nothing: the damage tells."""

    def close(self) -> None:
        """Print the rest, and on standard error what does not fit in indexes."""
        self._end_columns()
        self._output.flush()
        for line in self._complaints.lines():
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


class StreamedColumns:
    """Columns of cells; numbers are aligned to the right."""

    def __init__(self, output: DumpOutput, names: Sequence[str]) -> None:
        self.names = names
        self._output = output
        self._first_rows: list[Sequence[object]] = []
        self._widths: list[int] | None = None

    def add(self, cells: Sequence[object]) -> None:
        """Print a row, or keep it until there are enough to tell how wide the columns must be."""
        if self._widths is None:
            self._first_rows.append(cells)
            if len(self._first_rows) == MEASURED_ROWS:
                self.flush()
        else:
            self._print(cells, self._widths)

    def flush(self) -> None:
        """Print the rows that were kept, below the header."""
        if self._widths is not None:
            return
        rows = self._first_rows
        self._widths = [
            min(max(len(name), *(len(str(row[number])) for row in rows)), WIDEST_COLUMN)
            for number, name in enumerate(self.names)
        ]
        numeric = [all(type(row[number]) is int for row in rows) for number in range(len(self.names))]
        names = [
            name.rjust(width) if right else name.ljust(width)
            for name, width, right in zip(self.names, self._widths, numeric, strict=True)
        ]
        self._output.line(GAP.join(names).rstrip())
        self._output.line(GAP.join("─" * width for width in self._widths))
        for row in rows:
            self._print(row, self._widths)
        self._first_rows = []

    def _print(self, cells: Sequence[object], widths: list[int]) -> None:
        shown = [
            str(item).rjust(width) if type(item) is int else str(item).ljust(width)
            for item, width in zip(cells, widths, strict=True)
        ]
        self._output.line(GAP.join(shown).rstrip())


def batch_cells(entry: ScannedEntry) -> Sequence[object]:
    """Return the cells of a batch."""
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
    marks = [
        *(["control"] if batch.is_control else []),
        *(["transaction"] if batch.is_transactional else []),
        *(["cleaned"] if batch.delete_horizon_ms is not None else []),
    ]
    return (
        f"{batch.base_offset}…{batch.last_offset}",
        batch.count,
        entry.position,
        entry.size,
        codec,
        newest,
        producer,
        sequence,
        ",".join(marks) or "-",
        valid,
    )


def moment(timestamp: int) -> str:
    """Return a time in UTC; what no calendar has is the number."""
    if timestamp < 0:
        return "-"
    try:
        time = datetime.fromtimestamp(timestamp // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp)
    return f"{time:%Y-%m-%d %H:%M:%S}.{timestamp % 1000:03}"


def size_text(size: int) -> object:
    """Return a size; that of null is a dash."""
    return "-" if size < 0 else size


def contents(text: str | None) -> str:
    """Return a key or value on one line; null is a dash."""
    return "-" if text is None else text.translate(CONTROL_CHARACTERS)


def cell(value: object) -> object:
    """Return a field as a cell."""
    if isinstance(value, OptionalLong):
        return "-" if value.value is None else value.value
    return value
