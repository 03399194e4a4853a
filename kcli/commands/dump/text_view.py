"""TextDump: the text form of a dump, byte for byte the output of Kafka's own dump tool.

It follows `DumpLogSegments` of Apache Kafka 4.3.1; a test runs both over the same files. The explanations of
damage, which Kafka's tool does not have, go to standard error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.commands.dump.text_lines import CODEC_NAMES, TIMESTAMP_NAMES, RecordLines, run_lines
from kcli.commands.dump.view import UNKNOWN_OFFSET, RangedView
from kcli.commands.shared.java import java_utf8
from kcli.commands.shared.output import OutputFormat, note
from kcli.forensics.contents.log_files import FileKind
from kcli.forensics.entries.scanned_entry import records_of
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_header import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    SEQUENCE_MASK,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.commands.dump.dump_errors import DumpErrors
    from kcli.commands.dump.options import DumpOptions
    from kcli.commands.dump.view import DumpOutput, Row
    from kcli.forensics.contents.log_files import DumpFile
    from kcli.forensics.entries.batch_run import BatchRun
    from kcli.forensics.entries.damage import Damage
    from kcli.forensics.entries.scanned_entry import Batch, DumpedRecord, ScannedEntry


class TextDump(RangedView):
    """Prints a dump like Kafka's tool."""

    form = OutputFormat.TEXT

    def __init__(self, output: DumpOutput, options: DumpOptions, errors: DumpErrors) -> None:
        super().__init__(output)
        self._options = options
        self._errors = errors
        self._lines = RecordLines(with_contents=options.prints_contents)
        self._is_plain = options.decoder.is_plain and not options.skips_metadata

    def file_begins(self, file: DumpFile) -> None:
        self._file = file
        self._lines.last_offset = -1
        self._output.line(f"Dumping {file.heading}")

    def resume(self, file: DumpFile, last_record_offset: int) -> None:
        self._file = file
        self._lines.last_offset = last_record_offset
        self._lines.gaps.clear()

    def follow(self, offset: int) -> None:
        last = self._lines.last_offset
        if offset != last + 1:
            self.gaps([(last, offset)])

    def gaps(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Keep the gaps for the end, unless a filter leaves records out."""
        if self._options.filter.is_empty:
            self._errors.gaps(self._file.path, pairs)

    @property
    def last_record_offset(self) -> int:
        return max(self._lines.last_offset, -1)

    def log_begins(self, file: DumpFile) -> None:
        """Print what the name says, at once: the first batch may take a while."""
        if file.kind is FileKind.LOG:
            self._output.line(f"Log starting offset: {file.offset}")
        elif file.offset is None:
            self._output.line("KRaft bootstrap snapshot")
        else:
            self._output.line(f"Snapshot end offset: {file.offset}, epoch: {file.epoch}")
        self._output.flush()

    def batches(self, run: BatchRun) -> None:
        self._output.write(run_lines(run))

    def batch(self, entry: ScannedEntry) -> None:
        self._output.write(batch_line(entry).encode("ascii"))

    def records(self, batch: Batch) -> None:
        if not (self._is_plain and isinstance(batch, RecordBatch)) or batch.is_control:
            self.some_records(batch, records_of(batch))
        else:
            try:
                for lines in self._lines.of_batch(batch, batch.record_data()):
                    self._output.write(utf8_lines(lines))
            finally:
                self._take_gaps()

    def some_records(self, batch: Batch, records: Iterable[DumpedRecord]) -> None:
        lines = self._lines
        kind = TIMESTAMP_NAMES[batch.timestamp_type]
        try:
            for record in records:
                if record.offset != lines.last_offset + 1:
                    lines.gaps.append((lines.last_offset, record.offset))
                lines.last_offset = record.offset
                self._output.line(self._record_line(record, batch, kind))
        finally:
            self._take_gaps()

    def _take_gaps(self) -> None:
        gaps = self._lines.gaps
        if gaps and gaps[0][0] == UNKNOWN_OFFSET and self._on_first is not None:
            self._on_first(gaps.pop(0)[1])
        if gaps:
            self.gaps(gaps)
            gaps.clear()

    def _record_line(self, record: DumpedRecord, batch: Batch, kind: str) -> str:
        options = self._options
        metadata = "" if options.skips_metadata else record_metadata(record, batch, kind)
        if not options.prints_contents or batch.is_control:
            return metadata
        key, value = options.decoder.texts(record)
        contents = ("" if key is None else f" key: {key}") + ("" if value is None else f" payload: {value}")
        return metadata + contents if metadata or not contents else "|" + contents

    def row(self, row: Row) -> None:
        self._output.line(" ".join(f"{name}: {value}" for name, value in row.fields.items()))

    def remark(self, type: str, text: str) -> None:
        self._output.line(text)

    def damage(self, damage: Damage) -> None:
        self._output.flush()
        for line in damage.lines(self._file.path):
            note(line)

    def trailing(self, size_bytes: int) -> None:
        self._output.line(f"Found {size_bytes} invalid bytes at the end of {self._file.name}")

    def close(self) -> None:
        self._output.flush()
        for line in self._errors.lines():
            note(line)


def batch_line(entry: ScannedEntry) -> str:
    """Return the line of a batch of any format."""
    batch = entry.batch
    valid = "true" if entry.is_valid else "false"
    if not isinstance(batch, RecordBatch):
        return (
            f"offset: {batch.offset} position: {entry.position} {TIMESTAMP_NAMES[batch.timestamp_type]}: "
            f"{batch.max_timestamp} size: {entry.size} magic: {batch.magic} "
            f"compresscodec: {CODEC_NAMES[batch.attributes & 7]} crc: {batch.crc} isvalid: {valid}\n"
        )
    attributes, sequence, delta = batch.attributes, batch.base_sequence, batch.last_offset_delta
    horizon = f"[{batch.base_timestamp}]" if attributes & DELETE_HORIZON_BIT else ".empty"
    return (
        f"baseOffset: {batch.base_offset} lastOffset: {batch.base_offset + delta} count: {batch.count} "
        f"baseSequence: {sequence} "
        f"lastSequence: {sequence if sequence < 0 else sequence + delta & SEQUENCE_MASK} "
        f"producerId: {batch.producer_id} producerEpoch: {batch.producer_epoch} "
        f"partitionLeaderEpoch: {batch.partition_leader_epoch} "
        f"isTransactional: {'true' if attributes & TRANSACTIONAL_BIT else 'false'} "
        f"isControl: {'true' if attributes & CONTROL_BIT else 'false'} "
        f"deleteHorizonMs: OptionalLong{horizon} "
        f"position: {entry.position} {'LogAppend' if attributes & TIMESTAMP_TYPE_BIT else 'Create'}Time: "
        f"{batch.max_timestamp} size: {entry.size} magic: 2 compresscodec: {CODEC_NAMES[attributes & 7]} "
        f"crc: {batch.crc} isvalid: {valid}\n"
    )


def record_metadata(record: DumpedRecord, batch: Batch, kind: str) -> str:
    line = (
        f"| offset: {record.offset} {kind}: {record.timestamp} "
        f"keySize: {record.key_size} valueSize: {record.value_size}"
    )
    if record.stored is not None:
        valid = "true" if record.stored.is_valid_crc() else "false"
        return f"{line} isValid: {valid} crc: {record.stored.crc}"
    names = ",".join(name for name, _ in record.headers)
    line = f"{line} sequence: {record.sequence} headerKeys: [{names}]"
    if not batch.is_control:
        return line
    from kcli.commands.dump.control_records import control_text

    return line + control_text(record)


def utf8_lines(lines: list[str]) -> bytes:
    """Return the bytes of lines that were decoded as Latin-1; invalid UTF-8 becomes what Java prints."""
    data = "".join(lines).encode("latin-1")
    if data.isascii():
        return data
    try:
        data.decode()
    except UnicodeDecodeError:
        return "".join(java_utf8(line.encode("latin-1")) for line in lines).encode()
    return data
