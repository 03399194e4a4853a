"""Tasks on Spark: exports through executors, with workers that die, errors that last, and Ctrl-C."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from kcli.errors import Interrupted
from kcli.spark.decode.entry import CorruptBatch
from kcli.spark.engines.frame_engine import FrameEngine
from kcli.spark.engines.session import OpenSession
from kcli.spark.engines.spark_engine import SparkEngine, max_attempts, reason_of
from kcli.spark.export.engine import Engine
from kcli.spark.export.failures import WorkerLost
from kcli.spark.export.log.receipt import Receipt
from tests.spark.export.exporting import ALL_COLUMNS, Watched, export, offsets_in, options, temporary_files
from tests.spark.export.fake_source import FakeReader, FakeSource

EVERY_ORDER = {("orders", 0): list(range(450)), ("orders", 1): list(range(60))}


def orders(**reader: object) -> FakeSource:
    return FakeSource.of(450, 60, fake_reader=FakeReader(**reader))  # type: ignore[arg-type]


@pytest.fixture
def engine(spark_session: OpenSession) -> SparkEngine:
    found = spark_session.engine()
    assert isinstance(found, SparkEngine)
    return found


@pytest.fixture(params=["RDD", "DataFrame"])
def either_engine(request: pytest.FixtureRequest, spark_session: OpenSession) -> Engine:
    """Both ways of running tasks on Spark."""
    return spark_session.engine() if request.param == "RDD" else FrameEngine(spark_session.spark)


def test_splits_are_written_by_executors_and_progress_adds_up(engine: SparkEngine, tmp_path: Path) -> None:
    watched = Watched()
    summary = export(
        orders(seconds_per_chunk=0.1), tmp_path, options(write=ALL_COLUMNS), engine=engine, progress=watched
    )
    assert offsets_in(tmp_path) == EVERY_ORDER
    assert summary.counters.rows == 510
    assert sorted((read.partition, read.start) for one in watched.receipts for read in one.reads) == [
        (0, 0), (0, 100), (0, 200), (0, 300), (0, 400), (1, 0),
    ]  # fmt: skip
    # Datagrams may be lost, and are never counted twice.
    assert 0 < watched.rows <= 510
    assert watched.read_bytes == watched.rows * 100


def test_receipts_come_while_other_tasks_still_run(engine: SparkEngine, tmp_path: Path) -> None:
    trouble = tmp_path / "trouble"
    trouble.mkdir()
    held = trouble / "chunk-400"
    held.touch()

    class LetsGoOn(Watched):
        def finished(self, receipt: Receipt) -> None:
            super().finished(receipt)
            held.unlink(missing_ok=True)

    watched = LetsGoOn()
    export(orders(trouble=trouble), tmp_path / "out", engine=engine, progress=watched)
    assert len(watched.receipts) == 6
    assert watched.receipts[0].reads[0].start != 400


def test_small_splits_that_one_worker_writes_in_turn(engine: SparkEngine, tmp_path: Path) -> None:
    trouble = tmp_path / "trouble"
    trouble.mkdir()
    (trouble / "split-0").write_text("die once")
    source = FakeSource.of(*[7] * 40, fake_reader=FakeReader(trouble=trouble))
    watched = Watched()
    summary = export(source, tmp_path / "out", engine=engine, progress=watched)
    assert summary.counters.rows == 280
    assert sorted(one.index for one in watched.receipts) == list(range(40))
    assert offsets_in(tmp_path / "out") == {("orders", one): list(range(7)) for one in range(40)}
    assert temporary_files(tmp_path / "out") == []


def test_a_task_whose_worker_died_runs_again(either_engine: Engine, tmp_path: Path) -> None:
    trouble = tmp_path / "trouble"
    trouble.mkdir()
    (trouble / "split-100").write_text("die once")
    export(orders(trouble=trouble), tmp_path / "out", engine=either_engine)
    assert offsets_in(tmp_path / "out") == EVERY_ORDER
    assert temporary_files(tmp_path / "out") == []


def test_a_worker_that_always_dies_ends_the_run_which_can_be_resumed(
    either_engine: Engine, tmp_path: Path
) -> None:
    trouble = tmp_path / "trouble"
    trouble.mkdir()
    (trouble / "split-100").write_text("die")
    with pytest.raises(WorkerLost, match="Spark gave up: ") as caught:
        export(orders(trouble=trouble), tmp_path / "out", engine=either_engine)
    assert "\n" not in caught.value.message
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("see ")
    (trouble / "split-100").unlink()
    assert export(orders(), tmp_path / "out", engine=either_engine).resumed
    assert offsets_in(tmp_path / "out") == EVERY_ORDER


def test_an_error_that_lasts_is_raised_as_it_was_and_not_tried_again(
    either_engine: Engine, tmp_path: Path
) -> None:
    with pytest.raises(CorruptBatch, match="wrong checksum"):
        export(orders(poison=(250,), seconds_per_chunk=0.05), tmp_path, engine=either_engine)


def test_ctrl_c_leaves_no_task_running(engine: SparkEngine, tmp_path: Path) -> None:
    class Interrupting(Watched):
        def advanced(self, rows: int, read_bytes: int) -> None:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        export(orders(seconds_per_chunk=0.3), tmp_path, engine=engine, progress=Interrupting())
    before = sorted(tmp_path.rglob("*.parquet"))
    export(orders(), tmp_path, engine=engine)
    assert offsets_in(tmp_path) == EVERY_ORDER
    assert set(before) <= set(tmp_path.rglob("*.parquet"))
    assert temporary_files(tmp_path) == []


def test_jobs_of_other_threads_are_not_cancelled(
    engine: SparkEngine, spark_session: OpenSession, tmp_path: Path
) -> None:
    context = spark_session.context
    assert context is not None
    sums: list[int] = []
    other = threading.Thread(
        target=lambda: sums.append(
            context.parallelize(range(4), 1).map(lambda one: time.sleep(0.5) or one).sum()
        )
    )
    other.start()
    with pytest.raises(CorruptBatch):
        export(orders(poison=(0,)), tmp_path, engine=engine)
    other.join(120)
    assert sums == [6]


def test_no_tasks_are_no_job(engine: SparkEngine) -> None:
    engine.run([], lambda _: None, Watched())


def test_as_many_tasks_run_at_once_as_there_are_cores(engine: SparkEngine) -> None:
    assert engine.slots == 2


@pytest.mark.parametrize(
    ("master", "conf", "attempts"),
    [
        ("local", {}, 1),
        ("local[4]", {"spark.task.maxFailures": "9"}, 1),
        ("local[2, 4]", {}, 4),
        ("local[*,3]", {}, 3),
        ("local-cluster[2,1,1024]", {}, 4),
        ("spark://host:7077", {"spark.task.maxFailures": "9"}, 9),
    ],
)
def test_how_often_spark_runs_a_task(master: str, conf: dict[str, str], attempts: int) -> None:
    context = SimpleNamespace(master=master, getConf=lambda: conf)
    assert max_attempts(context) == attempts  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: "
            "Lost task 0.3: Python worker exited unexpectedly (crashed)\n\tat java.lang.Thread.run\n",
            "Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3: Python worker exited "
            "unexpectedly (crashed)",
        ),
        ("", "RuntimeError"),
    ],
)
def test_one_line_of_what_spark_says_is_enough(text: str, reason: str) -> None:
    assert reason_of(RuntimeError(text)) == reason
