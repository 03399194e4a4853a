"""Times on command lines mean the same in every option and time zone."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from kcli.commands.consume.reading import Reading
from kcli.commands.shared.times import asked_time, parse_time
from kcli.commands.topics import offsets as get_offsets
from kcli.errors import UsageError
from tests.conftest import Finished


@pytest.fixture(params=["UTC", "America/New_York"])
def _zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A local time zone."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_zone")
@pytest.mark.parametrize(
    ("text", "moment_ms"),
    [
        ("1735689600000", 1_735_689_600_000),
        ("2025-01-01", 1_735_689_600_000),
        ("2025-01-01 00:00:00.250", 1_735_689_600_250),
        ("2025-01-01T00:00:00Z", 1_735_689_600_000),
        ("2025-01-01T01:00:00+01:00", 1_735_689_600_000),
    ],
)
def test_a_time_without_a_zone_is_utc_everywhere(text: str, moment_ms: int) -> None:
    assert parse_time(text, "--from-time") == moment_ms
    assert get_offsets.parse_time(text) == moment_ms


def test_a_time_before_1970_is_none_of_the_negative_words() -> None:
    assert get_offsets.parse_time("1969-12-31T23:59:59.999Z") == 0
    assert asked_time("1969-12-31T23:59:59.999Z", "--from-time") == 0
    assert asked_time("1", "--from-time") == 1


@pytest.mark.parametrize(
    "text", ["", "noon", "2025-13-01", "-5", "9223372036854775808", "9" * 20, "9" * 5000, "\u0661"]
)
def test_what_is_no_time_is_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError, match="`--from-time` cannot be") as refused:
        parse_time(text, "--from-time")
    assert refused.value.hint == "milliseconds or 2025-12-31T23:59:59Z"


def test_the_largest_time_is_one() -> None:
    assert parse_time("9223372036854775807", "--to-time") == 2**63 - 1


def test_consume_asks_for_1970_where_an_earlier_time_is_given(
    monkeypatch: pytest.MonkeyPatch, kcli: Callable[..., Finished]
) -> None:
    asked = []

    @asynccontextmanager
    async def connect_with(*_: object, **__: object) -> AsyncIterator[None]:
        yield

    async def print_records(_: object, __: object, reading: Reading, **___: object) -> None:
        asked.append((reading.start.time_ms, reading.end.time_ms))

    monkeypatch.setattr("kcli.commands.shared.session.connect_with", connect_with)
    monkeypatch.setattr("kcli.commands.consume.reading.print_records", print_records)
    before = "1969-12-31T23:59:59.999Z"
    assert kcli("consume", "orders", "--from-time", before, "--to-time", before).exit_code == 0
    assert asked == [(0, 0)]
