"""The summary of a dump: one for each replica, or for each file that was named by itself."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kcli.commands.dump_entries import records_of
from kcli.commands.dump_summary import LogSummary
from kcli.commands.dump_table import StreamedColumns, moment
from kcli.commands.options import OutputFormat
from kcli.protocol.message_set import LegacyEntry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.commands.dump_entries import DumpedRecord
    from kcli.commands.dump_files import DumpFile
    from kcli.commands.dump_output import DumpOutput
    from kcli.commands.dump_view import Row
    from kcli.protocol.record import Record
    from kcli.storage.damage import Damage
    from kcli.storage.scanned_entry import Batch, ScannedEntry

MOST_SHOWN = 20
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

    @property
    def _log(self) -> LogSummary:
        assert self._summary is not None
        return self._summary

    def log_begins(self, file: DumpFile) -> None:
        """Nothing of that is shown."""

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
        """Take note of what is wrong in a log."""
        self._log.add_damage(damage)

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


def facts(log: LogSummary) -> Iterator[tuple[str, object]]:
    """Yield what is known of a log in words."""
    yield "files", log.files
    yield "bytes", log.size_bytes
    yield "batches", f"{log.batches} (the largest: {log.largest_batch_bytes} bytes)"
    yield "records", f"{log.records}, {log.records_with_headers} with headers"
    if log.first_offset is not None:
        yield "offsets", f"{log.first_offset} to {log.last_offset}"
    yield "offset gaps", f"{log.offset_gaps}, {log.missing_offsets} offsets are missing"
    yield (
        "formats",
        ", ".join(f"magic {magic}: {count} batches" for magic, count in sorted(log.formats.items())),
    )
    for name, codec in sorted(log.codecs.items()):
        yield (
            f"codec {name}",
            (
                f"{codec.batches} batches, {codec.plain_bytes} bytes in {codec.stored_bytes}, "
                f"ratio {codec.ratio:.2f}"
            ),
        )
    if log.oldest_timestamp is not None and log.newest_timestamp is not None:
        yield "time span", f"{moment(log.oldest_timestamp)} to {moment(log.newest_timestamp)} UTC"
    yield (
        "out of time order",
        f"{log.out_of_order} records, by up to {log.largest_step_back_ms} ms"
        if log.out_of_order
        else "0 records",
    )
    about = "" if log.keys.is_exact else "about "
    yield (
        "keys",
        (
            f"{log.keyed_records} records, {about}{log.keys.count} different, "
            f"{about}{log.duplicate_keys} superseded"
        ),
    )
    yield "tombstones", log.tombstones
    if log.first_leader_epoch is not None:
        yield "leader epochs", f"{log.first_leader_epoch} to {log.last_leader_epoch}"
    yield from producer_facts(log)
    controls = ", ".join(f"{count} {name}" for name, count in sorted(log.control_records.items()))
    yield "control records", controls or 0
    for name, count in sorted(log.other_entries.items()):
        yield name.replace("_", " "), f"{count} entries"
    yield "damage", f"{log.damages} places, {log.invalid_bytes} bytes are no batch"


def producer_facts(log: LogSummary) -> Iterator[tuple[str, object]]:
    """Yield what is known of idempotent and transactional producers in words."""
    yield "producers", f"{len(log.producers)}{' or more' if log.producers_left_out else ''}"
    for number, (producer_id, producer) in enumerate(sorted(log.producers.items())):
        if number == MOST_SHOWN:
            yield "producers", f"{len(log.producers) - MOST_SHOWN} more"
            break
        yield (
            f"producer {producer_id}",
            (
                f"epoch {producer.epoch}, {producer.batches} batches, {producer.records} records, "
                f"offsets {producer.first_offset} to {producer.last_offset}"
            ),
        )
    yield (
        "transactions",
        (
            f"{log.committed_transactions} committed, {log.aborted_transactions} aborted, "
            f"{len(log.open_transactions)} open"
        ),
    )
    for transaction in list(log.open_transactions.values())[:MOST_SHOWN]:
        yield (
            "open transaction",
            (
                f"producer {transaction.producer_id}, epoch {transaction.producer_epoch}, "
                f"from offset {transaction.first_offset}"
            ),
        )


def cells(log: LogSummary) -> tuple[object, ...]:
    """Return what is most important of a log."""
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
    """Return all that is known of a log."""
    from dataclasses import asdict, fields

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
