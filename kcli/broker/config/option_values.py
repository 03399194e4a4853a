"""Typed values of options, from the command line, JSON or YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping


def whole(options: Mapping[str, Any], name: str, *, least: int = 0) -> int:
    """Return an option that is a whole number. Raises `UsageError`."""
    value = options[name]
    if isinstance(value, str) and value.lstrip("-").isdecimal():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"`{name}` is a whole number from {least} on, not {value!r}")
    return value


def text(options: Mapping[str, Any], name: str) -> str:
    """Return an option that is text; a number counts as its digits. Raises `UsageError`."""
    value = options[name]
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise UsageError(f"`{name}` is text, not {value!r}")
    return str(value)


def flag(options: Mapping[str, Any], name: str) -> bool:
    """Return an option that is true or false, false if it is not given. Raises `UsageError`."""
    value = options.get(name, False)
    if not isinstance(value, bool):
        raise UsageError(f"`{name}` is true or false, not {value!r}")
    return value
