"""Numbers and properties on command lines.

Numbers are decimal digits and fit the protocol's field. Python's own `int` also takes `1_0` for ten, and the
digits of other scripts. Properties are `name=value` pairs and files.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from kcli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path


def with_values(arguments: Sequence[str], optional_values: Mapping[str, str]) -> list[str]:
    """Return a command line in which the options `optional_values` have these values where they have none.

    Such an option takes the word after it as its value only if that does not begin with a dash.
    """
    filled = []
    for argument, following in pairwise([*arguments, "-"]):
        filled.append(argument)
        if argument in optional_values and following.startswith("-"):
            filled.append(optional_values[argument])
    return filled


LARGEST_INT32 = 2**31 - 1
LARGEST_INT64 = 2**63 - 1

MOST_DIGITS = 40
"""More than any field has, leading zeros included. Python itself refuses some thousands."""


def whole_number(text: str, most: int) -> int | None:
    """Return the value of unsigned decimal digits, None for other text and for a value above `most`."""
    number = None if text.startswith(("+", "-")) else signed_number(text)
    return number if number is not None and number <= most else None


def signed_number(text: str) -> int | None:
    """Return the value of decimal digits with or without a sign, None for other text."""
    digits = text[1:] if text.startswith(("+", "-")) else text
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) <= MOST_DIGITS else None


def not_empty(name: str, what: str) -> str:
    """Return the name of a thing; raise `UsageError` if it has no characters."""
    if not name.strip():
        raise UsageError(f"the {what} name is empty")
    return name


def parse_properties(pairs: Sequence[str] | None, option: str) -> dict[str, str]:
    """Return `name=value` strings as a dict; errors name `option`."""
    given = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"`{option}` needs name=value: {pair}")
        given[name.strip()] = value.strip()
    return given


def parse_configs(pairs: Sequence[str] | None, option: str) -> dict[str, str]:
    """Return configurations as `parse_properties` does, with plain numbers for durations and sizes."""
    configs = parse_properties(pairs, option)
    try:
        return without_units(configs)
    except UsageError as error:
        error.hint = repeat_hint(configs, option) or error.hint
        raise


def repeat_hint(configs: Mapping[str, str], option: str, known: Collection[str] | None = None) -> str | None:
    """Return how to give several configurations if a value looks like more than one, else None.

    Kafka's tools also take one for each `--config`, but several with commas for `--add-config`. What follows
    a comma must be one of the `known` names, or any name with a dot.
    """
    import re

    for name, value in configs.items():
        first, *others = re.split(r",\s*(?=[\w.-]+\s*=)", value)
        names = [other.partition("=")[0].strip() for other in others]
        if names and all(other in known if known is not None else "." in other for other in names):
            pairs = " ".join(f"{option} {pair}" for pair in (f"{name}={first}", *others))
            return f"repeat `{option}` for each: {pairs}"
    return None


def without_units(configs: Mapping[str, str]) -> dict[str, str]:
    """Return configurations with plain numbers: `7d` for a name that ends with `.ms` is 604800000."""
    if not any(value[-1:].isalpha() and value[:1].isdigit() for value in configs.values()):
        return dict(configs)
    from kcli.commands.shared.units import plain_number

    return {name: plain_number(name, value) for name, value in configs.items()}


def read_properties(path: Path | None) -> dict[str, str]:
    """Read a Java properties file; None gives no properties."""
    if path is None:
        return {}
    from kcli.properties import read_properties as read

    return read(path)


def flag(properties: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    """Return a property that must be true or false."""
    text = properties.get(name)
    if text is None:
        return default
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise UsageError(f"invalid value for `{name}`: {text}", hint="use true or false")
    return word == "true"
