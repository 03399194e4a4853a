"""A single export writes to a target at a time."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow.fs import LocalFileSystem

from kcli.spark.export.failures import TargetLocked
from kcli.spark.export.log.lock import STALE_SECONDS, locked, this_process
from kcli.spark.export.target.local_target import LocalTarget
from kcli.spark.export.target.object_target import ObjectTarget
from tests.spark.export.exporting import export, files_in, offsets_in
from tests.spark.export.fake_source import FakeSource
from tests.support.spark_exports import state_of
from tests.support.waiting import eventually

NOW_MS = 1_777_593_600_000
ME = f"{socket.gethostname()}, pid {os.getpid()}"


def now_ms() -> int:
    return NOW_MS


def store(path: Path) -> ObjectTarget:
    path.mkdir(exist_ok=True)
    return ObjectTarget(LocalFileSystem(), str(path), uri="store://bucket/lake")


def test_a_second_export_is_refused(tmp_path: Path) -> None:
    with locked(LocalTarget(str(tmp_path)), now_ms):
        before = files_in(tmp_path)
        with pytest.raises(TargetLocked) as refusal:
            export(FakeSource.of(50), tmp_path)
        assert files_in(tmp_path) == before
    assert refusal.value.message == (
        f"another export is running ({ME}) since 2026-05-01 00:00:00 UTC: `{tmp_path}`"
    )
    export(FakeSource.of(50), tmp_path)


EXPORTER = """
import sys
from pathlib import Path
from kcli.spark.export.failures import TargetLocked
from tests.spark.export.exporting import InlineEngine, export
from tests.spark.export.fake_source import FakeSource
from tests.support.spark_exports import state_of

class Waits(InlineEngine):
    def run(self, tasks, on_done, progress):
        super().run(tasks[:2], on_done, progress)
        print("half way", flush=True)
        sys.stdin.readline()
        super().run(tasks[2:], on_done, progress)

try:
    export(FakeSource.of(400), Path(sys.argv[1]), engine=Waits())
except TargetLocked:
    sys.exit(9)
"""


def test_of_two_processes_one_is_refused_and_nothing_is_written_twice(tmp_path: Path) -> None:
    program = [sys.executable, "-c", EXPORTER, str(tmp_path / "lake")]
    root = Path(__file__).parents[4]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
    ) as first:
        assert first.stdout
        assert first.stdout.readline() == "half way\n"
        assert subprocess.run(program, stdin=subprocess.DEVNULL, cwd=root, timeout=60).returncode == 9
        first.communicate("go on\n", timeout=60)
    assert first.returncode == 0
    assert offsets_in(tmp_path / "lake") == {("orders", 0): list(range(400))}


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    state_of(tmp_path).mkdir()
    (state_of(tmp_path) / "lock").write_text(
        json.dumps({"host": "elsewhere", "pid": 1, "started_ms": NOW_MS})
    )
    export(FakeSource.of(50), tmp_path)


def test_a_lock_object_is_removed_at_the_end(tmp_path: Path) -> None:
    with locked(store(tmp_path), now_ms) as lock:
        owner = json.loads((state_of(tmp_path) / "lock").read_text())
        assert (owner["pid"], owner["heartbeat_ms"]) == (os.getpid(), NOW_MS)
        lock.check()
    assert files_in(tmp_path) == set()


def owned_by(path: Path, *, age_s: float, **who: object) -> None:
    state_of(path).mkdir(exist_ok=True)
    owner = {**who, "id": "f00d", "heartbeat_ms": NOW_MS - int(age_s * 1000)}
    (state_of(path) / "lock").write_text(json.dumps(owner))


def test_a_lock_object_that_beats_is_respected(tmp_path: Path) -> None:
    owned_by(tmp_path, host="elsewhere", pid=7, age_s=STALE_SECONDS - 1)
    with pytest.raises(TargetLocked, match=r"\(elsewhere, pid 7\)"), locked(store(tmp_path), now_ms):
        pass


def test_a_lock_object_that_stopped_beating_is_taken_over(tmp_path: Path) -> None:
    owned_by(tmp_path, host="elsewhere", pid=7, age_s=STALE_SECONDS + 1)
    with locked(store(tmp_path), now_ms):
        pass


def ended_pid() -> int:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


@pytest.mark.parametrize(
    "who", [lambda: {"pid": ended_pid()}, lambda: {"process_start": 1}], ids=["gone", "another's id now"]
)
def test_a_lock_object_of_a_process_that_died_here_is_taken_over(
    tmp_path: Path, who: Callable[[], dict[str, object]]
) -> None:
    owned_by(tmp_path, age_s=1, **{**this_process(), **who()})
    with locked(store(tmp_path), now_ms):
        pass


@pytest.mark.parametrize("place", [None, "another start of a machine of the same name"])
def test_a_lock_object_of_a_machine_of_the_same_name_is_respected(tmp_path: Path, place: str | None) -> None:
    owned_by(tmp_path, age_s=1, **{**this_process(), "pid": ended_pid(), "place": place})
    with pytest.raises(TargetLocked), locked(store(tmp_path), now_ms):
        pass


def test_a_lock_object_of_a_running_process_is_respected(tmp_path: Path) -> None:
    owned_by(tmp_path, age_s=1, **this_process())
    with pytest.raises(TargetLocked), locked(store(tmp_path), now_ms):
        pass


def test_who_was_taken_over_commits_nothing(tmp_path: Path) -> None:
    with locked(store(tmp_path), now_ms) as lock:
        owned_by(tmp_path, host="elsewhere", pid=7, age_s=0)
        with pytest.raises(TargetLocked):
            lock.check()
    assert json.loads((state_of(tmp_path) / "lock").read_text())["pid"] == 7


def test_a_lock_object_beats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.spark.export.log.lock.HEARTBEAT_SECONDS", 0.01)
    times = itertools.count(NOW_MS)

    def beats() -> bool:
        text = (state_of(tmp_path) / "lock").read_text()
        return bool(text) and json.loads(text)["heartbeat_ms"] > NOW_MS + 3

    with locked(store(tmp_path), lambda: next(times)):
        eventually(beats, "its beats")
