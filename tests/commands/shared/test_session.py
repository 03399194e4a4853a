"""Errors of refusals: the attempt, the reason, and a hint."""

from __future__ import annotations

import pytest

from kcli.commands.shared.session import failure
from kcli.protocol.configs import ConfigNotActedOn
from kcli.protocol.error_codes import ErrorCode, KafkaError


@pytest.mark.parametrize(
    ("error", "message", "hint"),
    [
        pytest.param(
            KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "x y is no name."),
            "cannot alter x: x y is no name",
            "a name is 1 to 249 of the characters a-z A-Z 0-9 . _ -",
            id="the hint is that of the error",
        ),
        pytest.param(
            ConfigNotActedOn("`ssl.protocol` is a security configuration that kcli does not act on"),
            "cannot alter x: `ssl.protocol` is a security configuration that kcli does not act on",
            None,
            id="no other name would do",
        ),
        pytest.param(
            KafkaError(ErrorCode.NOT_CONTROLLER, "another is"),
            "cannot alter x: another is",
            None,
            id="no hint",
        ),
    ],
)
def test_a_refusal(error: KafkaError, message: str, hint: str | None) -> None:
    told = failure("cannot alter x", error)
    assert (told.message, told.hint) == (message, hint)
