"""OptionValues: the options of a reader as Spark hands them over, text by name whatever the case."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from kcli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import StrEnum

    Choice = TypeVar("Choice", bound=StrEnum)

_MAX_INT64 = 2**63 - 1
_PREFIX = "kafka."


class OptionValues:
    """Options looked up without regard to case; a bad value raises `UsageError` with the option's name."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        self._names = tuple(options)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def get(self, name: str, default: str) -> str:
        """Return an option's text without surrounding blanks."""
        return self._values.get(name.lower(), default).strip()

    def kafka_properties(self) -> dict[str, str]:
        """Return the options that begin with `kafka.`, without it; the client's names are in lower case."""
        return {
            name.lower().removeprefix(_PREFIX): self[name]
            for name in self._names
            if name.lower().startswith(_PREFIX)
        }

    def list(self, name: str) -> tuple[str, ...]:
        """Return the parts of a comma list, blank ones left out."""
        parts = (part.strip() for part in self.get(name, "").split(","))
        return tuple(dict.fromkeys(part for part in parts if part))

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false."""
        text = self.get(name, str(default)).lower()
        if text not in ("true", "false"):
            raise UsageError(f"invalid value for `{name}`: {text}", hint="use true or false")
        return text == "true"

    def number(self, name: str, default: int) -> int:
        """Return a whole number of 64 bits."""
        text = self.get(name, str(default))
        if not re.fullmatch(r"[+-]?[0-9]+", text) or not -_MAX_INT64 - 1 <= int(text) <= _MAX_INT64:
            raise UsageError(f"invalid value for `{name}`: {text}", hint="use a whole number")
        return int(text)

    def positive(self, name: str) -> int | None:
        """Return a whole number above 0, None if the option is absent."""
        if name not in self:
            return None
        value = self.number(name, 0)
        if value <= 0:
            raise UsageError(f"`{name}` must be positive: {value}")
        return value

    def choice(self, name: str, default: Choice) -> Choice:
        """Return one of the words of an enumeration."""
        kind = type(default)
        try:
            return kind(self.get(name, default).lower())
        except ValueError:
            words = ", ".join(kind)
            raise UsageError(
                f"invalid value for `{name}`: {self[name]}", hint=f"use one of {words}"
            ) from None
