"""`-o json` and an error: one object on the last line of standard error, for every command."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands.test_terminal_escapes import COMMANDS
from tests.conftest import Finished


def last_object(errors: str) -> dict[str, object]:
    fields = json.loads(errors.splitlines()[-1])
    assert isinstance(fields, dict)
    return fields


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_option_is_an_object(command: str, kcli: Callable[..., Finished]) -> None:
    finished = kcli(*command.split(), "--no-such-option", "-o", "json")
    assert finished.out == ""
    assert last_object(finished.err) == {
        "error": "no such option: --no-such-option",
        "hint": last_object(finished.err)["hint"],
        "code": 2,
    }
    assert finished.exit_code == 2


LINES = [
    ("topics list -b 127.0.0.1:1 -o json", 1),
    ("topics list -b :x --output=json", 2),
    ("topics list -b :x -ojson", 2),
    ("topics create -o json", 2),
    ("consume t -b :x -o json", 2),
    ("dump-log nowhere.log -o json", 1),
    ("dump-log nowhere.log -o json --deep-iteration", 1),
    ("dump-log -o json", 2),
    ("verify-index nowhere -o json", 1),
    ("verify-index nowhere -o json --deep --jobs 1", 1),
    ("broker start --override no.such.name=1 --data-dir data -o json", 2),
    ("broker start --override no.such.name=1 --data-dir data --daemon -o json", 2),
    ("broker stop --data-dir data -o json", 1),
    ("broker status --data-dir data -o json", 3),
    ("spark-import nowhere --topic t -o json", 1),
    ("nothing -o json", 2),
    ("completion nothing -o json", 2),
    ("topics describe $'\\xff' -o json", 2),
]


@pytest.mark.parametrize(("line", "exit_code"), LINES)
def test_an_error_of_the_program_is_an_object(line: str, exit_code: int, tmp_path: Path) -> None:
    command = ["bash", "-c", f"{shlex.quote(sys.executable)} -m kcli {line}"]
    finished = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ}
    )
    fields = last_object(finished.stderr)
    assert fields["code"] == finished.returncode == exit_code
    assert {*fields} == {"error", "hint", "code"}
    assert not [line for line in finished.stderr.splitlines() if line.startswith(("error:", "hint:"))]


def test_several_errors_are_one_object(kcli: Callable[..., Finished], tmp_path: Path) -> None:
    finished = kcli("dump-log", str(tmp_path / "a.log"), str(tmp_path / "b.log"), "-o", "json")
    fields = last_object(finished.err)
    assert f"{tmp_path}/a.log" in str(fields["error"])
    assert [f"{tmp_path}/b.log" in each["error"] for each in fields["more"]] == [True]
    assert fields["code"] == finished.exit_code == 1


def test_a_message_of_a_broker_is_one_line_of_safe_json(kcli: Callable[..., Finished]) -> None:
    finished = kcli("topics", "list", "-b", "\x1b[31m\x9b:x", "-o", "json")
    assert finished.err.count("\n") == 1
    assert finished.err[:-1].isprintable()
    assert "\x1b[31m\x9b:x" in str(last_object(finished.err)["error"])
