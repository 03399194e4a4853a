"""`spark-export` and `spark-import` against a running broker and its log directory, without Spark.

What pyarrow reads back is held against what kafka-python consumes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from kcli.control_socket import ask
from kcli.protocol.records.batch import iter_batches
from tests.conftest import Finished
from tests.support.connections import connections_of, sockets
from tests.support.copies import copy_running
from tests.support.kcli_broker import KcliBroker
from tests.support.processes import ChildProcess
from tests.support.spark_exports import state_of
from tests.support.waiting import PATIENCE_SECONDS, eventually

Kcli = Callable[..., Finished]
Row = tuple[Any, ...]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 3
LOCAL = ("--engine", "local", "--master", "local[1]")
BEGIN_MS = 1_700_000_000_000


def header_list(number: int) -> list[tuple[str, bytes | None]]:
    return [("kind", b"%d" % number), ("empty", b""), ("null", None)][: number % 4]


def produce(broker: KcliBroker, topic: str, numbers: Sequence[int], *, codec: str = "none") -> None:
    """Write records with librdkafka: null keys and values, headers, times of old."""
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec})
    for number in numbers:
        producer.produce(
            topic,
            value=None if number % 11 == 0 else b"value %d " % number + b"x" * (number % 40),
            key=None if number % 5 == 0 else b"key-%d" % (number % 100),
            partition=number % PARTITIONS,
            headers=header_list(number) or None,
            timestamp=BEGIN_MS + number * 1000,
        )
    assert producer.flush(PATIENCE_SECONDS) == 0


def consumed(broker: KcliBroker, topic: str) -> list[Row]:
    """Return what kafka-python reads: partition, offset, timestamp, type, key, value, headers."""
    # Its import warns of deprecated functions that it uses.
    with warnings.catch_warnings(action="ignore"):
        import kafka

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=[broker.bootstrap], auto_offset_reset="earliest", enable_auto_commit=False
    )
    partitions = [kafka.TopicPartition(topic, index) for index in range(PARTITIONS)]
    consumer.assign(partitions)
    left = sum(consumer.end_offsets(partitions).values())
    rows: list[Row] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(rows) < left and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=500).values():
            rows += [
                (one.partition, one.offset, one.timestamp, one.timestamp_type, one.key, one.value,
                 [(name, content) for name, content in one.headers])
                for one in records
            ]  # fmt: skip
    consumer.close()
    assert len(rows) == left
    return sorted(rows, key=lambda row: row[:2])


def exported(target: Path) -> list[Row]:
    """Return what pyarrow finds below a target, in the same form."""
    dataset = ds.dataset(str(target), format="parquet", partitioning="hive")
    rows = [
        (row["partition"], row["offset"], round(row["timestamp"].timestamp() * 1000), row["timestampType"],
         row["key"], row["value"], [(one["key"], one["value"]) for one in row.get("headers") or ()])
        for row in dataset.to_table().to_pylist()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: row[:2])


@pytest.fixture
def topic(broker: KcliBroker, live: Kcli, request: pytest.FixtureRequest) -> str:
    """A new topic of three partitions with 500 records of every codec."""
    name = "".join(character if character.isalnum() else "-" for character in request.node.name)
    arguments = ("--config", "retention.ms=-1")
    assert live("topics", "create", name, "--partitions", str(PARTITIONS), *arguments).exit_code == 0
    for index, codec in enumerate(CODECS):
        produce(broker, name, range(index * 500, index * 500 + 500), codec=codec)
    return name


def succeeded(finished: Finished) -> dict[str, Any]:
    """Return the JSON that a successful command printed."""
    assert finished.exit_code == 0, finished.err
    document: dict[str, Any] = json.loads(finished.out)
    return document


def files_below(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("from_files", [False, True], ids=["brokers", "log directory"])
def test_what_is_exported_is_what_is_consumed_and_next_time_only_what_is_new(
    topic: str, broker: KcliBroker, live: Kcli, tmp_path: Path, from_files: bool
) -> None:
    source = ("--log-dir", str(broker.node_directory)) if from_files else ()
    command = ("spark-export", topic, "--to", str(tmp_path / "out"), "--include-headers", *LOCAL, *source)
    first = succeeded(live(*command, "-o", "json"))
    assert (first["counters"]["rows"], first["committed_plans"], first["gaps"]) == (2500, [1], [])
    assert exported(tmp_path / "out") == consumed(broker, topic)

    produce(broker, topic, range(2500, 2600), codec="zstd")
    again = succeeded(live(*command, "-o", "json"))
    assert (again["counters"]["rows"], again["committed_plans"]) == (100, [2])
    assert live(*command).out == f"nothing new for {tmp_path / 'out'}\n"
    assert exported(tmp_path / "out") == consumed(broker, topic)

    verified = succeeded(live("spark-export", "--to", str(tmp_path / "out"), "--verify", "-o", "json"))
    assert (verified["rows"], verified["problems"]) == (2600, [])
    listed = live("spark-export", "--to", str(tmp_path / "out"), "--list").out.splitlines()
    assert {os.path.relpath(path, tmp_path / "out") for path in listed} == files_below(tmp_path / "out")


def test_what_was_exported_comes_back_to_a_topic(
    topic: str, broker: KcliBroker, live: Kcli, tmp_path: Path
) -> None:
    out, copy = str(tmp_path / "out"), f"{topic}-copy"
    layout = ("--partition-by", "topic,date", "--key-as", "string", "--include-headers")
    succeeded(live("spark-export", topic, "--to", out, *layout, *LOCAL, "-o", "json"))
    plan = live("spark-import", out, "--topic", copy, "--dry-run")
    assert plan.err == f"topic `{copy}` would be created with 3 partitions\n"
    assert plan.out.splitlines()[-1] == f"dry run: 2,500 records of {topic} to topic {copy}"

    back = succeeded(live("spark-import", out, "--topic", copy, "-o", "json"))
    assert sum(part["imported"] for part in back["partitions"]) == 2500
    assert consumed(broker, copy) == consumed(broker, topic)
    assert live("spark-import", out, "--topic", copy).out.splitlines()[-1] == f"nothing new for topic {copy}"

    produce(broker, topic, range(2500, 2530))
    succeeded(live("spark-export", topic, "--to", out, *layout, *LOCAL, "-o", "json"))
    more = succeeded(live("spark-import", out, "--topic", copy, "-o", "json"))
    assert [(part["before"], part["imported"]) for part in more["partitions"]] == [
        (834, 10), (833, 10), (833, 10),
    ]  # fmt: skip
    assert consumed(broker, copy) == consumed(broker, topic)


def test_columns_ranges_and_layout(topic: str, live: Kcli, tmp_path: Path) -> None:
    out = tmp_path / "out"
    succeeded(
        live(
            "spark-export",
            "--assign",
            json.dumps({topic: [0, 1]}),
            "--to",
            str(out),
            "--flat",
            "--columns",
            "offset,value,topic",
            "--value-as",
            "string",
            "--compression",
            "snappy",
            "--starting-offsets",
            json.dumps({topic: {"0": 10, "1": 700}}),
            "--ending-offsets",
            json.dumps({topic: {"0": 20, "1": -1}}),
            *LOCAL,
            "-o",
            "json",
        )
    )
    table = ds.dataset(str(out), format="parquet").to_table()
    assert table.schema.remove_metadata() == pa.schema(
        [("value", pa.string()), ("topic", pa.string()), ("offset", pa.int64())]
    )
    assert sorted(table.column("offset").to_pylist()) == [*range(10, 20), *range(700, 833)]
    assert set(table.column("topic").to_pylist()) == {topic}


def test_an_export_that_follows_ends_in_order(
    topic: str, broker: KcliBroker, live: Kcli, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = ["spark-export", topic, "-b", broker.bootstrap, "--to", str(out), "--include-headers", *LOCAL]
    process = ChildProcess(
        [sys.executable, "-m", "kcli", *command, "--follow", "--interval", "100ms", "-o", "json"],
        stderr=tmp_path / "errors",
    )

    def is_committed(commit: Path) -> bool:
        assert process.is_running(), process.errors
        return commit.exists()

    first, second = (state_of(out) / f"log/000000000{number}.commit.json" for number in (1, 2))
    eventually(lambda: is_committed(first), "what there was is exported", seen=lambda: process.errors)
    produce(broker, topic, range(2500, 2600))
    eventually(lambda: is_committed(second), "what came later is exported", seen=lambda: process.errors)
    assert process.stop() == 0, (tmp_path / "errors").read_text()
    succeeded(live(*command, "-o", "json"))
    assert exported(out) == consumed(broker, topic)


@contextmanager
def slowed(broker: KcliBroker, api: str, topic: str, delay_ms: int) -> Iterator[None]:
    """Have requests about a topic wait, so that a command is not done before anybody looks at it."""
    wanted = {"kind": "delay", "api": api, "topic": topic, "delay_ms": delay_ms}
    added = ask(broker.data, "fault.add", timeout_seconds=PATIENCE_SECONDS, **wanted)
    try:
        yield
    finally:
        ask(broker.data, "fault.clear", timeout_seconds=PATIENCE_SECONDS, numbers=[added["number"]])


@pytest.fixture
def interrupted(topic: str, broker: KcliBroker, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """An export of many small splits in a process group of its own, interrupted as soon as one is done."""
    out = tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "-m", "kcli", "spark-export", topic, "-b", broker.bootstrap, "--to", str(out),
         "--max-records-per-partition", "10", "--include-headers", *LOCAL],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip

    def is_under_way() -> bool:
        assert process.poll() is None, process.communicate()
        return any(state_of(out).glob("log/0000000001/split-*.json"))

    with slowed(broker, "Fetch", topic, 100):
        eventually(is_under_way, "a split is done")
        os.killpg(process.pid, signal.SIGINT)
    yield process
    if process.poll() is None:
        process.kill()
        process.wait()


def test_ctrl_c_ends_with_130_and_the_next_run_goes_on(
    interrupted: subprocess.Popen[bytes], topic: str, broker: KcliBroker, live: Kcli, tmp_path: Path
) -> None:
    out, err = interrupted.communicate(timeout=PATIENCE_SECONDS)
    assert (interrupted.returncode, out) == (130, b""), err
    first, *rest = err.decode().splitlines()
    assert (first.startswith("error: interrupted"), len(rest), rest[0][:6]) == (True, 1, "hint: ")
    target = tmp_path / "out"
    assert not list(state_of(target).glob("log/*.commit.json"))
    command = ("spark-export", topic, "--to", str(target), "--include-headers", *LOCAL)
    resumed = live(*command, "-o", "json")
    assert succeeded(resumed)["resumed"]
    assert resumed.err.startswith("resuming plan 1, begun by an earlier run\n")
    assert exported(target) == consumed(broker, topic)
    assert succeeded(live("spark-export", "--to", str(target), "--verify", "-o", "json"))["problems"] == []


@pytest.fixture
def damaged(topic: str, broker: KcliBroker, tmp_path: Path) -> Path:
    """A copy of the log directory in which a byte of a batch in the middle of partition 1 has changed."""
    copy = copy_running(broker.node_directory, tmp_path / "copy")
    (log,) = (copy / f"{topic}-1").glob("*.log")
    content = bytearray(log.read_bytes())
    batches = list(iter_batches(content))
    # The last byte of a batch belongs to a record: not every field of the header is covered by the checksum.
    content[sum(batch.size_in_bytes for batch in batches[: len(batches) // 2 + 1]) - 1] ^= 0x40
    log.write_bytes(content)
    return copy


def test_a_damaged_batch_ends_an_export_and_leaves_the_target_as_it_was(
    topic: str, damaged: Path, live: Kcli, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    finished = live("spark-export", topic, "--log-dir", str(damaged), "--to", str(target), *LOCAL)
    lines = finished.err.splitlines()
    first, hint = [line for line in lines if not line.startswith("warning: ")]
    assert (finished.exit_code, finished.out) == (1, "")
    assert first.startswith("error: ")
    assert f"{topic}-1" in first
    assert "--on-corrupt skip" in hint
    assert not [name for name in files_below(target) if name.endswith(".parquet")]
    assert not list(state_of(target).glob("log/*.commit.json"))


@pytest.mark.parametrize("policy", ["skip", "quarantine"])
def test_a_damaged_batch_is_left_out_and_counted(
    policy: str, topic: str, damaged: Path, broker: KcliBroker, live: Kcli, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    command = ("spark-export", topic, "--to", str(target), "--include-headers", *LOCAL, "-o", "json")
    finished = live(*command, "--log-dir", str(damaged), "--on-corrupt", policy)
    summary = succeeded(finished)
    missing = {
        (gap["partition"], offset) for gap in summary["gaps"] for offset in range(gap["start"], gap["end"])
    }
    rows = consumed(broker, topic)
    assert summary["counters"]["corrupt_batches"] == 1
    assert 0 < len(missing) < 200
    assert exported(target) == [row for row in rows if row[:2] not in missing]
    assert "1 damaged place left out" in finished.err
    kept = list(state_of(target).glob("dead-letter/batches/*.bin"))
    assert len(kept) == (policy == "quarantine")


def test_of_several_replicas_the_most_complete_is_read(
    topic: str, broker: KcliBroker, live: Kcli, tmp_path: Path
) -> None:
    behind = copy_running(broker.node_directory, tmp_path / "behind")
    produce(broker, topic, range(2500, 2600))
    target = tmp_path / "out"
    places = ("--log-dir", str(behind), "--log-dir", str(broker.node_directory))
    succeeded(
        live("spark-export", topic, "--to", str(target), "--include-headers", *places, *LOCAL, "-o", "json")
    )
    assert exported(target) == consumed(broker, topic)


def test_an_import_that_is_killed_goes_on_behind_the_last_record(
    topic: str, broker: KcliBroker, live: Kcli, tmp_path: Path
) -> None:
    out, copy = str(tmp_path / "out"), f"{topic}-copy"
    succeeded(live("spark-export", topic, "--to", out, "--include-headers", *LOCAL, "-o", "json"))
    command = [sys.executable, "-m", "kcli", "spark-import", out, "--topic", copy, "-b", broker.bootstrap]
    slowly = ("-X", "batch.size=200", "-X", "max.in.flight.requests.per.connection=1", "-X", "linger.ms=0")

    def arrived() -> int:
        return sum(log.stat().st_size for log in broker.node_directory.glob(f"{copy}-*/*.log"))

    def wait_for_bytes(count: int) -> None:
        eventually(lambda: arrived() >= count, "records have arrived")

    def kill(process: subprocess.Popen[bytes]) -> None:
        connections = connections_of(process.pid, broker.process.pid)
        assert connections
        process.kill()
        assert process.wait() == -signal.SIGKILL
        # The last request is still being answered: its records would come behind those of the next process.
        eventually(lambda: not connections & sockets(broker.process.pid), "the broker is done with it")

    with slowed(broker, "Produce", copy, 30):
        for _ in range(3):
            process = subprocess.Popen(
                [*command, *slowly], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            wait_for_bytes(arrived() + 3000)
            kill(process)
    finished = succeeded(live("spark-import", out, "--topic", copy, "-o", "json"))
    assert all(part["before"] + part["imported"] == part["rows"] for part in finished["partitions"])
    assert any(part["before"] for part in finished["partitions"])
    assert consumed(broker, copy) == consumed(broker, topic)
