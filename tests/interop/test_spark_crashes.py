"""Exports whose driver, workers or broker are killed: every record once. And records that are gone before.

`KCLI_SPARK_KILLS` says how many kills there are; the default keeps the test short.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from kcli.spark.export.target.local_target import LocalTarget
from kcli.spark.export.verification import verify_export
from tests.spark.export.exporting import offsets_in, offsets_on_disk, temporary_files
from tests.support.kcli_broker import KcliBroker
from tests.support.producing import create_topic, delete_topic, end_offsets
from tests.support.spark_exports import ExportProcess, command_line, descendants, kill, state_of
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop

KILLS = int(os.environ.get("KCLI_SPARK_KILLS", "6"))
SPARK_KILLS = max(1, KILLS // 12)
SEED = int(os.environ.get("KCLI_SPARK_SEED", "1"))
TOPIC = "killed"
PARTITIONS = 3
FLUSH_SECONDS = 120
BY_RUN = 400
"""Records of each partition between two exports."""
SMALL_TASKS = ("--max-records-per-partition", "100")
VICTIMS = ("driver", "worker", "broker")
ENDS = {"driver": (0, -9), "worker": (0,), "broker": (0, 1), "JVM": (0, 1)}
"""The exit codes of an export by who was killed."""


class Trial:
    """A topic, its numbered records, and the exports of it."""

    def __init__(self, broker: KcliBroker, directory: Path, exports: ExitStack) -> None:
        self._exports = exports
        self.broker = broker
        self.target = directory / "lake"
        self.log = directory / "exports.log"
        self.sent = 0
        self.chance = random.Random(SEED)
        self.killed: Counter[str] = Counter()
        self._create()
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "compression.type": "lz4",
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "log_level": 0,
            }
        )

    def _create(self) -> None:
        create_topic(self.broker.bootstrap, TOPIC, PARTITIONS, {"segment.bytes": str(1 << 20)})

    def make_again(self) -> None:
        """Delete the topic and create it, empty."""
        delete_topic(self.broker.bootstrap, TOPIC)
        self._create()
        self.sent = 0

    def produce(self, count: int) -> None:
        """Give every partition records whose value is their offset; do not wait for the broker."""
        for number in range(self.sent, self.sent + count):
            for partition in range(PARTITIONS):
                self._producer.produce(TOPIC, b"%d %s" % (number, b"x" * (number % 400)), partition=partition)
        self.sent += count
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until the broker has them all."""
        assert self._producer.flush(FLUSH_SECONDS) == 0

    def export(self, *arguments: str, engine: str = "local") -> ExportProcess:
        """Start an export."""
        options = ("-b", self.broker.bootstrap, "--engine", engine, *SMALL_TASKS)
        process = ExportProcess(self.log, TOPIC, "--to", self.target, *options, *arguments)
        return self._exports.enter_context(process)

    def exported(self, *arguments: str) -> dict[str, Any]:
        """Run one to its end, and return what it says."""
        process = self.export(*arguments)
        code, output = process.wait()
        assert code == 0, process.errors[-3000:]
        summary: dict[str, Any] = json.loads(output)
        return summary

    def kill(self, victim: str, process: ExportProcess) -> None:
        """Kill a part of a running export."""
        if victim == "driver":
            self.killed[victim] += process.is_running()
            process.kill()
        elif victim == "worker":
            workers = process.workers()
            self.killed[victim] += bool(workers) and kill(self.chance.choice(workers))
        else:
            self.killed[victim] += process.is_running()
            self.broker.kill()
            self.broker.start()

    def refused(self, *arguments: str) -> dict[str, str]:
        """Run one that is refused and changes nothing, and return what it says of its failure."""
        before = self.files()
        code, output = self.export(*arguments).wait()
        assert code == 1
        assert self.files() == before
        failure: dict[str, str] = json.loads(output)["failure"]
        return failure

    def files(self) -> dict[Path, int]:
        """The files of the target, and when they were written last."""
        found = (
            path
            for folder in (self.target, state_of(self.target))
            for path in folder.rglob("*")
            if path.is_file()
        )
        return {path: path.stat().st_mtime_ns for path in found if path.name != "lock"}

    def check(self) -> None:
        """Every offset is there once, and nothing else is left."""
        self.check_rows()
        assert temporary_files(self.target) == []
        assert verify_export(LocalTarget(str(self.target))).problems == ()

    def check_rows(self) -> None:
        """Every offset is there once, with its value, for who asks the log and for who reads the files."""
        wanted = {(TOPIC, partition): list(range(self.sent)) for partition in range(PARTITIONS)}
        there = end_offsets(self.broker.bootstrap, TOPIC)
        assert there == dict.fromkeys(range(PARTITIONS), (0, self.sent))
        assert offsets_in(self.target) == wanted
        rows = pyarrow.dataset.dataset(self.target, format="parquet", partitioning="hive").to_table(
            columns=["partition", "offset", "value"]
        )
        found = sorted(zip(*(rows.column(name).to_pylist() for name in rows.column_names), strict=True))
        assert [row[:2] for row in found] == [
            (one, offset) for _, one in wanted for offset in range(self.sent)
        ]
        assert all(int(value.split(b" ")[0]) == offset for _, offset, value in found)


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the compiler: dozens of processes start, and each reads a few hundred records."""
    monkeypatch.setenv("KCLI_DECODER", "numpy")


@pytest.fixture
def new_trial(new_kcli_broker: Callable[..., KcliBroker], tmp_path: Path) -> Iterator[Callable[..., Trial]]:
    """Make a topic of a broker of its own; what exports it has is ended."""
    with ExitStack() as exports:
        yield lambda settings=None: Trial(new_kcli_broker(settings).start(), tmp_path, exports)


@pytest.fixture
def trial(new_trial: Callable[..., Trial]) -> Trial:
    """A topic of a broker that may be killed."""
    return new_trial()


def spread(chance: random.Random, usual_seconds: float, late: int = 0) -> float:
    """A moment of a run that usually takes so long: its first half is the start of a program.

    `late` says how often in a row it had ended by then: on a machine that others leave it takes less long.
    """
    return usual_seconds * chance.choice((chance.uniform(0, 1), chance.uniform(0.4, 1))) / (1 + late)


def test_an_export_may_be_killed_whenever_new_records_are_exported(
    trial: Trial, show: Callable[[str], None]
) -> None:
    chance, attempts, late = random.Random(SEED), 0, 0
    trial.produce(BY_RUN)
    trial.flush()
    began = time.monotonic()
    trial.exported()
    usual = time.monotonic() - began
    codes: Counter[int] = Counter()
    while trial.killed.total() < KILLS // 2:
        victim, attempts = VICTIMS[trial.killed.total() % 3], attempts + 1
        assert attempts < 5 * KILLS, f"too late nearly always: {codes}"
        trial.produce(BY_RUN)
        trial.flush()
        process = trial.export()
        time.sleep(spread(chance, usual, late))  # The moment of the kill is what is drawn.
        if victim == "worker":
            process.has_workers()
        before = trial.killed.total()
        trial.kill(victim, process)
        late = 0 if trial.killed.total() > before else late + 1
        code, _ = process.wait()
        codes[code] += 1
        assert code in ENDS[victim], process.errors[-3000:]
        process.orphans_end()
        if trial.killed.total() % 10 == 0:
            trial.exported()
            trial.check()
    trial.exported()
    trial.check()
    show(f"kill -9 during exports: {dict(trial.killed)}, exit codes {dict(codes)}; {trial.sent * 3} records")


def test_a_following_export_may_be_killed_at_any_moment(trial: Trial, show: Callable[[str], None]) -> None:
    chance = random.Random(SEED + 1)
    follow = ("--follow", "--interval", "50ms")
    process = trial.export(*follow)
    while trial.killed.total() < (KILLS + 1) // 2:
        victim = VICTIMS[trial.killed.total() % 3]
        deadline = time.monotonic() + spread(chance, 2.0)
        while time.monotonic() < deadline:
            trial.produce(20)
            time.sleep(0.02)  # As a topic grows that is followed.
        trial.kill(victim, process)
        if victim == "driver":
            process.wait()
            process.orphans_end()
            process = trial.export(*follow)
        else:
            assert process.is_running(), trial.log.read_text()[-3000:]
    trial.flush()
    eventually(
        lambda: committed(trial.target) == [trial.sent] * PARTITIONS,
        "the last records",
        seconds=2 * FLUSH_SECONDS,
        seen=lambda: (committed(trial.target), process.errors[-3000:]),
    )
    process.terminate()
    code, _ = process.wait()
    assert code == 0, process.errors[-3000:]
    trial.check()
    show(f"kill -9 during --follow: {dict(trial.killed)}; {trial.sent * 3} records once")


def committed(target: Path) -> list[int]:
    """Where the next export would begin."""
    newest = max((state_of(target) / "log").glob("*.commit.json"), default=None)
    if newest is None:
        return []
    return [offset for _, offset in sorted(json.loads(newest.read_bytes())["next"][TOPIC].items())]


@pytest.mark.parametrize("turn", range(SPARK_KILLS))
def test_an_export_on_spark_may_be_killed(trial: Trial, turn: int) -> None:
    chance = random.Random(SEED + turn)
    victim = ("driver", "worker", "JVM")[turn % 3]
    trial.produce(BY_RUN * 8)
    trial.flush()
    process = trial.export(engine="spark")
    process.has_receipts(trial.target)
    time.sleep(chance.uniform(0, 1))  # The moment of the kill is what is drawn.
    if victim == "driver":
        process.kill()
    else:
        daemons = [one for one in process.workers() if "pyspark.daemon" in command_line(one)]
        workers = [child for one in daemons for child in descendants(one)]
        jvm = [one for one in process.workers() if "SparkSubmit" in command_line(one)]
        victims = workers if victim == "worker" and workers else jvm
        assert victims or not process.is_running()
        for one in victims and [chance.choice(victims)]:
            kill(one)
    code, _ = process.wait()
    assert code in ENDS[victim], process.errors[-3000:]
    # Tasks that lost their driver may still write beside those that follow.
    trial.exported()
    trial.check_rows()
    process.orphans_end()
    trial.check()


@pytest.mark.parametrize("remover", ["delete-records", "retention"])
def test_records_that_were_removed_before_they_were_exported(
    new_trial: Callable[..., Trial], remover: str
) -> None:
    trial = new_trial({"log.retention.check.interval.ms": "100", "log.initial.task.delay.ms": "50"})
    trial.produce(100)
    trial.flush()
    trial.exported()
    trial.produce(200)
    trial.flush()
    begins = REMOVERS[remover](trial)
    trial.produce(50)
    trial.flush()

    failure = trial.refused()
    assert failure["kind"] == "data-loss"
    assert f"{TOPIC}-0: offsets 100 to {begins[0] - 1} are gone" in failure["error"]

    summary = trial.exported("--no-fail-on-data-loss")
    gaps = [(gap["partition"], gap["start"], gap["end"]) for gap in summary["gaps"]]
    assert gaps == [(partition, 100, begin) for partition, begin in begins.items()]
    assert offsets_in(trial.target) == {
        (TOPIC, partition): [*range(100), *range(begins.get(partition, 100), 350)]
        for partition in range(PARTITIONS)
    }
    assert trial.exported()["gaps"] == []


def delete_records(trial: Trial) -> dict[int, int]:
    """Delete records of the first partition; return where it begins then."""
    admin = AdminClient({"bootstrap.servers": trial.broker.bootstrap})
    wanted = TopicPartition(TOPIC, 0, 170)
    return {0: admin.delete_records([wanted])[wanted].result(FLUSH_SECONDS).low_watermark}


def let_retention_remove(trial: Trial) -> dict[int, int]:
    """Let the broker remove what it has; return where each partition begins then."""
    set_retention(trial.broker.bootstrap, "1")
    wanted = dict.fromkeys(range(PARTITIONS), (300, 300))
    eventually(lambda: end_offsets(trial.broker.bootstrap, TOPIC) == wanted, "retention")
    set_retention(trial.broker.bootstrap, "-1")
    return dict.fromkeys(range(PARTITIONS), 300)


def set_retention(bootstrap: str, milliseconds: str) -> None:
    """Change for how long the topic keeps records."""
    entry = ConfigEntry("retention.ms", milliseconds, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(FLUSH_SECONDS)


REMOVERS = {"delete-records": delete_records, "retention": let_retention_remove}


def test_a_topic_that_was_deleted_and_made_again(trial: Trial) -> None:
    trial.produce(100)
    trial.flush()
    trial.exported()
    trial.make_again()
    trial.produce(130)
    trial.flush()

    for arguments in ((), ("--no-fail-on-data-loss",)):
        failure = trial.refused(*arguments)
        assert failure["kind"] == "topic-reset"
        assert failure["error"] == f"topic {TOPIC} was deleted and made again since the last export"

    assert trial.exported("--on-reset", "earliest")["counters"]["rows"] == 130 * PARTITIONS
    rows = {(TOPIC, partition): list(range(130)) for partition in range(PARTITIONS)}
    assert offsets_in(trial.target) == offsets_on_disk(trial.target) == rows
    old = {(TOPIC, partition): list(range(100)) for partition in range(PARTITIONS)}
    assert offsets_on_disk(state_of(trial.target) / "old-logs/2") == old
    assert trial.exported()["counters"]["rows"] == 0


def test_a_partition_whose_leader_lost_what_was_exported(trial: Trial) -> None:
    trial.produce(100)
    trial.flush()
    segment = trial.broker.node_directory / f"{TOPIC}-1" / f"{0:020d}.log"
    whole_at = segment.stat().st_size
    trial.produce(60)
    trial.flush()
    trial.exported()
    trial.broker.kill()
    os.truncate(segment, whole_at)
    trial.broker.start()

    for arguments in ((), ("--no-fail-on-data-loss",)):
        failure = trial.refused(*arguments)
        assert failure["kind"] == "topic-reset"
        assert failure["error"] == f"{TOPIC}-1 ends at offset 100, but offsets before 160 were read already"

    assert trial.exported("--on-reset", "earliest")["counters"]["rows"] == 100
    assert offsets_in(trial.target) == {
        (TOPIC, 0): list(range(160)),
        (TOPIC, 1): list(range(100)),
        (TOPIC, 2): list(range(160)),
    }
