"""Topics that three clients wrote, exported from the broker and from its directory: what kafka-python reads.

`KCLI_SPARK_RECORDS` says how many records each kind of broker gets; above the default every source is
exported by both engines.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from tests.support.apache_kafka import ApacheKafka, KafkaTools
from tests.support.kcli_broker import KcliBroker
from tests.support.producing import create_topic
from tests.support.spark_records import PARTITIONS, WRITERS, Lane, real_lines, send, write_files
from tests.support.stored_rows import SCHEMA
from tests.support.toolchain import INTEROP, need

pytestmark = pytest.mark.interop

FEW = 20_000
RECORDS = int(os.environ.get("KCLI_SPARK_RECORDS", str(FEW)))
LINES = 600_000
TIMEOUT_SECONDS = 180 + RECORDS / 10_000
CREATED, APPENDED = "packages", "packages-appended"
"""The first keeps the time that a record was given, the second has the time of the broker."""
CONFIG = {"retention.ms": "-1", "segment.bytes": str(max(1 << 20, RECORDS * 12))}
STAMPED_CONFIG = {**CONFIG, "message.timestamp.type": "LogAppendTime"}
ROOT = INTEROP.parent.parent

IN_PATHS = pa.schema([("topic", pa.string()), ("partition", pa.int32())])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[Lane, list[Path]]:
    """The records of every lane, as the writers take them."""
    need("java", "javac", "mvn")
    return write_files(tmp_path_factory.mktemp("records"), real_lines(min(LINES, RECORDS)), RECORDS)


@pytest.fixture
def broker(
    request: pytest.FixtureRequest, tmp_path: Path, kafka_tool: KafkaTools
) -> Iterator[KcliBroker | ApacheKafka]:
    """A broker of the test's own, to be stopped."""
    directory = tmp_path / "broker"
    directory.mkdir()
    if request.param == "kcli":
        kcli = KcliBroker(directory)
        yield kcli.start()
        kcli.close()
    else:
        apache = ApacheKafka(directory, kafka_tool)
        apache.start()
        yield apache
        apache.stop()


def write(bootstrap: str, files: dict[Lane, list[Path]]) -> None:
    """Make the topics and have them written."""
    create_topic(bootstrap, CREATED, PARTITIONS, CONFIG)
    create_topic(bootstrap, APPENDED, PARTITIONS, STAMPED_CONFIG)
    send(bootstrap, CREATED, files)
    send(bootstrap, APPENDED, {lane: paths[:1] for lane, paths in files.items() if lane.writer == WRITERS[0]})


def consume(bootstrap: str, directory: Path) -> None:
    """Read everything with kafka-python, two partitions at a time."""
    program = str(INTEROP / "python" / "kafka_python_rows.py")
    wanted = [f"{topic}:{number}" for topic in (CREATED, APPENDED) for number in range(PARTITIONS)]
    readers = [
        subprocess.Popen([sys.executable, program, bootstrap, str(directory), *wanted[start::2]])
        for start in (0, 1)
    ]
    try:
        assert [reader.wait(TIMEOUT_SECONDS * 4) for reader in readers] == [0, 0]
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()


def export(target: Path, *arguments: str) -> dict[str, object]:
    """Run the command, and check what it says against what there is to be found."""
    command = [sys.executable, "-m", "kcli", "spark-export", CREATED, APPENDED, "--to", str(target)]
    done = subprocess.run(
        [*command, "--include-headers", "-o", "json", *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS * 2,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    summary: dict[str, object] = json.loads(done.stdout)
    return summary


def check(target: Path, expected: Path) -> int:
    """Compare every partition, row for row and column for column; return how many rows there are."""
    paths = pyarrow.dataset.partitioning(IN_PATHS, flavor="hive")
    written = pyarrow.dataset.dataset(target, format="parquet", partitioning=paths)
    for file in written.files:
        assert pq.ParquetFile(file).schema_arrow.remove_metadata().equals(SCHEMA), file
    rows = 0
    for path in expected.glob("*.arrow"):
        topic, _, number = path.stem.rpartition("-")
        of_partition = (pyarrow.dataset.field("topic") == topic) & (
            pyarrow.dataset.field("partition") == int(number)
        )
        with pa.memory_map(str(path)) as file:
            wanted = pa.ipc.open_file(file).read_all()
            found = written.to_table(columns=wanted.column_names, filter=of_partition)
            assert found.num_rows == wanted.num_rows, path.stem
            for name in wanted.column_names:
                assert found.column(name).type == wanted.column(name).type, name
                assert found.column(name).equals(wanted.column(name)), f"{path.stem}: {name}"
            rows += wanted.num_rows
    assert written.count_rows() == rows
    return rows


@pytest.mark.parametrize(
    ("broker", "engines"),
    [("kcli", ("local", "spark")), ("apache", ("spark", "local"))],
    indirect=["broker"],
    ids=["kcli", "apache"],
)
def test_the_files_hold_what_kafka_python_reads(
    broker: KcliBroker | ApacheKafka,
    files: dict[Lane, list[Path]],
    engines: tuple[str, str],
    tmp_path: Path,
    show: Callable[[str], None],
) -> None:
    expected = tmp_path / "expected"
    expected.mkdir()
    began = time.monotonic()
    write(broker.bootstrap, files)
    wrote = time.monotonic()
    consume(broker.bootstrap, expected)
    said = [f"{type(broker).__name__}: written in {wrote - began:.1f} s"]
    said += [f"read by kafka-python in {time.monotonic() - wrote:.1f} s"]
    for source, first in zip(("broker", "directory"), engines, strict=True):
        if source == "directory":
            broker.stop()
        where = ("-b", broker.bootstrap) if source == "broker" else ("--log-dir", str(broker.node_directory))
        for engine in (first,) if RECORDS <= FEW else engines:
            target = tmp_path / f"{source}-{engine}"
            summary = export(target, *where, "--engine", engine)
            rows = check(target, expected)
            assert rows > RECORDS
            seconds = summary["seconds"]
            assert isinstance(seconds, float)
            said += [f"{source}, {engine}: {rows} rows in {seconds:.1f} s, {rows / seconds:,.0f} rows/s"]
    show("\n  ".join(said))
