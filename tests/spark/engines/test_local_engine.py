"""Tasks in processes: results, errors, deaths, and the death of who gave them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.errors import KcliError
from kcli.spark.decode.entry import CorruptBatch
from kcli.spark.engines.local_engine import LocalEngine
from kcli.spark.export.failures import WorkerLost
from kcli.spark.export.options import WriteOptions
from kcli.spark.export.target.layout import Layout
from kcli.spark.export.target.local_target import LocalTarget
from kcli.spark.export.verification import verify_export
from tests.spark.export.exporting import Watched, export, offsets_in, options, temporary_files
from tests.spark.export.fake_source import FakeReader, FakeSource
from tests.support.spark_exports import is_alive
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    running = LocalEngine(2)
    yield running
    running.close()


def test_splits_are_written_in_processes(engine: LocalEngine, tmp_path: Path) -> None:
    told = Watched()
    source = FakeSource.of(250, 90)
    summary = export(source, tmp_path, engine=engine, progress=told)
    assert offsets_in(tmp_path) == {("orders", 0): list(range(250)), ("orders", 1): list(range(90))}
    assert (told.rows, told.read_bytes) == (340, 34_000)
    assert summary.counters.rows == 340


def test_partitions_that_share_files_are_written_by_one_process(engine: LocalEngine, tmp_path: Path) -> None:
    source = FakeSource.of(*[24] * 50, fake_reader=FakeReader(step_us=3_600_000_000))
    write = WriteOptions(layout=Layout(("date", "hour")))
    assert export(source, tmp_path, options(write=write), engine=engine).files == 24
    assert offsets_in(tmp_path) == {("orders", index): list(range(24)) for index in range(50)}


def test_an_error_is_that_of_the_task_and_the_engine_goes_on(engine: LocalEngine, tmp_path: Path) -> None:
    with pytest.raises(CorruptBatch) as refusal:
        export(FakeSource.of(250, fake_reader=FakeReader(poison=(130,))), tmp_path / "lake", engine=engine)
    assert refusal.value.position == 100
    assert not (tmp_path / "lake").exists()
    export(FakeSource.of(250), tmp_path / "lake", engine=engine)
    assert offsets_in(tmp_path / "lake") == {("orders", 0): list(range(250))}


def test_a_worker_that_dies_is_replaced(engine: LocalEngine, tmp_path: Path) -> None:
    trouble = tmp_path / "trouble"
    trouble.mkdir()
    (trouble / "split-100").write_text("die once")
    source = FakeSource.of(300, fake_reader=FakeReader(trouble=trouble))
    export(source, tmp_path / "lake", engine=engine)
    assert offsets_in(tmp_path / "lake") == {("orders", 0): list(range(300))}
    assert temporary_files(tmp_path / "lake") == []


def test_a_task_that_kills_its_workers_ends_the_run_and_can_be_resumed(
    engine: LocalEngine, tmp_path: Path
) -> None:
    trouble = tmp_path / "trouble"
    trouble.mkdir()
    (trouble / "split-100").write_text("die")
    source = FakeSource.of(300, fake_reader=FakeReader(trouble=trouble))
    with pytest.raises(WorkerLost, match=r"offsets 100 to 199 of orders-0 died 4 times: signal SIGKILL"):
        export(source, tmp_path / "lake", engine=engine)
    (trouble / "split-100").unlink()
    export(source, tmp_path / "lake", engine=engine)
    assert offsets_in(tmp_path / "lake") == {("orders", 0): list(range(300))}


def test_closing_ends_the_processes(tmp_path: Path) -> None:
    engine = LocalEngine(1)
    export(FakeSource.of(30), tmp_path, engine=engine)
    engine.close()
    engine.close()


DRIVER = """
import sys
from pathlib import Path
from kcli.spark.engines.local_engine import LocalEngine
from tests.spark.export.exporting import export
from tests.spark.export.fake_source import FakeReader, FakeSource
reader = FakeReader(trouble=Path(sys.argv[2]))
export(FakeSource.of(600, 500, fake_reader=reader), Path(sys.argv[1]), engine=LocalEngine(2))
"""


def started(target: Path, trouble: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", DRIVER, str(target), str(trouble)], cwd=ROOT)


def workers_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(one) for one in text.split()]


def wait_until_writing(driver: subprocess.Popen[bytes], target: Path) -> None:
    """Wait until both workers are writing a data file."""

    def are_writing() -> bool:
        assert driver.poll() is None
        return len(list(target.glob("topic=orders/*/.*"))) == 2

    eventually(are_writing, "data files are being written")


@pytest.mark.skipif(not Path("/proc").exists(), reason="workers are found through /proc")
@pytest.mark.parametrize("victim", ["driver", "worker"])
def test_kill_9(victim: str, engine: LocalEngine, tmp_path: Path) -> None:
    target, trouble = tmp_path / "lake", tmp_path / "trouble"
    trouble.mkdir()
    # The second chunk of the first two splits.
    held = [trouble / "chunk-40", trouble / "chunk-140"]
    for chunk in held:
        chunk.touch()
    driver = started(target, trouble)
    wait_until_writing(driver, target)
    workers = workers_of(driver.pid)
    assert len(workers) == 2
    os.kill(driver.pid if victim == "driver" else workers[0], signal.SIGKILL)
    for chunk in held:
        chunk.unlink()
    assert driver.wait(60) == (-signal.SIGKILL if victim == "driver" else 0)
    export(FakeSource.of(600, 500), target, engine=engine)
    assert offsets_in(target) == {("orders", 0): list(range(600)), ("orders", 1): list(range(500))}
    assert temporary_files(target) == []
    assert verify_export(LocalTarget(str(target))).problems == ()
    eventually(lambda: not any(map(is_alive, workers)), "the workers have ended")


def test_a_task_that_does_not_pickle_is_told(engine: LocalEngine, tmp_path: Path) -> None:
    source = FakeSource.of(30, fake_reader=FakeReader(trouble=lambda: 1))  # type: ignore[arg-type]
    with pytest.raises(Exception, match="pickle"):
        export(source, tmp_path, engine=engine)


def test_a_refusal_is_raised_as_it_was(engine: LocalEngine, tmp_path: Path) -> None:
    (tmp_path / "split-0").write_text("bad luck")
    source = FakeSource.of(30, fake_reader=FakeReader(trouble=tmp_path))
    with pytest.raises(KcliError, match=r"^bad luck$"):
        export(source, tmp_path / "lake", engine=engine)
