"""The lines of batches and records in Kafka's text form, made fast: many batches or records at a time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import add
from typing import TYPE_CHECKING

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch_header import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    SEQUENCE_MASK,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)
from kcli.protocol.records.record import TimestampType
from kcli.protocol.records.varints import read_varint, read_varlong, wrap_int64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.forensics.entries.batch_run import BatchRun
    from kcli.protocol.records.batch import RecordBatch


CODEC_NAMES = tuple(codec.name.lower() for codec in Codec) + ("unknown",) * 3

Column = Sequence[int] | Sequence[bytes]


def run_lines(run: BatchRun) -> bytes:
    """Return the lines of sound batches; `text_view.batch_line` makes the same line of a single batch.

    One template makes the lines of all batches. Columns with one value, which nearly all are, are text in it.
    """
    flags, horizons, times, codecs = _attribute_columns(run)
    columns: tuple[tuple[bytes, Column], ...] = (
        (b"baseOffset: ", run.base_offsets),
        (b" lastOffset: ", run.last_offsets),
        (b" count: ", run.counts),
        (b" baseSequence: ", run.sequences),
        (b" lastSequence: ", _last_sequences(run)),
        (b" producerId: ", run.producer_ids),
        (b" producerEpoch: ", run.producer_epochs),
        (b" partitionLeaderEpoch: ", run.leader_epochs),
        (b"", flags),
        (b" deleteHorizonMs: OptionalLong", horizons),
        (b" position: ", run.positions),
        (b"", times),
        (b"", run.max_timestamps),
        (b" size: ", run.sizes),
        (b" magic: 2 compresscodec: ", codecs),
        (b" crc: ", run.crcs),
    )
    template = bytearray()
    varying: list[Column] = []
    for label, column in columns:
        first, form = column[0], b"%b" if isinstance(column[0], bytes) else b"%d"
        if first == column[-1] and column.count(first) == len(column):
            template += label + form % first
        else:
            template += label + form
            varying.append(column)
    template += b" isvalid: true\n"
    return bytes(template * len(run)) % tuple(chain.from_iterable(zip(*varying, strict=True)))


def _attribute_columns(run: BatchRun) -> tuple[Sequence[bytes], ...]:
    """Return the columns of attributes: flags, delete horizons, timestamp types and codecs."""
    if len(set(run.attributes)) == 1 and not run.attributes[0] & DELETE_HORIZON_BIT:
        return tuple((text,) for text in _attribute_texts(run.attributes[0], 0))
    texts = map(_attribute_texts, run.attributes, run.base_timestamps)
    return tuple(zip(*texts, strict=True))


def _attribute_texts(attributes: int, base_timestamp: int) -> tuple[bytes, bytes, bytes, bytes]:
    is_transactional = b"true" if attributes & TRANSACTIONAL_BIT else b"false"
    is_control = b"true" if attributes & CONTROL_BIT else b"false"
    return (
        b" isTransactional: %b isControl: %b" % (is_transactional, is_control),
        b"[%d]" % base_timestamp if attributes & DELETE_HORIZON_BIT else b".empty",
        b" LogAppendTime: " if attributes & TIMESTAMP_TYPE_BIT else b" CreateTime: ",
        CODEC_NAMES[attributes & CODEC_MASK].encode("ascii"),
    )


def _last_sequences(run: BatchRun) -> Sequence[int]:
    if max(run.sequences) < 0:
        return run.sequences
    return [
        first if first < 0 else last & SEQUENCE_MASK
        for first, last in zip(run.sequences, map(add, run.sequences, run.deltas), strict=True)
    ]


CHUNK_CHARACTERS = 128 * 1024

TIMESTAMP_NAMES = {
    TimestampType.NO_TIMESTAMP_TYPE: "NoTimestampType",
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}


class RecordLines:
    """Makes the lines of the records of batches, and notes where offsets do not follow each other.

    It runs for every record of a segment, in one pass over the bytes: numbers of one and two bytes are
    decoded in line, and no object is made of a record but its line. The bytes are decoded as Latin-1, which
    costs nothing; the view encodes the lines back and checks that they are UTF-8.
    """

    __slots__ = ("gaps", "last_offset", "with_contents")

    def __init__(self, *, with_contents: bool) -> None:
        self.with_contents = with_contents
        self.last_offset = -1
        self.gaps: list[tuple[int, int]] = []
        """Pairs of offsets that do not follow each other; the caller takes them."""

    def of_batch(self, batch: RecordBatch, data: bytes) -> Iterator[list[str]]:
        """Yield the lines of the records of a batch, `data`, in lists of limited size.

        Raises `CorruptRecord` after the lines before a record that contradicts the format.
        """
        lines: list[str] = []
        if not batch.count:
            return
        per_chunk = max(CHUNK_CHARACTERS // (len(data) // batch.count + 128), 1)
        text = data.decode("latin-1")
        position, left = 0, batch.count
        while left > 0:
            count = min(per_chunk, left)
            try:
                position = self._append(lines, batch, data, text, position, count)
            except IndexError as error:
                yield lines
                raise CorruptRecord("a record batch holds fewer records than it declares") from error
            except CorruptRecord:
                yield lines
                raise
            left -= count
            yield lines
            lines = []
        if position != len(data):
            raise CorruptRecord("a record batch holds more than the records it declares")

    def _append(
        self, lines: list[str], batch: RecordBatch, data: bytes, text: str, position: int, count: int
    ) -> int:
        """Append the lines of `count` records from `position` on; return the position behind them."""
        base_offset, base_timestamp, sequence = batch.base_offset, batch.base_timestamp, batch.base_sequence
        append_time = batch.max_timestamp if batch.attributes & TIMESTAMP_TYPE_BIT else None
        kind = TIMESTAMP_NAMES[batch.timestamp_type]
        with_contents = self.with_contents
        last_offset, end, append = self.last_offset, len(data), lines.append
        try:
            for _ in range(count):
                byte = data[position]
                if byte < 0x80:
                    length = (byte >> 1) ^ -(byte & 1)
                    position += 2
                elif (second := data[position + 1]) < 0x80 and not byte & 1:
                    length = (byte & 0x7F | second << 7) >> 1
                    position += 3
                else:
                    length, position = read_varint(data, position)
                    position += 1
                record_end = position + length - 1
                if length < 0 or record_end > end:
                    raise CorruptRecord(f"a record of {length} bytes does not fit its batch")

                byte = data[position]
                if byte < 0x80:
                    timestamp = base_timestamp + ((byte >> 1) ^ -(byte & 1))
                    position += 1
                elif (second := data[position + 1]) < 0x80:
                    timestamp = base_timestamp + ((byte & 0x7F | second << 7) >> 1 ^ -(byte & 1))
                    position += 2
                else:
                    delta, position = read_varlong(data, position)
                    timestamp = wrap_int64(base_timestamp + delta)
                if append_time is not None:
                    timestamp = append_time

                byte = data[position]
                if byte < 0x80:
                    delta = (byte >> 1) ^ -(byte & 1)
                    position += 1
                elif (second := data[position + 1]) < 0x80:
                    delta = (byte & 0x7F | second << 7) >> 1 ^ -(byte & 1)
                    position += 2
                else:
                    delta, position = read_varint(data, position)
                offset = base_offset + delta
                if offset != last_offset + 1:
                    self.gaps.append((last_offset, offset))
                last_offset = offset

                byte = data[position]
                if byte < 0x80:
                    key_size = (byte >> 1) ^ -(byte & 1)
                    position += 1
                else:
                    key_size, position = read_varint(data, position)
                if key_size >= 0:
                    key = f" key: {text[position : position + key_size]}"
                    position += key_size
                elif key_size == -1:
                    key = ""
                else:
                    raise CorruptRecord(f"a key cannot have {key_size} bytes")

                byte = data[position]
                if byte < 0x80:
                    value_size = (byte >> 1) ^ -(byte & 1)
                    position += 1
                elif (second := data[position + 1]) < 0x80:
                    value_size = (byte & 0x7F | second << 7) >> 1 ^ -(byte & 1)
                    position += 2
                else:
                    value_size, position = read_varint(data, position)
                if value_size >= 0:
                    value = f" payload: {text[position : position + value_size]}"
                    position += value_size
                elif value_size == -1:
                    value = ""
                else:
                    raise CorruptRecord(f"a value cannot have {value_size} bytes")

                if data[position]:  # the number of headers
                    names, position = _header_names(data, text, position, record_end)
                else:
                    names = ""
                    position += 1
                if position != record_end:
                    raise CorruptRecord("a record does not end where its length says")
                shown = sequence if sequence < 0 else sequence + delta & SEQUENCE_MASK
                metadata = (
                    f"| offset: {offset} {kind}: {timestamp} keySize: {key_size} valueSize: {value_size} "
                    f"sequence: {shown} headerKeys: [{names}]"
                )
                append(f"{metadata}{key}{value}\n" if with_contents else f"{metadata}\n")
        finally:
            self.last_offset = last_offset
        return position


def _header_names(data: bytes, text: str, position: int, record_end: int) -> tuple[str, int]:
    """Return the names of the headers at `position`, and the position behind them."""
    count, position = read_varint(data, position)
    # A header takes at least two bytes: a larger count is refused before any is read.
    if not 0 <= count <= (record_end - position) // 2:
        raise CorruptRecord(f"a record cannot hold {count} headers")
    names = []
    for _ in range(count):
        length, position = read_varint(data, position)
        if not 0 <= length <= record_end - position:
            raise CorruptRecord(f"a header name cannot have {length} bytes")
        names.append(text[position : position + length])
        position += length
        length, position = read_varint(data, position)
        if not -1 <= length <= record_end - position:
            raise CorruptRecord(f"a header value cannot have {length} bytes")
        position += max(length, 0)
    return ",".join(names), position
