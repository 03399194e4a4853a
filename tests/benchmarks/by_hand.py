"""Reading log files, decoding and writing them as Parquet, and nothing else: what exports are held against.

    python -m tests.benchmarks.by_hand LOG [PARQUET]

No plan, no receipt, no splits: a process writes one file, with the settings of an export. Without a file it
only decompresses the batches and compresses what was in them, as much at a time as a page of Parquet has,
which nobody can do without. It prints rows and the seconds and CPU seconds that they took, without those for
starting Python and importing libraries.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

BUFFER_BYTES = 8 * 1024 * 1024
PAGE_BYTES = 1024 * 1024
_END = 2**62


@dataclass(frozen=True, slots=True)
class ByHand:
    """What an export by hand took: wall time and CPU time, the `work_…` ones without start-up."""

    rows: int
    seconds: float
    work_seconds: float
    cpu_seconds: float
    work_cpu_seconds: float


def export_by_hand(
    logs: Sequence[Path], directory: Path | None, *, environment: Mapping[str, str] | None = None
) -> ByHand:
    """Export log files, or without a directory only recompress them, a process for each at the same time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    command = [sys.executable, "-m", "tests.benchmarks.by_hand"]
    workers = [
        subprocess.Popen(
            [*command, str(log), *([str(directory / f"{number}.parquet")] if directory else [])],
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        for number, log in enumerate(logs)
    ]
    told = [worker.communicate()[0].split() for worker in workers]
    seconds = time.perf_counter() - begun
    if any(worker.returncode for worker in workers):
        raise RuntimeError("an export by hand failed")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    rows, work = sum(int(rows) for rows, _, _ in told), max(float(work) for _, work, _ in told)
    return ByHand(rows, seconds, work, cpu_seconds, sum(float(cpu) for _, _, cpu in told))


def decoded(log: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a log file, read into one buffer."""
    from kcli.spark.decode.gatherer import Gatherer
    from kcli.spark.split import ReadCounters, Reading

    gatherer = Gatherer("topic", 0, 0, _END, Reading(), ReadCounters())
    buffer = bytearray(BUFFER_BYTES)
    view = memoryview(buffer)
    kept = 0
    with log.open("rb", buffering=0) as file:
        while count := file.readinto(view[kept:]):
            stop = kept + count
            yield from gatherer.rows(buffer, 0, stop, is_end=kept + count < BUFFER_BYTES)
            kept = stop - gatherer.stopped_at
            view[:kept] = view[gatherer.stopped_at : stop]


def write(log: Path, parquet: Path) -> int:
    """Write the rows of a log file as Parquet; return how many."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from kcli.spark.decode.arrow_columns import arrow_schema
    from kcli.spark.export.options import ParquetOptions
    from kcli.spark.export.writing.split_writer import settings
    from kcli.spark.split import COLUMNS

    options = ParquetOptions()
    schema = arrow_schema([name for name in COLUMNS if name not in ("topic", "partition", "headers")])
    pa.set_cpu_count(1)
    rows = 0
    held: list[pa.RecordBatch] = []
    with pq.ParquetWriter(parquet, schema, **settings(schema, options)) as writer:
        for batch in decoded(log):
            held.append(batch.select(schema.names))
            rows += batch.num_rows
            if sum(one.num_rows for one in held) >= options.row_group_rows:
                writer.write_table(pa.Table.from_batches(held), row_group_size=2 * options.row_group_rows)
                held.clear()
        if held:
            writer.write_table(pa.Table.from_batches(held), row_group_size=2 * options.row_group_rows)
    return rows


def recompress(log: Path) -> int:
    """Decompress the batches of a log file and compress what was in them with zstd; return the records."""
    import pyarrow as pa

    from kcli.protocol.compression.codecs import Codec
    from kcli.protocol.records.batch_header import HEADER, HEADER_SIZE, LOG_OVERHEAD
    from kcli.spark.decode.decompression import DecompressedRecords

    page_codec, decompressed = pa.Codec("zstd", compression_level=1), DecompressedRecords()
    data = memoryview(log.read_bytes())
    rows = at = 0
    while at < len(data):
        header = HEADER.unpack_from(data, at)
        stop = at + LOG_OVERHEAD + header[1]
        decompressed.add(Codec.of_attributes(header[5]), data[at + HEADER_SIZE : stop], BUFFER_BYTES)
        rows, at = rows + header[12], stop
        if len(decompressed.view) >= PAGE_BYTES or at == len(data):
            page_codec.compress(decompressed.view)
            decompressed.clear()
    return rows


def main() -> None:
    """Export the file that the command line names."""
    from kcli.spark.decode.decoders import decoder_named
    from kcli.spark.export.writing.task import keep_freed_memory

    decoder_named("")
    keep_freed_memory()
    log, *parquet = map(Path, sys.argv[1:])
    begun, begun_cpu = time.perf_counter(), time.process_time()
    rows = write(log, parquet[0]) if parquet else recompress(log)
    print(rows, time.perf_counter() - begun, time.process_time() - begun_cpu)


if __name__ == "__main__":
    main()
