"""SummaryDump: a view that prints a summary of each replica, or of each single file.

A summary is printed as facts in words, as a row of a table, or as a JSON document.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from typing import TYPE_CHECKING

from kcli.commands.dump.summary import LogSummary
from kcli.commands.dump.table_view import StreamedColumns, moment
from kcli.commands.dump.view import DumpView
from kcli.commands.shared.formatting import counted
from kcli.commands.shared.output import OutputFormat, note
from kcli.escapes import escaped
from kcli.forensics.entries.scanned_entry import records_of
from kcli.protocol.records.message_set import LegacyEntry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.commands.dump.view import DumpOutput, Row
    from kcli.forensics.contents.log_files import DumpFile
    from kcli.forensics.entries.damage import Damage
    from kcli.forensics.entries.scanned_entry import Batch, DumpedRecord, ScannedEntry
    from kcli.protocol.records.record import Record


MOST_SHOWN = 20


def facts(log: LogSummary) -> Iterator[tuple[str, str]]:
    """Yield the facts about a log as name and text; only the first producers and transactions are listed."""
    yield "files", f"{log.files:,}"
    yield "bytes", f"{log.size_bytes:,}"
    yield "batches", f"{log.batches:,}, the largest of {counted(log.largest_batch_bytes, 'byte')}"
    yield "records", f"{log.records:,}, {log.records_with_headers:,} with headers"
    yield from offset_facts(log)
    yield from storage_facts(log)
    yield from time_facts(log)
    about = "" if log.keys.is_exact else "about "
    keys = f"{about}{log.keys.count:,} different, {about}{log.duplicate_keys:,} superseded"
    yield "keys", f"in {counted(log.keyed_records, 'record')}, {keys}"
    yield "tombstones", f"{log.tombstones:,}"
    yield from producer_facts(log)
    yield from transaction_facts(log)
    controls = ", ".join(f"{count:,} {name}" for name, count in sorted(log.control_records.items()))
    yield "control records", controls or "0"
    for name, count in sorted(log.other_entries.items()):
        yield f"in other files, {name.replace('_', ' ')}", f"{count:,}"
    wrong = f"{counted(log.invalid_batches, 'batch')} with a wrong checksum"
    yield (
        "damage",
        f"{counted(log.damages, 'place')}, {wrong}, {counted(log.invalid_bytes, 'byte')} in no batch",
    )


def offset_facts(log: LogSummary) -> Iterator[tuple[str, str]]:
    if log.first_offset is not None:
        yield "offsets", f"{log.first_offset} to {log.last_offset}"
    yield "offset gaps", f"{log.offset_gaps:,}, {counted(log.missing_offsets, 'offset')} missing"
    if log.first_leader_epoch is not None:
        yield "leader epochs", f"{log.first_leader_epoch} to {log.last_leader_epoch}"


def storage_facts(log: LogSummary) -> Iterator[tuple[str, str]]:
    for magic, count in sorted(log.formats.items()):
        yield f"format {magic}", counted(count, "batch")
    for name, codec in sorted(log.codecs.items()):
        sizes = f"{counted(codec.plain_bytes, 'byte')} in {codec.stored_bytes:,}"
        yield f"codec {name}", f"{counted(codec.batches, 'batch')}, {sizes}, ratio {codec.ratio:.2f}"


def time_facts(log: LogSummary) -> Iterator[tuple[str, str]]:
    if log.oldest_timestamp is not None and log.newest_timestamp is not None:
        yield "time span", f"{moment(log.oldest_timestamp)} to {moment(log.newest_timestamp)} UTC"
    disorder = f", by up to {log.largest_step_back_ms} ms" if log.out_of_order else ""
    yield "out of time order", f"{counted(log.out_of_order, 'record')}{disorder}"


def producer_facts(log: LogSummary) -> Iterator[tuple[str, str]]:
    yield "producers", f"{len(log.producers):,}{' or more' if log.producers_left_out else ''}"
    for producer_id, producer in sorted(log.producers.items())[:MOST_SHOWN]:
        written = f"{counted(producer.batches, 'batch')}, {counted(producer.records, 'record')}"
        offsets = f"offsets {producer.first_offset} to {producer.last_offset}"
        yield f"producer {producer_id}", f"epoch {producer.epoch}, {written}, {offsets}"
    if len(log.producers) > MOST_SHOWN:
        yield "producers not listed", f"{len(log.producers) - MOST_SHOWN:,}"


def transaction_facts(log: LogSummary) -> Iterator[tuple[str, str]]:
    ended = f"{log.committed_transactions:,} committed, {log.aborted_transactions:,} aborted"
    yield "transactions", f"{ended}, {len(log.open_transactions):,} open"
    for transaction in list(log.open_transactions.values())[:MOST_SHOWN]:
        who = f"producer {transaction.producer_id}, epoch {transaction.producer_epoch}"
        yield "open transaction", f"{who}, from offset {transaction.first_offset} on"


def cells(log: LogSummary) -> tuple[object, ...]:
    stored = sum(codec.stored_bytes for codec in log.codecs.values())
    whole = sum(codec.plain_bytes for codec in log.codecs.values())
    return (
        log.path,
        log.files,
        log.size_bytes,
        log.batches,
        log.records,
        "-" if log.first_offset is None else f"{log.first_offset}…{log.last_offset}",
        "-" if log.newest_timestamp is None else moment(log.newest_timestamp),
        ",".join(sorted(log.codecs)) or "-",
        f"{whole / stored:.2f}" if stored else "-",
        len(log.open_transactions),
        log.damages,
    )


def document(log: LogSummary) -> dict[str, object]:
    shown: dict[str, object] = {
        each.name: getattr(log, each.name)
        for each in fields(log)
        if each.name not in ("keys", "codecs", "producers", "open_transactions", "formats")
    }
    return {
        **shown,
        "formats": {str(magic): count for magic, count in sorted(log.formats.items())},
        "codecs": {
            name: {**asdict(codec), "ratio": round(codec.ratio, 4)}
            for name, codec in sorted(log.codecs.items())
        },
        "distinct_keys": log.keys.count,
        "distinct_keys_exact": log.keys.is_exact,
        "superseded_records": log.duplicate_keys,
        "producers": [
            {"producer_id": producer_id, **asdict(producer)}
            for producer_id, producer in sorted(log.producers.items())
        ],
        "open_transactions": [asdict(transaction) for transaction in log.open_transactions.values()],
    }


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


class SummaryDump(DumpView):
    """Collects what a dump reads, and prints a summary of each log."""

    def __init__(self, output: DumpOutput, form: OutputFormat) -> None:
        self._output = output
        self._form = form
        self._summary: LogSummary | None = None
        self._path = ""
        self._columns = StreamedColumns(output, COLUMNS) if form is OutputFormat.TABLE else None
        self._only: LogSummary | None = None
        self._count = 0

    def file_begins(self, file: DumpFile) -> None:
        """Add a file to the current log if it is in the same directory; else begin a new log."""
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

    def batch(self, entry: ScannedEntry) -> None:
        self._log.add_batch(entry)

    def records(self, batch: Batch) -> None:
        if isinstance(batch, LegacyEntry):
            self._log.add_records_size(batch, legacy_bytes(batch))
            self.some_records(batch, records_of(batch))
            return
        data = batch.record_data()
        self._log.add_records_size(batch, len(data))
        self.some_records(batch, batch.parse_records(data))

    def some_records(self, batch: Batch, records: Iterable[DumpedRecord | Record]) -> None:
        log = self._log
        if batch.is_control:
            for record in records:
                log.add_control_record(record, batch)
        else:
            for record in records:
                log.add_record(record)

    def row(self, row: Row) -> None:
        counts = self._log.other_entries
        counts[row.type] = counts.get(row.type, 0) + 1

    def damage(self, damage: Damage) -> None:
        self._log.add_damage(damage)
        if self._form is OutputFormat.JSON:
            fields = {"type": "damage", "path": self._path, **damage.document()}
            self._output.line(json.dumps(fields, ensure_ascii=False))
        else:
            self._output.flush()
            for line in damage.lines(self._path):
                note(line)

    def problem(self, type: str, fields: dict[str, object]) -> None:
        """Count a problem of an index as damage."""
        self._log.damages += 1

    def close(self) -> None:
        self._end_log()
        if self._columns is not None and self._count == 1 and self._only is not None:
            print_lines(self._output, self._only, escape=escaped)
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
    """Return the decompressed size of the entries of a message set. Raises `CorruptRecord`."""
    if not batch.is_compressed:
        return batch.size_in_bytes
    return sum(entry.size_in_bytes for entry in batch.inner_entries())


def print_lines(output: DumpOutput, log: LogSummary, escape: Callable[[str], str] = str) -> None:
    output.line(escape(f"{log.path}:"))
    for name, value in facts(log):
        output.line(escape(f"  {name}: {value}"))
