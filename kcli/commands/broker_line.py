"""Command lines of `broker start` that need no Typer: every option with its whole name and a plain value.

To import Typer, and to describe all commands of `broker` to it, would take a fifth of the start.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kcli.commands.broker_start import DATA_DIR_VARIABLE, MOST_NODES, MOST_PORT, StartOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def _number(lowest: int, highest: int) -> Callable[[str], int]:
    """Return what reads a whole number; it raises `ValueError` for all that Typer should judge."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and lowest <= int(text) <= highest):
            raise ValueError(text)
        return int(text)

    return read


_SWITCHES = ("--ephemeral", "--adopt", "--daemon", "--verbose")
_VALUES: dict[str, Callable[[str], Any]] = {
    "--config": Path,
    "--override": str,
    "--nodes": _number(1, MOST_NODES),
    "--rack": str,
    "--host": str,
    "--port": _number(0, MOST_PORT),
    "--data-dir": Path,
    "--scenario": Path,
}


def parse_start(words: Sequence[str]) -> StartOptions | None:
    """Return what the words behind `broker start` say, None if that is for Typer to tell."""
    directory = os.environ.get(DATA_DIR_VARIABLE)
    found: dict[str, Any] = {"data_dir": Path(directory)} if directory else {}
    overrides: list[str] = []
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        name = option.removeprefix("--").replace("-", "_")
        if word in _SWITCHES:
            found[name] = True
            continue
        if not equals:
            value = next(rest, "")
        if option not in _VALUES or not value or value.startswith("-"):
            return None
        try:
            found[name] = _VALUES[option](value)
        except ValueError:
            return None
        if name == "override":
            overrides.append(value)
    return StartOptions(**{**found, "override": tuple(overrides)})
