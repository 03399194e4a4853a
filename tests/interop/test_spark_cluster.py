"""Executors in processes of their own: a standalone cluster with `spark-submit`, and `local-cluster`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.export.exporting import offsets_in
from tests.support.kcli_broker import KcliBroker
from tests.support.producing import create_topic, produce, read_partition
from tests.support.records import FIRST_TIMESTAMP, TestRecord
from tests.support.spark_cluster import (
    QUICK_JAVA,
    WORKER_MEGABYTES,
    SparkCluster,
    environment,
    packaged,
    submit,
)
from tests.support.spark_exports import ExportProcess
from tests.support.toolchain import INTEROP, need

pytestmark = pytest.mark.interop

PARTITIONS = 2
COUNT = 450
WORKERS = 2


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody compiles: in a zip that is new every process would have to do so itself."""
    monkeypatch.setenv("KCLI_DECODER", "numpy")


@pytest.fixture(scope="module")
def topic(kcli_broker: KcliBroker) -> str:
    """A topic whose partitions take several tasks each."""
    need("java")
    create_topic(kcli_broker.bootstrap, "for-a-cluster", PARTITIONS)
    records = [
        TestRecord(partition, -1, FIRST_TIMESTAMP + number, b"key", b"value %d" % number)
        for number in range(COUNT)
        for partition in range(PARTITIONS)
    ]
    produce(kcli_broker.bootstrap, "for-a-cluster", records, {"compression.type": "zstd"})
    return "for-a-cluster"


EVERYTHING = {("for-a-cluster", partition): list(range(COUNT)) for partition in range(PARTITIONS)}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    """A cluster of the test's own."""
    need("java", "bash")
    running = SparkCluster(tmp_path, WORKERS)
    try:
        yield running.start()
    finally:
        running.close()


def test_a_program_is_submitted_to_a_cluster_with_kcli_in_a_zip(
    cluster: SparkCluster, kcli_broker: KcliBroker, topic: str, tmp_path: Path
) -> None:
    archive, target = packaged(tmp_path / "kcli.zip"), tmp_path / "lake"
    program = INTEROP / "python" / "spark_application.py"
    arguments = [kcli_broker.bootstrap, topic, str(target)]
    told = json.loads(submit(tmp_path, cluster, archive, program, arguments).splitlines()[-1])
    assert told["rows"] == [
        [partition, record.offset, (record.value or b"").decode()]
        for partition in range(PARTITIONS)
        for record in read_partition(kcli_broker.bootstrap, topic, partition)
    ]
    assert told["partitions"] == 10
    assert len(told["executors"]) == WORKERS
    assert all("kcli.zip" in module for module in told["modules"])
    assert told["code"] == 0, told["errors"]
    assert json.loads(told["export"])["counters"]["rows"] == COUNT * PARTITIONS
    assert offsets_in(target) == EVERYTHING


def test_the_command_runs_its_tasks_on_executors_of_a_local_cluster(
    kcli_broker: KcliBroker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    target = tmp_path / "lake"
    settings = {"memory": f"{WORKER_MEGABYTES}m", "extraJavaOptions": QUICK_JAVA}
    conf = [word for name, value in settings.items() for word in ("--conf", f"spark.executor.{name}={value}")]
    master = f"local-cluster[{WORKERS},1,{WORKER_MEGABYTES}]"
    arguments = (topic, "-b", kcli_broker.bootstrap, "--to", target, "--max-records-per-partition", "100")
    with ExportProcess(tmp_path / "log", *arguments, "--master", master, *conf) as process:
        code, output = process.wait()
    assert code == 0, output + process.errors[-3000:]
    assert json.loads(output)["counters"]["rows"] == COUNT * PARTITIONS
    assert offsets_in(target) == EVERYTHING
