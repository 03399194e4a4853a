"""JvmLaunches: the JVM that pyspark starts, from its first moment on, and what py4j prints of it at its last.

pyspark keeps the process to itself until it is connected. A JVM that loses its parent before does not end: it
cannot write where it listens, as the directory for that is gone, and never looks at its input.
"""

from __future__ import annotations

import logging
import os
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

_CUT_OFF = "while sending command."
"""How py4j begins its tracebacks of a call that Ctrl-C, or the end of the JVM, has cut off."""


class JvmLaunches:
    """The processes that were started, each the leader of a process group."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[Any]] = []

    def kill(self) -> None:
        """End them at once, and what they have started."""
        for process in self.processes:
            if process.poll() is None:
                # It may end meanwhile, or not be a leader yet.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.kill()
                process.wait()


@contextmanager
def jvm_launches(java_gateway: Any) -> Iterator[JvmLaunches]:  # noqa: ANN401  # a module
    """Give what the module of pyspark that starts JVMs does start during the block."""
    launches = JvmLaunches()
    start = java_gateway.Popen

    def started(*arguments: Any, **options: Any) -> subprocess.Popen[Any]:  # noqa: ANN401  # Popen's
        process: subprocess.Popen[Any] = start(*arguments, **options)
        launches.processes.append(process)
        return process

    java_gateway.Popen = started
    try:
        yield launches
    finally:
        java_gateway.Popen = start


@contextmanager
def py4j_silenced() -> Iterator[None]:
    """Keep py4j from printing tracebacks of what it also raises."""
    root = logging.getLogger()

    def is_of_others(record: logging.LogRecord) -> bool:
        return not str(record.msg).endswith(_CUT_OFF)

    root.addFilter(is_of_others)
    try:
        yield
    finally:
        root.removeFilter(is_of_others)
