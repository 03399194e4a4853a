"""From bytes to Arrow columns and to Parquet, without Spark: decoders, codecs, and the whole way by hand.

The first table holds the decoders against each other, on records of 129 bytes that are in memory. The second
reads, checks, decompresses and decodes files that are in the page cache; its limit is to read them and make
their CRC-32C. The third writes them as Parquet: what no export can be faster than.

`KCLI_DECODERS_MB` is the size of the files, 256 unless it says otherwise.
"""

from __future__ import annotations

import os
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.spark.decode.batch_group import Group
from kcli.spark.decode.chunk import COUNT
from kcli.spark.decode.decoders import ENVIRONMENT_VARIABLE, decoder_named
from kcli.spark.decode.decompression import DecompressedRecords
from kcli.spark.decode.entry import entry_at, size_at
from kcli.spark.split import COLUMNS
from tests.benchmarks.by_hand import decoded, export_by_hand
from tests.benchmarks.measure import alternate, cores
from tests.benchmarks.segments import FIRST_TIMESTAMP, Segment, write_segment
from tests.benchmarks.table import Gate, Table
from tests.benchmarks.wire import payloads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcli.spark.decode.chunk import Chunk

MEGABYTE = 1_000_000
SIZE_BYTES = int(os.environ.get("KCLI_DECODERS_MB", "256")) * MEGABYTE
CHUNK_BYTES = 4 * 1024 * 1024
VALUE_BYTES = 105
ROUNDS = 3
DECODERS = ("python", "numpy", "numba")
SHAPES = {
    "batches of 16 KB": (16_384, ()),
    "batches of 1 MB": (1_048_576, ()),
    "16 KB, a header each": (16_384, (("trace-id", b"0123456789abcdef"),)),
}
WITHOUT_HEADERS = COLUMNS[:-1]


def run() -> Sequence[Table]:
    """Measure everything."""
    with tempfile.TemporaryDirectory(prefix="kcli-decoders-") as directory:
        segments = {
            codec: write_segment(Path(directory) / codec.name, SIZE_BYTES, VALUE_BYTES, codec)
            for codec in Codec
        }
        written = Path(directory) / "written"
        written.mkdir()
        return [_decoders(), _reading(segments), _writing(segments, written)]


def _decoders() -> Table:
    table = Table("decoders, Mrec/s of CPU time", ("", *DECODERS, "numpy / python", "numba / numpy"))
    for name, (batch_bytes, headers) in SHAPES.items():
        chunk = _chunk(batch_bytes, headers)
        wanted = COLUMNS if headers else WITHOUT_HEADERS
        records = int(chunk.batches[:, COUNT].sum())
        subjects = {one: partial(_decoding, one, chunk, wanted) for one in DECODERS}
        found = {one: records / seconds / 1e6 for one, seconds in alternate(subjects).items()}
        ratios = found["numpy"] / found["python"], found["numba"] / found["numpy"]
        table.add(name, *found.values(), *ratios)
        if name == next(iter(SHAPES)):
            table.gates.append(Gate("numpy / python", ratios[0], 5.0, at_least=True))
            table.gates.append(Gate("numba / numpy", ratios[1], 2.5, at_least=True))
    return table


def _decoding(name: str, chunk: Chunk, wanted: Sequence[str]) -> float:
    decoder = decoder_named(name)
    return _cpu_seconds(lambda: decoder(chunk, wanted))


def _chunk(batch_bytes: int, headers: Sequence[tuple[str, bytes]]) -> Chunk:
    values = payloads(VALUE_BYTES, 1024)
    data = bytearray()
    number = 0
    while len(data) < CHUNK_BYTES:
        builder = RecordBatchBuilder(base_offset=number)
        while builder.estimated_size < batch_bytes:
            builder.append(FIRST_TIMESTAMP + number, b"%010d" % number, values[number % 1024], headers)
            number += 1
        data += builder.build()
    group = Group(memoryview(data), DecompressedRecords())
    at = 0
    while at < len(data):
        entry = entry_at(group.view, at, size_at(group.view, at, len(data)))
        group.fill([entry], 0, CHUNK_BYTES, CHUNK_BYTES)
        at = entry.end
    return group.chunk(0, number)


def _reading(segments: dict[Codec, Segment]) -> Table:
    head = ("", "Mrec/s", "MB/s of file", "of read and CRC")
    table = Table(f"read, check, decompress and decode {SIZE_BYTES / MEGABYTE:.0f} MB, CPU time", head)
    for codec, segment in segments.items():
        found = alternate(
            {
                "decode": partial(_cpu_seconds, partial(_count, segment.log, segment.records)),
                "limit": partial(_cpu_seconds, segment.read_and_check),
            },
            rounds=ROUNDS,
        )
        speed = segment.size_bytes / MEGABYTE / found["decode"]
        part = found["limit"] / found["decode"]
        table.add(codec.name.lower(), segment.records / found["decode"] / 1e6, speed, part)
    table.notes.append(f"records of {VALUE_BYTES} bytes and a key of 10, by the compiled decoder")
    return table


def _count(log: Path, records: int) -> None:
    rows = sum(batch.num_rows for batch in decoded(log))
    if rows != records:
        raise RuntimeError(f"{rows} rows of {records} records")


def _writing(segments: dict[Codec, Segment], directory: Path) -> Table:
    head = ("", "Mrec/s", "wall s", "without start s", "CPU s", "Mrec per CPU-s")
    table = Table("read, decode and write Parquet (zstd) by hand", head)
    for codec in (Codec.NONE, Codec.LZ4, Codec.ZSTD):
        for processes in dict.fromkeys((1, cores())):
            for decoder in ("numba", "numpy"):
                logs = [segments[codec].log] * processes
                environment = os.environ | {ENVIRONMENT_VARIABLE: decoder}
                runs = [export_by_hand(logs, directory, environment=environment) for _ in range(ROUNDS)]
                one = sorted(runs, key=lambda run: run.seconds)[ROUNDS // 2]
                table.add(
                    f"{codec.name.lower()}, {processes} process{'es' * (processes > 1)}, {decoder}",
                    one.rows / one.work_seconds / 1e6,
                    one.seconds,
                    one.work_seconds,
                    one.cpu_seconds,
                    one.rows / one.cpu_seconds / 1e6,
                )
    return table


def _cpu_seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun
