"""A broker that goes on when its command has ended: the same command line, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from kcli.errors import KcliError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

LOG_FILE = "kcli-broker.log"


def start_daemon(data_dir: Path) -> None:
    """Start this command line again without `--daemon`, and return once the broker is ready.

    The broker's own lines go to `kcli-broker.log` in the data directory. Raises `KcliError` with its reason
    if it ends before it is ready.
    """
    log_path = data_dir / LOG_FILE
    arguments = [word for word in sys.argv[1:] if word != "--daemon"]
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        log = log_path.open("ab")
    except OSError as error:
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
        reason, hint = last_error(log_path, earlier_bytes)
        raise kind(f"the broker did not start: {reason}", hint=hint or f"see {log_path}")
    sys.stdout.write(ready.decode())
    process.returncode = 0  # it goes on without us: nobody will wait for it


def last_error(log_path: Path, start: int) -> tuple[str, str | None]:
    """Return the last error in a broker's log and its hint; before byte `start` are those of earlier runs."""
    with log_path.open("rb") as log:
        log.seek(start)
        lines = log.read().decode(errors="replace").splitlines()
    errors = [index for index, line in enumerate(lines) if line.startswith("error: ")]
    if not errors:
        return "it gave no reason", None
    error, *rest = lines[errors[-1] :]
    hints = [line.removeprefix("hint: ") for line in rest if line.startswith("hint: ")]
    return error.removeprefix("error: "), hints[0] if hints else None
