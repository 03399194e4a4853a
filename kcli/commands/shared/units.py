"""Values of configurations with units: `retention.ms=7d`, `segment.bytes=64MiB`; a broker gets plain numbers.

The end of a configuration's name tells what its number counts. `k`, `M` and `MB` mean powers of 1000 to some
people and of 1024 to others, so they are refused.
"""

from __future__ import annotations

import re
from decimal import Decimal

from kcli.errors import UsageError

TIMES_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
COUNTED_MS = {"ms": 1, "seconds": 1000, "minutes": 60_000, "hours": 3_600_000}
"""The last words of names of durations: what the numbers count, in milliseconds."""

SIZES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
SIZE_NAMES = re.compile(r"\.bytes$|\.bytes\.|^bytes\.|\.throttled\.rate$|_byte_rate$|\.buffer\.size$")

TIME_HINT = "units are ms, s, m, h, d and w: 7d, 36h, 1h30m"
SIZE_HINT = "units are KiB, MiB, GiB and TiB, powers of 1024: 10MiB"

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]+)")


def plain_number(name: str, value: str) -> str:
    """Return the value of a configuration without units; raise `UsageError` for units that do not fit.

    Values without units, and those of other configurations, are returned as they are.
    """
    if not value[-1:].isalpha() or not _PART.match(value):
        return value
    counted = name.rpartition(".")[2]
    if counted in COUNTED_MS:
        number, hint = total_of(name, value, TIMES_MS, TIME_HINT) / COUNTED_MS[counted], TIME_HINT
    elif SIZE_NAMES.search(name):
        number, hint, counted = total_of(name, value, SIZES, SIZE_HINT), SIZE_HINT, "bytes"
    else:
        return value
    if number != int(number):
        raise UsageError(f"`{name}={value}` is not a whole number of {counted}", hint=hint)
    return str(int(number))


def total_of(name: str, value: str, units: dict[str, int], hint: str) -> Decimal:
    """Return the sum of the parts of a value such as `1h30m`, in the smallest unit."""
    total, position = Decimal(0), 0
    while part := _PART.match(value, position):
        factor = units.get(part[2])
        if factor is None:
            raise UsageError(
                f"unknown unit `{part[2]}` in `{name}={value}`", hint=likely(part, units) or hint
            )
        total += Decimal(part[1]) * factor
        position = part.end()
    if position < len(value):
        raise UsageError(f"not a number with a unit: `{name}={value}`", hint=hint)
    return total


def likely(part: re.Match[str], units: dict[str, int]) -> str | None:
    """Return a hint with both meanings of an ambiguous unit of sizes, or the unit in other letters."""
    letter = part[2][:1].upper()
    decimal = {"K": 3, "M": 6, "G": 9, "T": 12}.get(letter)
    if units is SIZES and decimal is not None and part[2].lower() in (letter.lower(), f"{letter}b".lower()):
        plain = Decimal(part[1]).scaleb(decimal)
        return f"{part[1]}{letter}iB is a power of 1024; write {int(plain)} for powers of 1000"
    known = next((unit for unit in units if unit.lower() == part[2].lower()), None)
    return None if known is None else f"did you mean `{part[1]}{known}`?"
