"""The timeout of a command also limits connecting."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

from kcli.commands.shared.session import connecting_ms
from tests.conftest import Finished

HINT = "hint: check the address, and that the port is a broker's listener\n"


@pytest.fixture
def silent() -> Iterator[str]:
    """A port that accepts connections and never answers, like a broker in SIGSTOP."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize(
    "line",
    [
        "topics list -X default.api.timeout.ms=150 -X request.timeout.ms=100",
        "consumer-groups list --timeout 150",
        "consumer-groups list -X default.api.timeout.ms=150",
        "consumer-groups describe g --timeout 150",
        "consumer-groups members g --timeout 150",
        "consumer-groups remove-members g --all-members --timeout 150",
        "consumer-groups reset-offsets g --all-topics --to-earliest --timeout 150",
        "consumer-groups clone g new --timeout 150",
        "consumer-groups delete g --timeout 150",
        "consumer-groups delete-offsets g --topic t --timeout 150",
        "produce t --max-block-ms 150 --request-timeout-ms 100",
        "produce t -X default.api.timeout.ms=150",
        "consume t --timeout-ms 150",
        "consume t --timeout-ms 300000 -X default.api.timeout.ms=150",
    ],
)
def test_a_silent_broker_is_given_up_when_the_time_given_is_over(
    line: str, silent: str, kcli: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kcli.commands.shared.session.LEAST_CONNECTING_MS", 100)
    finished = kcli(*line.split(), "-b", silent)
    assert finished == Finished(1, "", f"error: {silent} did not answer within 0.15 s\n{HINT}")


@pytest.mark.parametrize(
    ("timeout_ms", "expected"), [(None, None), (0, 5000), (200, 5000), (5000, 5000), (9000, 9000)]
)
def test_a_short_wait_is_not_that_for_connecting(timeout_ms: int | None, expected: int | None) -> None:
    assert connecting_ms(timeout_ms) == expected
