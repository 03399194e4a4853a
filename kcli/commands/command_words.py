"""The words of a command line, as Typer takes them, but for two things.

* A number is written in decimal digits: Python, and so Typer, also takes `1_0` for ten.
* An option that has a value may do without one, if its command says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from itertools import pairwise
from typing import Any

from typer.core import TyperCommand

NUMBERS = ("int", "integer", "float")
"""What the names of Typer's types of numbers begin with, in one version or another."""


def command_class(optional_values: Mapping[str, str]) -> type[TyperCommand]:
    """Return a class of commands whose options `optional_values` need no value: none begins with a dash."""

    class Command(TyperCommand):
        def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  # Typer's own click
            super().__init__(*args, **kwargs)
            for parameter in self.params:
                if parameter.type.name.partition(" ")[0] in NUMBERS:
                    parameter.type = in_plain_digits(parameter.type)

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401  # the same
            filled = []
            for argument, following in pairwise([*args, "-"]):
                filled.append(argument)
                if argument in optional_values and following.startswith("-"):
                    filled.append(optional_values[argument])
            return super().parse_args(ctx, filled)

    return Command


def in_plain_digits(kind: Any) -> Any:  # noqa: ANN401  # a type of Typer's own click
    """Return a type of numbers that refuses what only Python takes for digits."""

    def convert(value: Any, parameter: Any, context: Any) -> Any:  # noqa: ANN401  # the same
        if isinstance(value, str) and ("_" in value or not value.isascii()):
            kind.fail(f"'{value}' is not a valid {kind.name}.", parameter, context)
        return kind.convert(value, parameter, context)

    strict = copy(kind)  # Typer has one of a kind for all commands.
    strict.convert = convert
    return strict
