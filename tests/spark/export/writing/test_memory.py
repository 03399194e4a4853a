"""A task's memory: bounded, whatever it writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT_BYTES = 400 * 1024 * 1024

PROGRAM = """
import json, sys
from pathlib import Path
import numpy as np
import pyarrow as pa
from kcli.spark.decode.arrow_columns import arrow_schema
from kcli.spark.export.target.layout import Layout
from kcli.spark.export.options import WriteOptions
from kcli.spark.split import Reading
from tests.spark.export.exporting import export, options
from tests.spark.export.fake_source import EPOCH_US, FakeSource


def peak_bytes():
    line = next(one for one in open('/proc/self/status') if one.startswith('VmHWM'))
    return int(line.split()[1]) * 1024


record_bytes, rows, layout = int(sys.argv[2]), int(sys.argv[3]), tuple(sys.argv[4].split(","))
chunk = 8 * 1024 * 1024 // record_bytes
random = np.random.default_rng(1)


class Wide:
    def read(self, split, reading, counters):
        for start in range(split.start, split.end, chunk):
            count = min(chunk, split.end - start)
            data = random.integers(97, 113, count * record_bytes, np.uint8).tobytes()
            sizes = np.arange(0, (count + 1) * record_bytes, record_bytes, dtype=np.int32)
            value = pa.Array.from_buffers(
                pa.binary(), count, [None, pa.py_buffer(sizes), pa.py_buffer(data)]
            )
            offsets = np.arange(start, start + count)
            # Sixteen hours take turns, so that as many files are open.
            times = EPOCH_US + (offsets % 16) * 3_600_000_000
            columns = {"value": value, "offset": offsets, "timestamp": times}
            schema = arrow_schema(reading.columns)
            counters.rows += count
            yield pa.RecordBatch.from_arrays(
                [pa.array(columns[field.name]).cast(field.type) for field in schema], schema=schema
            )


asked = options(write=WriteOptions(reading=Reading(columns=("value", "offset")), layout=Layout(layout)))
tiny = FakeSource.of(20, fake_reader=Wide())
export(tiny, Path(sys.argv[1]) / "tiny", asked)
before = peak_bytes()
export(FakeSource.of(rows, split_offsets=rows, fake_reader=Wide()), Path(sys.argv[1]) / "large", asked)
print(json.dumps({"above_base": peak_bytes() - before}))
"""


@pytest.mark.skipif(not Path("/proc").exists(), reason="the peak is read from /proc")
@pytest.mark.parametrize(
    ("record_bytes", "rows", "layout"),
    [
        (100, 4_000_000, "topic,partition"),
        (1000, 600_000, "topic,partition"),
        (1000, 400_000, "topic,partition,date,hour"),
        (500_000, 800, "topic,partition"),
    ],
)
def test_memory_above_base_is_bounded(record_bytes: int, rows: int, layout: str, tmp_path: Path) -> None:
    program = [sys.executable, "-c", PROGRAM, str(tmp_path), str(record_bytes), str(rows), layout]
    done = subprocess.run(program, capture_output=True, text=True, cwd=Path(__file__).parents[4], timeout=120)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    assert json.loads(done.stdout)["above_base"] < LIMIT_BYTES


def test_freed_memory_is_used_again_without_new_pages() -> None:
    program = """
import json, resource
from kcli.spark.export.writing.task import keep_freed_memory


def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [bytearray(4 * 1024 * 1024) for _ in range(16)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


is_kept = keep_freed_memory()
faults()
print(json.dumps([is_kept, faults()]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[4],
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    is_kept, faults = json.loads(done.stdout)
    # Sixteen blocks are 16,384 pages; only glibc can be told to keep them.
    assert faults < 1000 or not is_kept
