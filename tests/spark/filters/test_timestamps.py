"""Points in time and durations as users write them."""

from __future__ import annotations

import pytest

from kcli.errors import UsageError
from kcli.spark.filters.timestamps import parse_duration_ms, parse_timestamp_ms, parse_timestamp_us


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        (" 1700000000000 ", 1700000000000),
        ("-5", -5),
        ("1970-01-01", 0),
        ("1970-01-02T00:00:00Z", 86_400_000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01 00:00:01", 1000),
        ("1970-01-01T00:00:00.0001", 1),
        ("1969-12-31T23:59:59.9999", 0),
    ],
)
def test_times_are_milliseconds_or_iso_8601_in_utc(text: str, expected: int) -> None:
    assert parse_timestamp_ms(text) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "1e12", "9" * 30])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="invalid value for `startingTimestamp`"):
        parse_timestamp_ms(text, "startingTimestamp")


def test_microseconds_are_kept() -> None:
    assert parse_timestamp_us("1970-01-01T00:00:00.000001Z") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [("15m", 900_000), ("10s", 10_000), ("250", 250), ("250ms", 250), ("1h", 3_600_000), ("1 d", 86_400_000),
     ("2min", 120_000)],
)  # fmt: skip
def test_durations_are_sparks(text: str, expected: int) -> None:
    assert parse_duration_ms(text, "maxTriggerDelay") == expected


@pytest.mark.parametrize("text", ["", "m", "1.5s", "15 minutes ago"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="invalid value for `maxTriggerDelay`"):
        parse_duration_ms(text, "maxTriggerDelay")
