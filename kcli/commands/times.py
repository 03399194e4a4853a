"""Times on a command line: milliseconds since 1970, or ISO 8601 in UTC unless it says otherwise. Pure.

UTC is what `dump-log` prints, and how Kafka's tool reads `--to-datetime`.
"""

from __future__ import annotations

from datetime import UTC, datetime

from kcli.commands.whole_numbers import LARGEST_INT64, whole_number
from kcli.errors import UsageError


def parse_time(text: str, option: str) -> int:
    """Return milliseconds since 1970; `option` is named in the error."""
    moment_ms = whole_number(text, LARGEST_INT64) if text.isdecimal() else iso_ms(text)
    if moment_ms is None:
        raise UsageError(f"`{option}` cannot be {text}", hint="milliseconds or 2025-12-31T23:59:59Z")
    return moment_ms


def asked_time(text: str, option: str) -> int:
    """Return a time as brokers are asked for it: 1970 for one before, as negative ones are words to them."""
    return max(0, parse_time(text, option))


def iso_ms(text: str) -> int | None:
    """Return milliseconds since 1970 of a date or a time in ISO 8601, None if it is none."""
    try:
        moment = datetime.fromisoformat(text)
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
