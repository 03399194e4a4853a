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

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
READMES = (ROOT / "README.md", ROOT / "kcli" / "README.md", *sorted((ROOT / "tests").rglob("README.md")))


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


def test_it_is_read_in_one_sitting() -> None:
    assert len(README.splitlines()) <= 350


@pytest.mark.parametrize("path", READMES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_and_names_of_files_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^):]+)\)", text)
    named = re.findall(r"`((?:kcli|tests)/[\w/.]+\.py)`", text)
    assert [link for link in links if not (path.parent / link).exists()] == []
    assert [name for name in named if not (ROOT / name).exists()] == []
