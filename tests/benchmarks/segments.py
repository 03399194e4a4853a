"""Segments for benchmarks: as large as they are to be, shaped as producers shape them by default."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.batch_header import crc32c, set_base_offset_and_epoch, update_crc
from tests.benchmarks.wire import payloads

if TYPE_CHECKING:
    from pathlib import Path

BATCH_BYTES = 16_384
"""On disk: `batch.size` of a producer bounds what it sends, after compression."""

FIRST_TIMESTAMP = 1_700_000_000_000
DISTINCT_BATCHES = 32
DISTINCT_VALUES = 8192
READ_BYTES = 1024 * 1024
_TIMESTAMPS = Struct(">qq")
_TIMESTAMPS_POSITION = 27
_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")


@dataclass(frozen=True, slots=True)
class Segment:
    """A log file with both of its indexes beside it."""

    log: Path
    size_bytes: int
    batches: int
    records: int

    @property
    def index(self) -> Path:
        """Its offset index."""
        return self.log.with_suffix(".index")

    @property
    def time_index(self) -> Path:
        """Its time index."""
        return self.log.with_suffix(".timeindex")

    def read_and_check(self) -> None:
        """The physical limit: read every byte into a buffer, and make its CRC-32C."""
        buffer = bytearray(READ_BYTES)
        with self.log.open("rb", buffering=0) as file:
            view = memoryview(buffer)
            checksum = 0
            while count := file.readinto(buffer):
                checksum = crc32c(view[:count], checksum)


def write_segment(
    partition: Path,
    size_bytes: int,
    record_bytes: int,
    codec: Codec,
    *,
    distinct_batches: int = DISTINCT_BATCHES,
) -> Segment:
    """Write a segment of about that size into a new directory, with indexes as a broker writes them.

    So many batches are made; behind the last one they come again, with other offsets and times.
    """
    partition.mkdir()
    log = partition / f"{0:020}.log"
    models, counts = _models(record_bytes, codec, distinct_batches)
    position = offset = number = 0
    offsets, times = bytearray(), bytearray()
    with log.open("wb", buffering=READ_BYTES) as file:
        while position < size_bytes:
            batch, count = models[number % distinct_batches], counts[number % distinct_batches]
            timestamp = FIRST_TIMESTAMP + number
            set_base_offset_and_epoch(batch, 0, offset, 0)
            _TIMESTAMPS.pack_into(batch, _TIMESTAMPS_POSITION, timestamp, timestamp)
            update_crc(batch, 0)
            file.write(batch)
            last = offset + count - 1
            if number:
                offsets += _OFFSET_ENTRY.pack(last, position)
                times += _TIME_ENTRY.pack(timestamp, last)
            position += len(batch)
            offset += count
            number += 1
    segment = Segment(log, position, number, offset)
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    segment.index.write_bytes(offsets)
    segment.time_index.write_bytes(times)
    return segment


@lru_cache(maxsize=2)
def _models(record_bytes: int, codec: Codec, distinct_batches: int) -> tuple[list[bytearray], list[int]]:
    """Different batches of about the size that is wanted, and how many records are in each."""
    values = payloads(record_bytes, DISTINCT_VALUES)
    collected = BATCH_BYTES
    if codec is not Codec.NONE:
        trial, _ = _model(values, 0, BATCH_BYTES, codec)
        collected = BATCH_BYTES * BATCH_BYTES // len(trial)
    made = []
    at = 0
    for _ in range(distinct_batches):
        made.append(_model(values, at, collected, codec))
        at += made[-1][1]
    return [batch for batch, _ in made], [count for _, count in made]


def _model(values: list[bytes], first: int, collected: int, codec: Codec) -> tuple[bytearray, int]:
    builder = RecordBatchBuilder(codec=codec)
    at = first
    while builder.estimated_size < collected:
        builder.append(FIRST_TIMESTAMP, b"%010d" % at, _value(values, at))
        at += 1
    return builder.build(), builder.count


def _value(values: list[bytes], at: int) -> bytes:
    """Return a value that no other record has: what comes around again is put together from two."""
    value, again = values[at % len(values)], at // len(values)
    cut = again * 7 % len(value)
    return value[cut:] + values[(at + again) % len(values)][:cut] if again else value
