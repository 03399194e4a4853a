"""Apache Kafka's own log cleaner, on directories at rest: one JVM cleans any number of them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, NamedTuple

from tests.support.apache_kafka import NEWEST, java_command
from tests.support.toolchain import java_classes

if TYPE_CHECKING:
    from pathlib import Path

MAP_BYTES = 24 * 1024 * 1024


class CleanerFailed(Exception):
    """Apache Kafka's cleaner gave up."""


class CleanedByApache(NamedTuple):
    """Up to where a round cleaned, and the CPU time that it took."""

    end_offset: int
    cpu_ns: int


class ApacheCleaner:
    """The cleaner in its JVM, which starts with the first round."""

    def __init__(self, directory: Path, *options: str) -> None:
        self._log = directory / "apache-cleaner.log"
        self._options = options
        self._process: subprocess.Popen[str] | None = None

    def clean(
        self,
        replica: Path,
        *,
        now_ms: int,
        first_dirty: int = 0,
        first_uncleanable: int = -1,
        map_bytes: int = MAP_BYTES,
        **config: object,
    ) -> CleanedByApache:
        """Do a round on a replica's directory; topic configurations have underscores for dots."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        words = [str(replica), now_ms, first_dirty, first_uncleanable, map_bytes]
        settings = [f"{name.replace('_', '.')}={value}" for name, value in config.items()]
        process.stdin.write(" ".join([*map(str, words), *settings]) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline().split(" ", 1)
        if answer[0] in ("", "error"):
            raise CleanerFailed(f"{answer}\n{self._log.read_text()[-3000:]}")
        return CleanedByApache(int(answer[0]), int(answer[1]))

    def _start(self) -> subprocess.Popen[str]:
        classes = java_classes(NEWEST, "CleanerDriver")
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                java_command(NEWEST, "CleanerDriver", "-Xmx512m", *self._options, classes=classes),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        return self._process

    def close(self) -> None:
        """End the JVM."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(30)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None
