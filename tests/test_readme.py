"""The README keeps up with the program: its commands parse, none is missing, and its tables are true."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from kcli import errors
from kcli.cli import COMMANDS
from tests.conftest import Finished

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_named(name: str) -> None:
    assert re.search(rf"\b{name}\b", README)


def shown_commands() -> list[str]:
    """Return the kcli command lines of the console blocks, in pipes as well, and those of the tables."""
    lines = re.findall(r"^\$ (.*)$", README, re.MULTILINE)
    pieces = [piece.strip() for line in lines for piece in re.split(r"\||&&|;", line)]
    cells = [
        cell for row in re.findall(r"^\| .*", README, re.MULTILINE) for cell in re.findall(r"`(.*?)`", row)
    ]
    return [piece for piece in (*pieces, *cells) if re.match(r"(\S*/)?kcli ", piece)]


@pytest.mark.parametrize("line", shown_commands())
def test_every_command_line_parses(line: str, kcli: Callable[..., Finished]) -> None:
    words = shlex.split(re.split(r"\s[<>]|\s&$", line)[0])
    # `--help` comes last: what stands before it has been parsed by then.
    finished = kcli(*words[1:], "--help")
    assert finished.exit_code == 0, finished.err


def test_the_exit_codes() -> None:
    table = README.partition("## Output and exit codes")[2].partition("\n## ")[0]
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    assert codes == {0} | {kind.exit_code for kind in vars(errors).values() if isinstance(kind, type)}


def test_the_continuous_check_runs_the_test_command() -> None:
    commands = re.findall(r"^\$ (python3 -m venv \.venv-test .*)$", README, re.MULTILINE)
    assert len(commands) == 1
