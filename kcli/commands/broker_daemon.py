"""A broker that goes on when its command has ended: the same command line, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.output import note
from kcli.errors import KcliError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

LOG_FILE = "kcli-broker.log"


def start_daemon(data_dir: Path) -> None:
    """Start this command line again without `--daemon`, and return once the broker is ready.

    The broker's own lines go to `kcli-broker.log` in the data directory. Raises `KcliError` with its reason
    if it ends before it is ready: then a log that there was not before is told and removed.
    """
    log_path = data_dir / LOG_FILE
    arguments = [word for word in sys.argv[1:] if word != "--daemon"]
    is_new = not log_path.exists()
    made = [path for path in (data_dir, *data_dir.parents) if not path.exists()]
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        log = log_path.open("ab")
    except OSError as error:
        remove_empty(made)
        raise KcliError(f"cannot write to `{data_dir}`: {error.strerror}") from error
    with log:
        earlier_bytes = log.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            [sys.executable, "-m", "kcli", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert process.stdout is not None
    with process.stdout:
        ready = process.stdout.readline()
    if not ready:
        kind = UsageError if process.wait() == UsageError.exit_code else KcliError
        reason = last_error(log_path, earlier_bytes)
        if is_new:
            log_path.unlink(missing_ok=True)
            remove_empty(made)
            for line in reason.before:
                note(line)
        hint = reason.hint or (None if is_new else f"see {log_path}")
        raise kind(f"the broker did not start: {reason.error}", hint=hint)
    sys.stdout.write(ready.decode())
    process.returncode = 0  # it goes on without us: nobody will wait for it


class Reason(NamedTuple):
    """Why a broker did not start: its last error and the hint for it, and the lines `before` them."""

    error: str
    hint: str | None
    before: Sequence[str]


def last_error(log_path: Path, start: int) -> Reason:
    """Return the last error in a broker's log; before byte `start` are those of earlier runs."""
    with log_path.open("rb") as log:
        log.seek(start)
        lines = log.read().decode(errors="replace").splitlines()
    errors = [index for index, line in enumerate(lines) if line.startswith("error: ")]
    if not errors:
        return Reason("it gave no reason", None, lines)
    error, *rest = lines[errors[-1] :]
    hints = [line.removeprefix("hint: ") for line in rest if line.startswith("hint: ")]
    return Reason(error.removeprefix("error: "), hints[0] if hints else None, lines[: errors[-1]])


def remove_empty(directories: Iterable[Path]) -> None:
    """Remove directories, the lowest one first, that have nothing in them."""
    for directory in directories:
        with suppress(OSError):
            directory.rmdir()
