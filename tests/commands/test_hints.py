"""Messages and the README name only commands and options that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from kcli.cli import build_app

ROOT = Path(__file__).parent.parent.parent
QUOTED = re.compile(r"`kcli ([a-z][^`]*)`")
FIELD = re.compile(r"\{[^}]*\}")


def named_commands() -> set[str]:
    """Return every command line in backticks in the sources and the README."""
    files = [ROOT / "README.md", *(ROOT / "kcli").rglob("*.py")]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return {FIELD.sub("", line) for line in QUOTED.findall(text)}


@pytest.fixture(scope="module")
def root() -> Any:
    """Return all commands."""
    return typer.main.get_command(build_app())


def test_every_command_that_is_named_exists(root: Any) -> None:
    lines = named_commands()
    assert len(lines) > 50
    for line in lines:
        here, options = root, []
        for word in line.split():
            if word.startswith("-"):
                options.append(word)
            elif "|" not in word and word in getattr(here, "commands", ()):
                here = here.commands[word]
            elif here is root or hasattr(here, "commands"):
                assert set(word.split("|")) <= {*here.commands}, line
                break
        known = {name for parameter in getattr(here, "params", ()) for name in parameter.opts}
        assert {option.partition("=")[0] for option in options} <= known | {"--help"}, line
