"""A process that forks exports and has them die: `CrashServer` is the test's end of it.

Forking from a process that has imported everything, and has no threads, makes a crash cost milliseconds.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from kcli.spark.export.target.local_target import LocalTarget

CRASHED = 77


class CrashingTarget(LocalTarget):
    """Dies before or after the file operation with a number; counts them otherwise."""

    def __init__(self, root: str, dies_at: int | None) -> None:
        super().__init__(root)
        self.dies_at = dies_at
        self.steps = 0

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.dies_at:
            os._exit(CRASHED)

    def _write_temporary(self, path: str, data: bytes) -> str:
        self.step()
        written = super()._write_temporary(path, data)
        self.step()
        return written

    def _link(self, path: str, to: str) -> bool:
        done = super()._link(path, to)
        self.step()
        return done

    def _replace(self, path: str, to: str) -> None:
        super()._replace(path, to)
        self.step()

    def remove(self, path: str) -> None:
        super().remove(path)
        self.step()

    def open_output(self, path: str) -> Any:
        output = super().open_output(path)
        self.step()
        return output

    def sync(self, path: str) -> None:
        self.step()
        super().sync(path)

    def make_directory(self, path: str) -> None:
        super().make_directory(path)
        self.step()

    def sync_directories(self, paths: Any) -> None:
        self.step()
        super().sync_directories(paths)
        self.step()


class CrashServer:
    """Runs exports in processes that die."""

    def __enter__(self) -> CrashServer:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.export.crash_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()

    def export(self, target: Path, **case: Any) -> int:
        """Run an export; return -1 if it died, else the number of file operations it took.

        `lengths`: of the partitions. `dies_at`: the operation to die at. `killed_after_s`: when to be killed.
        """
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps({"target": str(target), **case}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert answer["status"] in ("done", "died"), answer
        return int(answer["steps"]) if answer["status"] == "done" else -1


def serve() -> None:
    """Fork for every line."""
    import tests.spark.export.exporting  # noqa: F401  # so that no child has to

    for line in sys.stdin:
        case = json.loads(line)
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reads)
            _run(case, writes)
        os.close(writes)
        if case.get("killed_after_s") is not None:
            time.sleep(case["killed_after_s"])
            os.kill(child, signal.SIGKILL)
        with os.fdopen(reads) as pipe:
            said = pipe.read()
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        answer = {"status": "done" if code == 0 else "died" if code in (CRASHED, -9) else "failed"}
        print(json.dumps({**answer, "steps": int(said) if said.isdigit() else 0, "said": said}), flush=True)


def _run(case: dict[str, Any], writes: int) -> None:
    """Export in this process, and end it."""
    import traceback

    from kcli.protocol.topics import TopicPartition
    from tests.spark.export.exporting import export, options
    from tests.spark.export.fake_source import FakeReader, FakeSource

    code, said = 1, ""
    try:
        target = CrashingTarget(case["target"], case.get("dies_at"))
        reader = FakeReader(
            step_us=case.get("step_us", 1_000_000), seconds_per_chunk=case.get("seconds_per_chunk", 0.0)
        )
        source = FakeSource.of(*case["lengths"], fake_reader=reader)
        source.topic_ids = {"orders": case.get("topic_id", "id-1")}
        source.diverges = {TopicPartition("orders", one): offset for one, offset in case.get("diverges", ())}
        export(source, target, options(**_asked(case)))
        code, said = 0, str(target.steps)
    except BaseException:
        said = traceback.format_exc()
    finally:
        os.write(writes, said.encode())
        os._exit(code)


def _asked(case: dict[str, Any]) -> dict[str, Any]:
    from kcli.spark.export.options import Mode, WriteOptions
    from kcli.spark.export.target.layout import Layout
    from kcli.spark.source.ranges.offset_specs import OnReset, RangeRules

    rules = RangeRules(on_reset=OnReset(case.get("on_reset", "fail")))
    layout = Layout(tuple(case.get("layout", ("topic", "partition"))))
    write = WriteOptions(layout=layout)
    return {"mode": Mode(case.get("mode", "append")), "write": write, "rules": rules}


def moments(seed: int) -> random.Random:
    """Return random numbers that a failing test can be repeated with."""
    return random.Random(seed)


if __name__ == "__main__":
    serve()
