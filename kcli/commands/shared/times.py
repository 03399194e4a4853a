"""Times on command lines. Pure.

Options of kcli take milliseconds since 1970, or ISO 8601, which is UTC without a zone. `reset-offsets` takes
what Kafka's tool takes: a date `2025-12-31T23:59:59.000`, with `Z` or an offset like `+01:00`, else UTC, and
here also without milliseconds or without the time of day; and a duration of Java's `Duration.parse`, which
has days as its largest unit: `P1DT2H30M`, `PT90S`, `-PT5M`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from kcli.commands.shared.arguments import LARGEST_INT64, whole_number
from kcli.errors import UsageError


def parse_time(text: str, option: str) -> int:
    """Return milliseconds since 1970; errors name `option`."""
    moment_ms = whole_number(text, LARGEST_INT64) if text.isdecimal() else iso_ms(text)
    if moment_ms is None:
        raise UsageError(f"`{option}` cannot be {text}", hint="milliseconds or 2025-12-31T23:59:59Z")
    return moment_ms


def asked_time(text: str, option: str) -> int:
    """Return a time for ListOffsets, where negative timestamps have meanings: at least 0."""
    return max(0, parse_time(text, option))


def iso_ms(text: str) -> int | None:
    """Return milliseconds since 1970 of a date or time in ISO 8601, None for other text."""
    try:
        moment = datetime.fromisoformat(text)
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


_DATETIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d:\d\d)(\.\d{3})?(?:Z|([+-]\d\d)(?::?(\d\d))?)?)?", re.ASCII
)
_DURATION = re.compile(
    r"([-+])?P(?:([-+]?\d{1,19})D)?"
    r"(?:T(?=[-+\d])(?:([-+]?\d{1,19})H)?(?:([-+]?\d{1,19})M)?(?:([-+]?)(\d{1,19})(?:[.,](\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_LONGEST_MS = LARGEST_INT64 // 2
"""Now plus or minus this still fits the protocol's field."""


def parse_datetime(text: str) -> int:
    """Return milliseconds since 1970."""
    match = _DATETIME.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        day, time, fraction, hours, minutes = match.groups()
        zone = f"{hours}:{minutes or '00'}" if hours else "+00:00"
        moment = datetime.fromisoformat(f"{day}T{time or '00:00:00'}{fraction or ''}{zone}")
    except ValueError:
        raise UsageError(
            f"`--to-datetime` cannot be {text}",
            hint="2025-12-31T23:59:59.000, with Z or +01:00 behind it if it is not UTC",
        ) from None
    return (moment - _EPOCH) // _MS


def parse_duration(text: str) -> int:
    """Return a duration in milliseconds, which may be negative."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()[1:]):
        raise _no_duration(text)
    sign, days, hours, minutes, second_sign, seconds, fraction = match.groups()
    nanos = int(seconds or 0) * 10**9 + int((fraction or "").ljust(9, "0"))
    if second_sign == "-":
        nanos = -nanos
    all_minutes = int(days or 0) * 1440 + int(hours or 0) * 60 + int(minutes or 0)
    nanos += all_minutes * 60 * 10**9
    duration_ms = (-nanos if sign == "-" else nanos) // 10**6
    if abs(duration_ms) > _LONGEST_MS:
        raise _no_duration(text)
    return duration_ms


def _no_duration(text: str) -> UsageError:
    return UsageError(f"`--by-duration` cannot be {text}", hint="P1D is a day, PT2H30M two and a half hours")
