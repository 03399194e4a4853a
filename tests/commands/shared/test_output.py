"""Output that fails: closed pipes, full disks, closed files, characters without an encoding."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import subprocess
import sys
from contextlib import suppress
from typing import NamedTuple

import pytest
import typer

from kcli.commands.shared.output import note, print_error, print_json, warn
from kcli.commands.shared.runner import run
from kcli.errors import KcliError


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    "line", ["completion bash", "--help", "--version", "topics --help", "topics list -h"]
)
def test_a_pipe_that_nobody_reads_ends_a_command_quietly(line: str, unbuffered: str) -> None:
    read, write = os.pipe()
    os.close(read)
    process = subprocess.run(
        [sys.executable, "-m", "kcli", *line.split()],
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    os.close(write)
    assert process.returncode == 0
    assert process.stderr == b""


def test_help_that_cannot_be_written_is_an_error_of_one_line() -> None:
    with open("/dev/full", "wb") as full:
        process = subprocess.run(
            [sys.executable, "-m", "kcli", "topics", "list", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert process.returncode == 1
    assert process.stderr == b"error: cannot write the output: no space left on the device\n"


@pytest.mark.parametrize(
    ("line", "exit_code"),
    [
        ("nothing", 2),
        ("topics list -b 127.0.0.1:1", 1),
        ("topics list -b 127.0.0.1:1 --verbose", 1),
        ("dump-log nowhere.log", 1),
        ("completion bash", 0),
    ],
)
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_errors_on_a_full_disk_keep_their_exit_code(line: str, exit_code: int, unbuffered: str) -> None:
    with open("/dev/full", "wb") as full:
        process = subprocess.run(
            [sys.executable, "-m", "kcli", *line.split()],
            stdout=subprocess.PIPE,
            stderr=full,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            check=False,
        )
    assert process.returncode == exit_code
    assert bool(process.stdout) is (exit_code == 0)


class Unread(io.StringIO):
    """A standard error that fails with a given errno."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def write(self, _: str) -> int:
        raise OSError(self._number, os.strerror(self._number))


@pytest.mark.parametrize("number", [errno.EPIPE, errno.EIO, errno.ENOSPC, errno.ECONNRESET])
def test_what_cannot_be_told_stops_nothing(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Unread(number))
    warn("something")
    note("something else")
    print_error(KcliError("it failed", hint="try again"))


def test_what_a_full_disk_has_no_room_for_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w", buffering=1) as full:
        monkeypatch.setattr(sys, "stderr", full)
        note("something")
        monkeypatch.undo()
        with suppress(OSError):
            full.close()


class Partial(NamedTuple):
    failures: tuple[KcliError, ...]

    def lines(self) -> list[str]:
        return ["one done"]


@pytest.mark.parametrize(("failures", "exit_code"), [((), 0), ((KcliError("two failed"),), 1)])
def test_a_note_that_nobody_reads_costs_neither_the_result_nor_the_exit_code(
    failures: tuple[KcliError, ...],
    exit_code: int,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def body() -> Partial:
        note("three was chosen as well")
        return Partial(failures)

    monkeypatch.setattr(sys, "stderr", Unread(errno.EPIPE))
    code = 0
    try:
        run(body, output=None, verbose=False)
    except typer.Exit as exited:
        code = exited.exit_code
    assert (code, capfd.readouterr().out) == (exit_code, "one done\n")


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    ("line", "exit_code"), [("nothing", 2), ("topics list -b 127.0.0.1:1", 1), ("dump-log nowhere.log", 1)]
)
def test_an_error_that_nobody_reads_keeps_its_exit_code(line: str, exit_code: int, unbuffered: str) -> None:
    read, write = os.pipe()
    os.close(read)
    process = subprocess.run(
        [sys.executable, "-m", "kcli", *line.split()],
        stderr=write,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    os.close(write)
    assert process.returncode == exit_code


@pytest.mark.parametrize(
    ("redirections", "out"),
    [(">&-", b""), ("<&-", b"complete"), ("2>&-", b"complete"), (">&- <&- 2>&-", b"")],
)
def test_files_that_a_shell_closed_are_not_missed(redirections: str, out: bytes) -> None:
    command = f'exec "$0" -m kcli completion bash {redirections}'
    process = subprocess.run(["sh", "-c", command, sys.executable], capture_output=True, check=False)
    assert process.returncode == 0
    assert out in process.stdout
    assert process.stderr == b""


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_text_can_be_written_in_any_encoding(encoding: str) -> None:
    script = (
        "from kcli.__main__ import write_any_text; write_any_text()\n"
        "from kcli.commands.shared.output import note, print_error, print_json, warn\n"
        "print_json('→'); print('→')"
    )
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    output = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True)
    document, text = output.stdout.decode(encoding).splitlines()
    assert json.loads(document) == "→"
    assert text == ("→" if encoding == "utf-8" else "\\u2192")


def test_a_document_can_be_written_to_memory() -> None:
    with contextlib.redirect_stdout(io.StringIO()) as memory:
        print_json("→")
    assert memory.getvalue() == '"→"\n'
