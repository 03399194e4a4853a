"""Properties as command lines give them: `name=value` pairs, and files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli import properties
from kcli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def parse_properties(pairs: Sequence[str] | None, option: str) -> dict[str, str]:
    """Return `name=value` strings as a dict; `option` is named in the error."""
    given = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"`{option}` wants name=value: {pair}")
        given[name.strip()] = value.strip()
    return given


def read_properties(path: Path | None) -> dict[str, str]:
    """Read a Java properties file; None is an empty one."""
    return {} if path is None else properties.read_properties(path)


def flag(properties: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    """Return a property that is true or false; anything else is refused."""
    text = properties.get(name)
    if text is None:
        return default
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise UsageError(f"invalid value for `{name}`: {text}", hint="use true or false")
    return word == "true"
