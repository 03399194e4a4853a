"""The JSON form of a dump: one object a line, each with its `type`, and nothing left out.

| type | about |
|---|---|
| `file` | begins a file: path, kind, and the offset in its name |
| `batch` | every field of the header, the position, and whether the checksum matches |
| `record` | offset, timestamp, sizes; with contents: key, value and headers |
| `index_entry`, `time_index_entry`, `aborted_transaction`, `producer`, … | the entries of the other files |
| `damage` | what is wrong in a log: kind, position, bytes, expected, found, where the next valid batch is |
| `index_mismatch`, `timestamp_mismatch`, … | what is wrong in an index |
| `offset_gap` | offsets that do not follow on each other, which is what compaction leaves |

Keys, values and headers are text where they are UTF-8, else `{"base64": "…"}`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kcli.commands.dump_control import control_document
from kcli.commands.dump_damage import damage_fields
from kcli.commands.dump_decoders import text_or_base64
from kcli.commands.dump_entries import records_of
from kcli.commands.dump_records import TIMESTAMP_NAMES
from kcli.commands.dump_batches import CODEC_NAMES
from kcli.commands.dump_view import OptionalLong
from kcli.protocol.record_batch import RecordBatch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.commands.dump_entries import DumpedRecord
    from kcli.commands.dump_files import DumpFile
    from kcli.commands.dump_options import DumpOptions
    from kcli.commands.dump_output import DumpOutput
    from kcli.commands.dump_view import Row
    from kcli.storage.batch_run import BatchRun
    from kcli.storage.damage import Damage
    from kcli.storage.scanned_entry import Batch, ScannedEntry


class JsonDump:
    """Prints a dump as JSON."""

    def __init__(self, output: DumpOutput, options: DumpOptions) -> None:
        self._output = output
        self._options = options
        self._file: DumpFile
        self._last_offset: int | None = None
        self._encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode

    def _print(self, type: str, fields: dict[str, object]) -> None:
        self._output.line(self._encode({"type": type, **fields}))

    def file_begins(self, file: DumpFile) -> None:
        """Print what file it is."""
        self._file = file
        self._last_offset = None
        fields: dict[str, object] = {"path": file.path, "kind": file.kind.value}
        if file.offset is not None:
            fields["offset"] = file.offset
        if file.epoch is not None:
            fields["epoch"] = file.epoch
        self._print("file", fields)
        self._output.flush()

    def log_begins(self, file: DumpFile) -> None:
        """Print nothing: the file's object has it all."""

    def batches(self, run: BatchRun) -> None:
        """Print batches."""
        for entry in run.entries():
            self.batch(entry)

    def batch(self, entry: ScannedEntry) -> None:
        """Print a batch."""
        self._print("batch", batch_fields(entry))

    def records(self, batch: Batch) -> None:
        """Print all records."""
        self.some_records(batch, records_of(batch))

    def some_records(self, batch: Batch, records: Iterable[DumpedRecord]) -> None:
        """Print records."""
        reports_gaps = self._options.filter.is_empty
        for record in records:
            last = self._last_offset
            if reports_gaps and last is not None and record.offset != last + 1:
                self._print("offset_gap", {"after": last, "next": record.offset})
            self._last_offset = record.offset
            self._print("record", self._record_fields(record, batch))

    def _record_fields(self, record: DumpedRecord, batch: Batch) -> dict[str, object]:
        fields: dict[str, object] = {"offset": record.offset}
        if not self._options.skips_metadata:
            fields |= record_metadata(record, batch)
        if batch.is_control:
            return {**fields, "control": control_document(record)}
        if self._options.prints_contents:
            key, value = self._options.decoder.values(record)
            headers = [
                [name, None if data is None else text_or_base64(data)] for name, data in record.headers
            ]
            fields |= {"key": key, "value": value, "headers": headers}
        return fields

    def row(self, row: Row) -> None:
        """Print an entry of any other file."""
        self._print(row.type, {snake_case(name): plain(value) for name, value in row.fields.items()})

    def remark(self, type: str, text: str) -> None:
        """Print that something is so of the file."""
        self._print(type, {"path": self._file.path})

    def damage(self, damage: Damage) -> None:
        """Print a damage."""
        self._print("damage", {"path": self._file.path, **damage_fields(damage)})
        self._output.flush()

    def complaint(self, type: str, fields: dict[str, object]) -> None:
        """Print what does not fit."""
        named = {snake_case(name): value for name, value in fields.items()}
        self._print(type, {"path": self._file.path, **named})

    def trailing(self, size_bytes: int) -> None:
        """Print nothing: the damage tells."""

    def close(self) -> None:
        """Write out what was collected."""
        self._output.flush()


def batch_fields(entry: ScannedEntry) -> dict[str, object]:
    """Return a batch's fields; those of batches of magic 2 alone are missing from older entries."""
    batch = entry.batch
    fields: dict[str, object] = {
        "position": entry.position,
        "size_bytes": entry.size,
        "magic": batch.magic,
        "codec": CODEC_NAMES[batch.attributes & 7],
        "crc": batch.crc,
        "is_valid": entry.is_valid,
        "last_offset": batch.last_offset,
        "timestamp_type": TIMESTAMP_NAMES[batch.timestamp_type],
        "max_timestamp": batch.max_timestamp,
    }
    if isinstance(batch, RecordBatch):
        fields |= {
            "base_offset": batch.base_offset,
            "base_timestamp": batch.base_timestamp,
            "count": batch.count,
            "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch,
            "base_sequence": batch.base_sequence,
            "last_sequence": batch.last_sequence,
            "partition_leader_epoch": batch.partition_leader_epoch,
            "is_transactional": batch.is_transactional,
            "is_control": batch.is_control,
            "delete_horizon_ms": batch.delete_horizon_ms,
        }
    return fields


def record_metadata(record: DumpedRecord, batch: Batch) -> dict[str, object]:
    """Return what is known of a record besides its contents."""
    fields: dict[str, object] = {
        "timestamp": record.timestamp,
        "timestamp_type": TIMESTAMP_NAMES[batch.timestamp_type],
        "key_size": record.key_size,
        "value_size": record.value_size,
    }
    if record.stored is not None:
        return {**fields, "crc": record.stored.crc, "is_valid": record.stored.is_valid_crc()}
    return {**fields, "sequence": record.sequence, "header_keys": [name for name, _ in record.headers]}


def snake_case(name: str) -> str:
    """Return `producer_id` for `producerId`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def plain(value: object) -> object:
    """Return a field as JSON has it."""
    return value.value if isinstance(value, OptionalLong) else value
