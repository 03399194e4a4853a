"""`broker start --daemon`: runs the same command line in a process that outlives the command.

The starter holds a shared lock on the log, which the broker inherits. So a failed start can tell whether
another broker that starts at the same time uses the log, before it removes it.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from kcli.commands.shared.output import note, print_lines
from kcli.errors import KcliError, UsageError
from kcli.storage.disk import leads_to, make_directory, open_file, remove_empty

if TYPE_CHECKING:
    from collections.abc import Sequence

LOG_FILE = "kcli-broker.log"
DAEMON_VARIABLE = "KCLI_DAEMON"
"""Set for the broker that `--daemon` starts: its data directory, by which it is found, may be ephemeral."""
MOST_WARNINGS = 20
"""How many warnings of a start are repeated; the log has the others."""

_WARNING = re.compile(rb"[\d-]+ [\d:,]+ (WARNING|ERROR|CRITICAL) ")


def start_daemon(data_dir: Path) -> None:
    """Start this command line again without `--daemon`, and return when the broker is ready.

    The broker logs to `kcli-broker.log` in the data directory. Its warnings before it is ready also go to
    stderr. If it ends before it is ready, raise `KcliError` with the reason, and print and remove a new log.
    """
    log_path = data_dir / LOG_FILE
    made: list[str] = []
    try:
        make_directory(os.path.abspath(data_dir), made)
        log, is_new = open_log(log_path)
    except OSError as error:
        remove_empty(made)
        raise KcliError(f"cannot write to `{data_dir}`: {error.strerror}") from error
    with log:
        start = log.seek(0, os.SEEK_END)
        exit_code = run_until_ready(log)
        if exit_code is None:
            tell_warnings(log, start, log_path)
            return
        reason = last_error(log, start)
        if is_new:
            remove_unused(log, log_path)
    remove_empty(made)
    if is_new:
        for line in reason.others:
            note(line)
    kind = UsageError if exit_code == UsageError.exit_code else KcliError
    hint = reason.hint or (None if is_new else f"see {log_path}")
    raise kind(f"the broker did not start: {reason.error}", hint=hint)


def open_log(path: Path) -> tuple[BinaryIO, bool]:
    """Open a log to read and append, with a shared lock; return whether it is new. Raise `OSError`."""
    is_new = False
    while True:
        with suppress(FileExistsError):
            open(path, "xb", opener=open_file).close()
            is_new = True
        log = open(path, "a+b", opener=open_file)  # noqa: SIM115 - it is returned
        with suppress(OSError):  # Without locks, no log is removed.
            fcntl.flock(log, fcntl.LOCK_SH)
        if leads_to(path, log.fileno()):
            return log, is_new
        log.close()  # Another start has failed meanwhile and removed it.


def remove_unused(log: BinaryIO, path: Path) -> None:
    """Remove a log unless another process has it locked, to write to it or to start."""
    with suppress(OSError):
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if leads_to(path, log.fileno()):
            os.unlink(path)


def run_until_ready(log: BinaryIO) -> int | None:
    """Start the broker and print its line when it is ready; return its exit code if it ends before."""
    process = subprocess.Popen(
        [*this_kcli(), *(word for word in sys.argv[1:] if word != "--daemon")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=log,
        env={**os.environ, DAEMON_VARIABLE: "1"},
        start_new_session=True,
    )
    assert process.stdout is not None
    with process.stdout:
        ready = process.stdout.readline()
    if not ready:
        return process.wait()
    print_lines([ready.decode().removesuffix("\n")])
    process.returncode = 0  # it keeps running: nothing will wait for it
    return None


def this_kcli() -> list[str]:
    """Return how to start the kcli that runs here: `-m` alone prefers a package in the current directory."""
    is_from_here = Path(__file__).resolve().parents[3] == Path.cwd()
    return [sys.executable, *([] if is_from_here else ["-P"]), "-m", "kcli"]


def tell_warnings(log: BinaryIO, start: int, path: Path) -> None:
    """Print the warnings in a broker's log from byte `start`, and how many more there are."""
    log.seek(start)
    lines = [line.decode(errors="replace").rstrip() for line in log if _WARNING.match(line)]
    for line in lines[:MOST_WARNINGS]:
        note(line)
    if len(lines) > MOST_WARNINGS:
        note(f"{len(lines) - MOST_WARNINGS:,} more: see {path}")


class Reason(NamedTuple):
    """Why a broker did not start: its last error, the hint for it, and all other lines."""

    error: str
    hint: str | None
    others: Sequence[str]


def error_object(line: str) -> dict[str, str] | None:
    """Return the fields of an error as `-o json` prints it, None for any other line."""
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) and {*fields} >= {"error", "hint"} else None


def last_error(log: BinaryIO, start: int) -> Reason:
    """Return the last error in a broker's log from byte `start`, which is after earlier runs."""
    log.seek(start)
    lines = log.read().decode(errors="replace").splitlines()
    errors = [index for index, line in enumerate(lines) if line.startswith("error: ")]
    if not errors and lines and (told := error_object(lines[-1])) is not None:
        return Reason(told["error"], told["hint"], lines[:-1])
    if not errors:
        return Reason("it gave no reason", None, lines)
    error = lines.pop(errors[-1]).removeprefix("error: ")
    hints = [index for index in range(errors[-1], len(lines)) if lines[index].startswith("hint: ")]
    hint = lines.pop(hints[0]).removeprefix("hint: ") if hints else None
    return Reason(error, hint, lines)
