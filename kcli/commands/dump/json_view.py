"""JsonDump: the JSON form of a dump, one object per line, each with its `type`, and with all fields.

| type | about |
|---|---|
| `file` | the beginning of a file: path, kind, and the offset in its name |
| `batch` | every field of the header, the position, and whether the checksum matches |
| `record` | offset, timestamp, sizes; with contents: key, value and headers |
| `index_entry`, `time_index_entry`, `aborted_transaction`, `producer`, … | the entries of the other files |
| `damage` | damage in a log: kind, position, bytes, expected, found, position of the next valid batch |
| `index_mismatch`, `timestamp_mismatch`, … | an index entry that does not fit |
| `offset_gap` | offsets that do not follow each other, as compaction leaves them |

Keys, values and headers are text if they are UTF-8, else `{"base64": "…"}`.
"""

from __future__ import annotations

import json
from json.encoder import encode_basestring
from typing import TYPE_CHECKING

from kcli.commands.dump.control_records import control_document
from kcli.commands.dump.decoders import base64, text_or_base64
from kcli.commands.dump.text_lines import CODEC_NAMES, TIMESTAMP_NAMES
from kcli.commands.dump.view import UNKNOWN_OFFSET, OptionalLong, RangedView
from kcli.commands.shared.output import OutputFormat
from kcli.forensics.entries.scanned_entry import records_of
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.record import NO_OFFSET

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kcli.commands.dump.options import DumpOptions
    from kcli.commands.dump.view import DumpOutput, Row
    from kcli.forensics.contents.log_files import DumpFile
    from kcli.forensics.entries.damage import Damage
    from kcli.forensics.entries.scanned_entry import Batch, DumpedRecord, ScannedEntry
    from kcli.protocol.records.record import Record


def record_line(record: Record, kind: str, with_contents: bool) -> str:
    """Return the line that `json.JSONEncoder` makes of a record, in a quarter of the time."""
    key, value, headers = record.key, record.value, record.headers
    names = ",".join(encode_basestring(name) for name, _ in headers) if headers else ""
    metadata = (
        f'{{"type":"record","offset":{record.offset},"timestamp":{record.timestamp},"timestamp_type":"{kind}",'
        f'"key_size":{-1 if key is None else len(key)},"value_size":{-1 if value is None else len(value)},'
        f'"sequence":{record.sequence},"header_keys":[{names}]'
    )
    if not with_contents:
        return f"{metadata}}}\n"
    try:
        shown_key = "null" if key is None else encode_basestring(key.decode())
        shown_value = "null" if value is None else encode_basestring(value.decode())
    except UnicodeDecodeError:
        shown_key, shown_value = _shown(key), _shown(value)
    pairs = _pairs(headers) if headers else ""
    return f'{metadata},"key":{shown_key},"value":{shown_value},"headers":[{pairs}]}}\n'


def _shown(data: bytes | None) -> str:
    if data is None:
        return "null"
    try:
        return encode_basestring(data.decode())
    except UnicodeDecodeError:
        return f'{{"base64":"{base64(data)}"}}'


def _pairs(headers: Sequence[tuple[str, bytes | None]]) -> str:
    return ",".join(f"[{encode_basestring(name)},{_shown(data)}]" for name, data in headers)


LINES_CHARACTERS = 64 * 1024


class JsonDump(RangedView):
    """Prints a dump as JSON."""

    form = OutputFormat.JSON

    def __init__(self, output: DumpOutput, options: DumpOptions) -> None:
        super().__init__(output)
        self._options = options
        self._last_offset = NO_OFFSET
        self._is_plain = options.decoder.is_plain and not options.skips_metadata
        self._encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode

    def _print(self, type: str, fields: dict[str, object]) -> None:
        self._output.line(self._encode({"type": type, **fields}))

    def file_begins(self, file: DumpFile) -> None:
        self._file = file
        self._last_offset = NO_OFFSET
        fields: dict[str, object] = {"path": file.path, "kind": file.kind.value}
        if file.offset is not None:
            fields["offset"] = file.offset
        if file.epoch is not None:
            fields["epoch"] = file.epoch
        self._print("file", fields)
        self._output.flush()

    @property
    def last_record_offset(self) -> int:
        return max(self._last_offset, NO_OFFSET)

    def resume(self, file: DumpFile, last_record_offset: int) -> None:
        self._file = file
        self._last_offset = last_record_offset

    def follow(self, offset: int) -> None:
        last, self._last_offset = self._last_offset, offset
        if last == UNKNOWN_OFFSET and self._on_first is not None:
            self._on_first(offset)
        elif last not in (NO_OFFSET, offset - 1) and self._options.filter.is_empty:
            self._print("offset_gap", {"after": last, "next": offset})

    def batch(self, entry: ScannedEntry) -> None:
        self._print("batch", batch_fields(entry))

    def records(self, batch: Batch) -> None:
        if self._is_plain and isinstance(batch, RecordBatch) and not batch.is_control:
            self._print_lines(batch)
        else:
            self.some_records(batch, records_of(batch))

    def _print_lines(self, batch: RecordBatch) -> None:
        """Print the records of a batch without decoders."""
        kind, with_contents = TIMESTAMP_NAMES[batch.timestamp_type], self._options.prints_contents
        lines: list[str] = []
        characters = 0
        try:
            for record in batch.records():
                if record.offset != self._last_offset + 1 or characters > LINES_CHARACTERS:
                    self._output.write("".join(lines).encode())
                    lines.clear()
                    characters = 0
                    self.follow(record.offset)
                self._last_offset = record.offset
                line = record_line(record, kind, with_contents)
                characters += len(line)
                lines.append(line)
        finally:
            self._output.write("".join(lines).encode())

    def some_records(self, batch: Batch, records: Iterable[DumpedRecord]) -> None:
        for record in records:
            self.follow(record.offset)
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
        fields = {
            snake_case(name): value.value if isinstance(value, OptionalLong) else value
            for name, value in row.fields.items()
        }
        self._print(row.type, fields)

    def remark(self, type: str, text: str) -> None:
        self._print(type, {"path": self._file.path})

    def damage(self, damage: Damage) -> None:
        self._print("damage", {"path": self._file.path, **damage.document()})
        self._output.flush()

    def problem(self, type: str, fields: dict[str, object]) -> None:
        named = {snake_case(name): value for name, value in fields.items()}
        self._print(type, {"path": self._file.path, **named})

    def close(self) -> None:
        self._output.flush()


def batch_fields(entry: ScannedEntry) -> dict[str, object]:
    """Return the fields of a batch; older entries lack those that only magic 2 has."""
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
