"""The times of `reset-offsets`: accepted as in Kafka's tool, or refused."""

from __future__ import annotations

import pytest

from kcli.commands.shared.times import parse_datetime, parse_duration
from kcli.errors import UsageError

MIDNIGHT = 1_700_006_400_000
"""2023-11-15T00:00:00Z."""

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2023-11-15T00:00:00.000", MIDNIGHT),
        ("2023-11-15T00:00:00.001Z", MIDNIGHT + 1),
        ("2023-11-15T01:30:00.000+01:30", MIDNIGHT),
        ("2023-11-15T01:30:00.000+0130", MIDNIGHT),
        ("2023-11-15T01:00:00.000+01", MIDNIGHT),
        ("2023-11-14T16:00:00.000-08:00", MIDNIGHT),
        ("2023-11-15T00:00:01", MIDNIGHT + 1000),
        ("2023-11-15", MIDNIGHT),
        ("1970-01-01T00:00:00.000", 0),
        ("1969-12-31T23:59:59.999", -1),
    ],
)
def test_a_datetime_is_utc_unless_it_says_otherwise(text: str, expected: int) -> None:
    assert parse_datetime(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2023-13-01T00:00:00.000",
        "2023-02-29T00:00:00.000",
        "2023-11-15T24:00:00.000",
        "2023-11-15T00:00",
        "2023-11-15T00:00:00.5",
        "2023-11-15T00:00:00.0005",
        "2023-11-15 00:00:00.000",
        "2023-11-15T00:00:00.000+25:00",
        "15-11-2023T00:00:00.000",
        "1700006400000",
        "٢٠٢٣-11-15T00:00:00.000",
    ],
)
def test_what_is_no_datetime_is_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError, match="--to-datetime"):
        parse_datetime(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT1H", HOUR),
        ("P1D", DAY),
        ("P2DT3H4M", 2 * DAY + 3 * HOUR + 4 * MINUTE),
        ("PT20.345S", 20_345),
        ("PT0,5S", 500),
        ("PT5.S", 5_000),
        ("pt10m", 10 * MINUTE),
        ("P-6DT3H", -6 * DAY + 3 * HOUR),
        ("-PT6H", -6 * HOUR),
        ("-PT-6H+3M", 6 * HOUR - 3 * MINUTE),
        ("PT-1.5S", -1_500),
        ("PT0S", 0),
        ("P53375995583D", 53_375_995_583 * DAY),
    ],
)
def test_a_duration_is_iso_8601(text: str, expected: int) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "1h", "PT1", "P1Y", "P1M", "PT1D", "P1DT", "PT1S1H", "P 1D"])
def test_what_is_no_duration_is_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError, match="--by-duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", [f"P{'9' * 20}D", f"-P{'9' * 19}D", f"PT{'9' * 5000}S", "-P53375995584D"])
def test_a_duration_that_ends_at_no_time_is_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError, match="--by-duration"):
        parse_duration(text)
