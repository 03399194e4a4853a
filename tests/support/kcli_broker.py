"""A kcli broker as a child process: started from the command line, killed, stopped, started again."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from tests.support.ports import free_ports
from tests.support.processes import ChildProcess, ProcessFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

READY_TIMEOUT_SECONDS = 120.0
BOOTSTRAP = re.compile(r"([\w.\-]+:\d+)")


class KcliBroker:
    """One node, or several, under `directory/data`; the ports stay the same over restarts."""

    def __init__(
        self,
        directory: Path,
        *,
        settings: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        preexec: Callable[[], None] | None = None,
    ) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.node_directory = self.data / "node-1"
        self.log = directory / "broker.log"
        nodes = int(arguments[arguments.index("--nodes") + 1]) if "--nodes" in arguments else 1
        self.port = free_ports(nodes)[0]
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.ready_line = ""
        self._arguments = list(arguments)
        self._settings = dict(settings or {})
        self._environment = {"PYTHONUNBUFFERED": "1", **(environment or {})}
        self._preexec = preexec
        self._process: ChildProcess | None = None

    def command(self) -> list[str]:
        """The command line that starts it."""
        command = [sys.executable, "-m", "kcli", "broker", "start", "--data-dir", str(self.data)]
        if "listeners" not in self._settings:
            command += ["--port", str(self.port), "--host", "127.0.0.1"]
        command += self._arguments
        for name, value in self._settings.items():
            command += ["--override", f"{name}={value}"]
        return command

    def configure(self, settings: Mapping[str, str]) -> None:
        """Replace the settings, for the next start."""
        self._settings = dict(settings)

    def launch(self) -> ChildProcess:
        """Start the process without waiting for its ready line."""
        if self._process is not None:
            assert not self._process.is_running()
            self._process.kill()
        self._process = ChildProcess(
            self.command(), stderr=self.log, environment=self._environment, preexec=self._preexec
        )
        return self._process

    def start(self, timeout: float = READY_TIMEOUT_SECONDS) -> KcliBroker:
        """Start the process and wait until it says that it is ready."""
        process = self.launch()
        try:
            self.ready_line = process.wait_for_line(
                lambda line: line.startswith("ready"), timeout=timeout, what="ready line"
            )
        except ProcessFailed:
            process.kill()
            raise
        named = BOOTSTRAP.search(self.ready_line)
        assert named is not None, self.ready_line
        self.bootstrap = named[1]
        return self

    @property
    def process(self) -> ChildProcess:
        """The running, or last, process."""
        assert self._process is not None
        return self._process

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()

    def stop(self) -> int:
        """Clean shutdown by SIGTERM; the exit code."""
        return self.process.stop()

    def close(self) -> None:
        """End it whatever its state."""
        if self._process is not None:
            self._process.kill()

    def messages(self) -> str:
        """Everything it has written to its log so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""
