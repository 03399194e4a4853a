"""A warm Spark session in a process of its own, and what an export on it takes."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from tests.benchmarks.process_tree import ProcessTree
from tests.benchmarks.spark_driver import ONLY_SCHEDULES
from tests.support.toolchain import java_libraries

if TYPE_CHECKING:
    from pathlib import Path

ANSWER_SECONDS = 300.0
END_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Taken:
    """The time of an export, and the highest memory of a Python worker of it."""

    seconds: float
    cpu_seconds: float
    worker_peak_bytes: int = 0


class SparkProcess:
    """Runs `spark_driver.py` with so many cores; what it and Spark print goes to a file."""

    def __init__(self, cores: int, log: Path, *, only_schedules: bool) -> None:
        # The class path needs no second logger.
        jars = [
            path for path in (java_libraries() / "spark-connector").glob("*.jar") if "slf4j" not in path.name
        ]
        command = [sys.executable, "-m", "tests.benchmarks.spark_driver", f"local[{cores}, 4]"]
        arguments = [",".join(map(str, sorted(jars))), *([ONLY_SCHEDULES] if only_schedules else [])]
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*command, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
            )
        self._tree = ProcessTree(self._process.pid)
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()
        self._answer()
        self.base_bytes = int(float(self._asked({"way": "base"})))

    def run(self, request: dict[str, str]) -> Taken:
        """Have a topic exported."""
        self._tree.forget_peaks()
        before = self._tree.settled_cpu_seconds()
        seconds = float(self._asked(request))
        peak = self._tree.worker_peak_bytes()
        return Taken(seconds, self._tree.settled_cpu_seconds() - before, peak)

    def close(self) -> None:
        """End the session and its JVM."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _asked(self, request: dict[str, str]) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        line = self._lines.get(timeout=ANSWER_SECONDS)
        if not line:
            raise RuntimeError(f"the driver ended: {self._log.read_text(errors='replace')[-3000:]}")
        return line

    def _read(self, output: IO[str]) -> None:
        for line in output:
            self._lines.put(line)
        self._lines.put("")
