"""Child processes of tests: started with pipes, watched for a line, ended by their own id."""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

STOP_TIMEOUT_SECONDS = 120


class ProcessFailed(AssertionError):
    """A child process ended or stayed silent where it should not have."""


class ChildProcess:
    """A child whose standard output is read by line and whose standard error goes to a file.

    With `on_line` every line goes there instead of to `wait_for_line`, None at the end, and standard input is
    a pipe for `write_line`.
    """

    def __init__(
        self,
        arguments: Sequence[str | os.PathLike[str]],
        *,
        stderr: Path,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        preexec: Callable[[], None] | None = None,
        on_line: Callable[[str | None], None] | None = None,
    ) -> None:
        self.stderr_path = stderr
        with stderr.open("ab") as sink:
            self.process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL if on_line is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                text=True,
                errors="replace",
                cwd=directory,
                env=None if environment is None else {**os.environ, **environment},
                preexec_fn=preexec,
            )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._on_line = self._lines.put if on_line is None else on_line
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._on_line(line.rstrip("\n"))
        self._on_line(None)

    def write_line(self, line: str) -> None:
        """Write to the child's standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self.process.pid

    @property
    def errors(self) -> str:
        """What the child has written to standard error so far."""
        return self.stderr_path.read_text(errors="replace")

    def wait_for_line(self, wanted: Callable[[str], bool], *, timeout: float, what: str) -> str:
        """The first wanted line of standard output; ProcessFailed when the child ends or time is up."""
        deadline = time.monotonic() + timeout
        seen: list[str] = []
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise ProcessFailed(self._report(f"no {what} in {timeout} s", seen)) from None
            if line is None:
                code = self.process.wait()
                raise ProcessFailed(self._report(f"ended with {code} before {what}", seen))
            if wanted(line):
                return line
            seen.append(line)

    def _report(self, what: str, seen: Sequence[str]) -> str:
        lines = [what, "stdout:", *seen[-20:], "stderr:", self.errors[-3000:]]
        return "\n".join(lines)

    def is_running(self) -> bool:
        """Whether the child lives."""
        return self.process.poll() is None

    def resident_bytes(self) -> int:
        """Resident memory of the child, from /proc."""
        return _status_bytes(self.pid, "VmRSS:")

    def peak_resident_bytes(self) -> int:
        """Highest resident memory of the child so far, from /proc."""
        return _status_bytes(self.pid, "VmHWM:")

    def cpu_seconds(self) -> float:
        """The time that processors have worked for the child, from /proc."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """SIGKILL, and collect."""
        if self.is_running():
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=STOP_TIMEOUT_SECONDS)
        self._close()

    def stop(self, number: signal.Signals = signal.SIGTERM, timeout: float = STOP_TIMEOUT_SECONDS) -> int:
        """Ask it to end and return its exit code; a child that does not end is killed and reported."""
        if self.is_running():
            self.process.send_signal(number)
        try:
            code = self.process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ProcessFailed(self._report(f"did not end {timeout} s after {number.name}", ())) from None
        self._close()
        return code

    def _close(self) -> None:
        self._reader.join(timeout=5)
        if self.process.stdin is not None:
            # What was not written yet may have no reader any more.
            with suppress(BrokenPipeError):
                self.process.stdin.close()
        if self.process.stdout is not None and not self._reader.is_alive():
            self.process.stdout.close()


def _status_bytes(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise ProcessFailed(f"no {field} of process {pid}")


def wait_for_port(port: int, *, timeout: float, alive: Callable[[], bool]) -> None:
    """Return when something accepts connections on the port; ProcessFailed when it dies or time is up."""
    deadline = time.monotonic() + timeout
    while alive() and time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            threading.Event().wait(0.05)
    raise ProcessFailed(f"nothing listens on port {port} after {timeout} s")
