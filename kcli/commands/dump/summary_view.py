"""The summary of a dump: one for each replica, or for each file that was named by itself."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from kcli.commands.dump.columns import StreamedColumns
from kcli.commands.dump.damage_text import damage_fields, describe
from kcli.commands.dump.dumped_record import records_of
from kcli.commands.dump.summary import LogSummary
from kcli.commands.dump.summary_facts import cells, document, facts
from kcli.commands.output import OutputFormat, note
from kcli.protocol.records.message_set import LegacyEntry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.commands.dump.dumped_record import DumpedRecord
    from kcli.commands.dump.files import DumpFile
    from kcli.commands.dump.stdout import DumpOutput
    from kcli.commands.dump.view import Row
    from kcli.protocol.record import Record
    from kcli.storage.batch_run import BatchRun
    from kcli.storage.damage import Damage
    from kcli.storage.scanned_entry import Batch, ScannedEntry

COLUMNS = (
    "log",
    "files",
    "bytes",
    "batches",
    "records",
    "offsets",
    "newest (UTC)",
    "codecs",
    "ratio",
    "open txns",
    "damage",
)


class SummaryDump:
    """Collects what a dump reads and prints a summary of each log."""

    def __init__(self, output: DumpOutput, form: OutputFormat) -> None:
        self._output = output
        self._form = form
        self._summary: LogSummary | None = None
        self._path = ""
        self._columns = StreamedColumns(output, COLUMNS) if form is OutputFormat.TABLE else None
        self._only: LogSummary | None = None
        self._count = 0

    def file_begins(self, file: DumpFile) -> None:
        """Go on with the same log if the file is in the same directory."""
        directory = os.path.dirname(file.path) or file.path
        if self._summary is None or self._summary.path != directory:
            self._end_log()
            self._summary = LogSummary(directory)
        self._summary.files += 1
        self._path = file.path

    @property
    def _log(self) -> LogSummary:
        assert self._summary is not None
        return self._summary

    def log_begins(self, file: DumpFile) -> None:
        """Nothing of that is shown."""

    def batches(self, run: BatchRun) -> None:
        """Take note of batches."""
        for entry in run.entries():
            self.batch(entry)

    def batch(self, entry: ScannedEntry) -> None:
        """Take note of a batch."""
        self._log.add_batch(entry)

    def records(self, batch: Batch) -> None:
        """Take note of all records."""
        if isinstance(batch, LegacyEntry):
            self._log.add_records_size(batch, legacy_bytes(batch))
            self.some_records(batch, records_of(batch))
            return
        data = batch.record_data()
        self._log.add_records_size(batch, len(data))
        self.some_records(batch, batch.parse_records(data))

    def some_records(self, batch: Batch, records: Iterable[DumpedRecord | Record]) -> None:
        """Take note of records."""
        log = self._log
        if batch.is_control:
            for record in records:
                log.add_control_record(record, batch)
        else:
            for record in records:
                log.add_record(record)

    def row(self, row: Row) -> None:
        """Count an entry of any other file."""
        counts = self._log.other_entries
        counts[row.type] = counts.get(row.type, 0) + 1

    def remark(self, type: str, text: str) -> None:
        """Nothing of that is shown."""

    def damage(self, damage: Damage) -> None:
        """Take note of what is wrong in a log, and explain it."""
        self._log.add_damage(damage)
        if self._form is OutputFormat.JSON:
            fields = {"type": "damage", "path": self._path, **damage_fields(damage)}
            self._output.line(json.dumps(fields, ensure_ascii=False))
        else:
            self._output.flush()
            for line in describe(self._path, damage):
                note(line)

    def complaint(self, type: str, fields: dict[str, object]) -> None:
        """Take note of what is wrong in an index."""
        self._log.damages += 1

    def trailing(self, size_bytes: int) -> None:
        """The damage tells."""

    def close(self) -> None:
        """Print the last summary."""
        self._end_log()
        if self._columns is not None and self._count == 1 and self._only is not None:
            print_lines(self._output, self._only)
        elif self._columns is not None and self._count:
            self._columns.flush()
        self._output.flush()

    def _end_log(self) -> None:
        log, self._summary = self._summary, None
        if log is None:
            return
        self._count += 1
        if self._form is OutputFormat.JSON:
            self._output.line(json.dumps({"type": "summary", **document(log)}, ensure_ascii=False))
        elif self._columns is None:
            print_lines(self._output, log)
        else:
            self._only = log if self._count == 1 else None
            self._columns.add(cells(log))


def legacy_bytes(batch: LegacyEntry) -> int:
    """Return what the entries of a message set take when they are not compressed. Raises `CorruptRecord`."""
    if not batch.is_compressed:
        return batch.size_in_bytes
    return sum(entry.size_in_bytes for entry in batch.inner_entries())


def print_lines(output: DumpOutput, log: LogSummary) -> None:
    """Print all that is known of a log, one fact a line."""
    output.line(f"{log.path}:")
    for name, value in facts(log):
        output.line(f"  {name}: {value}")
