"""The table of error codes, spot-checked against Kafka's."""

from __future__ import annotations

import pickle

import pytest

from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError


def test_codes_are_contiguous() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 134))


@pytest.mark.parametrize(
    ("code", "name", "retriable"),
    [
        (-1, "UNKNOWN_SERVER_ERROR", False),
        (1, "OFFSET_OUT_OF_RANGE", False),
        (3, "UNKNOWN_TOPIC_OR_PARTITION", True),
        (6, "NOT_LEADER_OR_FOLLOWER", True),
        (35, "UNSUPPORTED_VERSION", False),
        (87, "INVALID_RECORD", False),
        (100, "UNKNOWN_TOPIC_ID", True),
        (133, "SHARE_SESSION_LIMIT_REACHED", True),
    ],
)
def test_numbers_names_and_what_is_retriable(code: int, name: str, retriable: bool) -> None:
    assert ErrorCode(code) is ErrorCode[name]
    assert ErrorCode(code).retriable is retriable


def test_every_description_is_one_short_line() -> None:
    for code in ErrorCode:
        assert 3 < len(code.description) < 80
        assert not code.description.endswith(".")
        assert code.description[0].islower()


def test_a_number_from_the_future_is_an_unknown_error() -> None:
    assert ErrorCode.of(9999) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert ErrorCode.of(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_error_carries_its_code_and_says_what_it_means() -> None:
    error = KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS)
    assert isinstance(error, KcliError)
    assert (error.code, error.message) == (36, "a topic of this name exists")
    assert KafkaError(ErrorCode.INVALID_CONFIG, "no such name: `x`").message == "no such name: `x`"


def test_an_error_travels_between_processes() -> None:
    error = KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, "it exists: x", hint="take y")
    copied = pickle.loads(pickle.dumps(error))
    assert (copied.code, copied.message, copied.hint) == (error.code, error.message, error.hint)
