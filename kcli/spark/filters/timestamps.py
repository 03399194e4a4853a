"""Parses timestamps and durations as users write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from kcli.errors import UsageError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS_MS = {"us": 0.001, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(-?\d+)\s*([a-z]*)")
_MAX_INT64 = 2**63 - 1


def parse_timestamp_us(text: str, option: str = "timestamp") -> int:
    """Return the microseconds since 1970 of an ISO 8601 date or time; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise UsageError(
            f"invalid value for `{option}`: {text}",
            hint="use milliseconds since 1970 or ISO 8601 like 2026-05-01T12:00:00Z",
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def parse_timestamp_ms(text: str, option: str = "timestamp") -> int:
    """Return milliseconds since 1970, given as a number or in ISO 8601, rounded up."""
    stripped = text.strip()
    if re.fullmatch(r"[+-]?\d+", stripped):
        return _in_range(int(stripped), text, option)
    return -(-parse_timestamp_us(stripped, option) // 1000)


def parse_duration_ms(text: str, option: str) -> int:
    """Return the milliseconds of Spark's time strings: 15m, 10s, 100ms; a bare number is milliseconds."""
    match = _DURATION.fullmatch(text.strip().lower())
    unit = _UNITS_MS.get(match[2] or "ms") if match else None
    if match is None or unit is None:
        raise UsageError(
            f"invalid value for `{option}`: {text}", hint="use a number and a unit: 500ms, 30s, 15m, 1h, 1d"
        )
    return int(int(match[1]) * unit)


def _in_range(value: int, text: str, option: str) -> int:
    if abs(value) > _MAX_INT64:
        raise UsageError(f"invalid value for `{option}`: {text}", hint="the number is too large")
    return value
