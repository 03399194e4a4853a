"""Commands as processes, and the pipes to and from them."""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
import sys
import termios
from array import array

from kcli.commands.consume.record_output import PIECE_BYTES
from tests.support.waiting import PATIENCE_SECONDS, eventually


def start(*arguments: str, stdin: int | None = None) -> subprocess.Popen[bytes]:
    """Start kcli with unbuffered pipes."""
    return subprocess.Popen(
        [sys.executable, "-m", "kcli", *arguments],
        bufsize=0,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def start_at(terminal: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start kcli at a terminal that is its controlling one, so that its end raises SIGHUP."""
    script = 'terminal=$0; exec <"$terminal" >"$terminal" 2>&1; exec "$@"'
    command = ["/bin/sh", "-c", script, terminal, sys.executable, "-m", "kcli", *arguments]
    return subprocess.Popen(command, start_new_session=True)


def await_prompt(terminal: int) -> None:
    """Read from a terminal until a program prompts for a line; fail after a while."""
    while True:
        ready, _, _ = select.select([terminal], [], [], PATIENCE_SECONDS)
        assert ready, f"no prompt in {PATIENCE_SECONDS} s"
        if b">" in os.read(terminal, 1000):
            return


def next_line(process: subprocess.Popen[bytes]) -> bytes:
    """Return the next line that a process prints; fail after a while without one."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], PATIENCE_SECONDS)
    assert ready, f"nothing printed in {PATIENCE_SECONDS} s"
    line: bytes = process.stdout.readline()
    return line


def stop_reading(process: subprocess.Popen[bytes]) -> None:
    """Close the reader of a process; fail unless it ends soon, without an error."""
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(timeout=PATIENCE_SECONDS) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


def unread_bytes(descriptor: int) -> int:
    """Return the number of bytes in a pipe."""
    unread = array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, unread)
    return unread[0]


def wait_until_full(descriptor: int) -> None:
    """Wait until a pipe has no room for another piece of output."""
    room = fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ)
    eventually(lambda: unread_bytes(descriptor) + PIECE_BYTES > room, "the pipe is full")
