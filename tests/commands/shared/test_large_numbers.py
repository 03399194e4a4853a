"""Numbers that fit no field of the protocol are wrong usage, found before any broker is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Never

import pytest

from kcli.commands.shared.arguments import LARGEST_INT32, signed_number, whole_number
from tests.conftest import Finished

LARGE = "9" * 22
TOO_LONG = "9" * 5000
"""More digits than Python converts by default."""


@pytest.fixture(autouse=True)
def _nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every attempt to connect an error."""

    def connect(*_: object, **__: object) -> Never:
        raise AssertionError("a broker is asked")

    monkeypatch.setattr("kcli.client.client.connect", connect)


@pytest.mark.parametrize("number", [LARGE, TOO_LONG], ids=["large", "too long"])
@pytest.mark.parametrize(
    "line",
    [
        "consume orders --from-time {}",
        "consume orders --to-time {}",
        "consume orders --partition 0 --offset {}",
        "get-offsets orders --time {}",
        "get-offsets --topic-partitions orders:{}",
        "get-offsets --topic-partitions orders:0-{}",
        "delete-records orders:0:{}",
        "delete-records orders:{}:0",
        "consumer-groups reset-offsets billing --all-topics --by-duration -P{}D",
        "consumer-groups reset-offsets billing --to-earliest --topic orders:{}",
        "consumer-groups delete-offsets billing --topic orders:{}",
        "consumer-groups describe billing --timeout {}",
        "preferred-replica-election orders:{}",
        "log-dirs move orders:{} --broker 1 --to /data",
        "cluster unregister {}",
        "cluster unregister --id {}",
        "topics create new --replica-assignment 1,{}",
        "topics alter orders --partitions 3 --replica-assignment 1,{}",
    ],
)
def test_a_number_that_fits_no_field_is_wrong_usage(
    line: str, number: str, kcli: Callable[..., Finished]
) -> None:
    finished = kcli(*line.format(number).split())
    assert finished.exit_code == 2
    assert finished.err.startswith("error: ")
    assert "does not fit" not in finished.err


@pytest.mark.parametrize("option", ["--from-time", "--to-time"])
def test_a_time_that_is_none_is_told_with_those_that_are(option: str, kcli: Callable[..., Finished]) -> None:
    finished = kcli("consume", "orders", option, LARGE)
    assert finished.err == (
        f"error: `{option}` cannot be {LARGE}\nhint: milliseconds or 2025-12-31T23:59:59Z\n"
    )


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("007", 7),
        ("2147483647", LARGEST_INT32),
        ("2147483648", None),
        (TOO_LONG, None),
        ("", None),
        ("-1", None),
        ("+1", None),
        ("1_0", None),
        (" 1", None),
        ("\u0661", None),
    ],
)
def test_a_whole_number_is_decimal_digits_and_not_too_large(text: str, number: int | None) -> None:
    assert whole_number(text, LARGEST_INT32) == number


@pytest.mark.parametrize(
    ("number", "found"), [("-2", -2), ("+3", 3), ("010", 10), ("-", None), ("1_0", None)]
)
def test_a_signed_number_is_decimal_digits_behind_a_sign(number: str, found: int | None) -> None:
    assert signed_number(number) == found


@pytest.mark.parametrize("number", ["1_0", "\u0661"], ids=["underscore", "other digits"])
@pytest.mark.parametrize(
    "line",
    [
        "consume orders --partition {}",
        "consume orders --partition 0 --offset {}",
        "consume orders --max-messages {}",
        "get-offsets orders --partitions 0,{}",
        "get-offsets orders --time {}",
        "get-offsets --topic-partitions orders:{}",
        "delete-records orders:0:{}",
        "delete-records orders:{}:0",
        "log-dirs describe --broker-list {}",
        "configs describe --broker {}",
        "broker stop --timeout {}",
        "cluster unregister {}",
        "topics create new --partitions {}",
        "topics create new --replica-assignment 1,{}",
        "reassign-partitions generate --all-topics --broker-list 1,{}",
    ],
)
def test_what_only_python_takes_for_digits_is_wrong_usage(
    line: str, number: str, kcli: Callable[..., Finished]
) -> None:
    finished = kcli(*line.format(number).split())
    assert finished.exit_code == 2
    assert finished.err.startswith("error: ")
    assert number in finished.err
