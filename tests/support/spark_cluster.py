"""A standalone Spark cluster on the loopback interface: a master and workers out of the pyspark package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from kcli.spark.engines.java import find_java, home_for_spark
from tests.support.processes import ChildProcess
from tests.support.spark_exports import end_session
from tests.support.toolchain import INTEROP
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = INTEROP.parent.parent
PYSPARK = Path(pyspark.__file__).parent
START_SECONDS = 180
SUBMIT_SECONDS = 400
MASTER = re.compile(r"Starting Spark master at (spark://\S+)[\s\S]*I have been elected leader")
REGISTERED = "Successfully registered"
WORKER_MEGABYTES = 600
QUICK_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For programs that end before it is worth while to optimize them."""


def environment(directory: Path) -> dict[str, str]:
    """What programs of Spark need to know; what they write to its home is in the directory."""
    home = directory / "spark"
    if not home.exists():
        home.mkdir()
        for entry in PYSPARK.iterdir():
            if entry.name != "work":
                (home / entry.name).symlink_to(entry)
    return {
        "JAVA_HOME": str(home_for_spark(find_java(os.environ))),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "200m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA,
        "PYSPARK_PYTHON": sys.executable,
    }


class SparkCluster:
    """A master and workers with one core each; each begins a session, so that all they start can be ended."""

    def __init__(self, directory: Path, workers: int) -> None:
        self._directory = directory
        self.workers = workers
        self.environment = environment(directory)
        self._children: list[ChildProcess] = []
        self.url = ""

    def start(self) -> SparkCluster:
        """Start them and wait until the workers are known to the master."""
        master = self._launch("master", "master.Master", "--port", "0", "--webui-port", "0")
        eventually(lambda: MASTER.search(self._said(master)) is not None, "the master", seconds=START_SECONDS)
        self.url = "".join(MASTER.findall(self._said(master)))
        for number in range(self.workers):
            self._launch(
                f"worker-{number}",
                "worker.Worker",
                *("--webui-port", "0", "--cores", "1", "--memory", f"{WORKER_MEGABYTES}m"),
                *("--work-dir", str(self._directory / f"work-{number}"), self.url),
            )
        for worker in self._children[1:]:
            eventually(lambda: REGISTERED in self._said(worker), "a worker", seconds=START_SECONDS)  # noqa: B023
        return self

    def _launch(self, name: str, program: str, *arguments: str) -> ChildProcess:
        command = [PYSPARK / "bin" / "spark-class", f"org.apache.spark.deploy.{program}"]
        child = ChildProcess(
            [*command, "--host", "127.0.0.1", *arguments],
            stderr=self._directory / f"{name}.log",
            environment=self.environment,
            directory=self._directory,
            preexec=os.setsid,
        )
        self._children.append(child)
        return child

    def _said(self, child: ChildProcess) -> str:
        assert child.is_running(), child.errors
        return child.errors

    def close(self) -> None:
        """End them, and whatever they have started."""
        for child in reversed(self._children):
            end_session(child.pid)
            child.kill()


def packaged(path: Path) -> Path:
    """Write kcli to a zip, where a wheel has it, and compiled: every worker would do so again."""
    with zipfile.PyZipFile(str(path), "w") as archive:
        archive.writepy(str(ROOT / "kcli"))
        archive.writepy(str(ROOT / "kcli" / "spark" / "pyspark_kcli"))
    return path


def submit(
    directory: Path, cluster: SparkCluster, archive: Path, program: Path, arguments: Sequence[str]
) -> str:
    """Run a program with `spark-submit`; return its standard output."""
    conf = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "500m",
        "spark.driver.extraJavaOptions": QUICK_JAVA,
        "spark.executor.memory": f"{WORKER_MEGABYTES}m",
        "spark.executor.extraJavaOptions": QUICK_JAVA,
        "spark.ui.enabled": "false",
        # Tasks begin when all executors are there.
        "spark.cores.max": str(cluster.workers),
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
        "spark.sql.codegen.wholeStage": "false",
    }
    done = subprocess.run(
        [
            PYSPARK / "bin" / "spark-submit",
            *("--master", cluster.url, "--py-files", archive),
            *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
            program,
            *arguments,
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SUBMIT_SECONDS,
        cwd=directory,
        env={**os.environ, **cluster.environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout
