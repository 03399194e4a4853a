"""ConnectionQuotas: every connection counts once."""

from __future__ import annotations

import pytest

from kcli.broker.network.socket_server import ConnectionQuotas, parse_overrides
from kcli.errors import UsageError


def test_an_address_has_its_limit_and_gets_a_place_back() -> None:
    quotas = ConnectionQuotas(max_connections_per_ip=2, overrides={"10.0.0.9": 0})
    assert [quotas.take("10.0.0.1") for _ in range(3)] == [True, True, False]
    assert quotas.take("10.0.0.2")
    assert not quotas.take("10.0.0.9")
    assert (quotas.count("10.0.0.1"), quotas.count("10.0.0.9"), quotas.total) == (2, 0, 3)
    quotas.give_back("10.0.0.1")
    assert quotas.take("10.0.0.1")
    assert not quotas.is_over


def test_the_total_is_exceeded_not_refused() -> None:
    quotas = ConnectionQuotas(max_connections=1)
    assert quotas.take("a")
    assert not quotas.is_over
    assert quotas.take("b")
    assert quotas.is_over
    quotas.give_back("a")
    assert not quotas.is_over


def test_a_connection_is_given_back_once() -> None:
    quotas = ConnectionQuotas()
    quotas.take("a")
    quotas.give_back("a")
    with pytest.raises(ValueError, match="no connection"):
        quotas.give_back("a")
    assert quotas.total == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", {}), ("127.0.0.1:5", {"127.0.0.1": 5}), ("10.0.0.1:5, ::1:100", {"10.0.0.1": 5, "::1": 100})],
)
def test_overrides_are_read(text: str, expected: dict[str, int]) -> None:
    assert parse_overrides(text) == expected


@pytest.mark.parametrize("text", ["127.0.0.1", "127.0.0.1:x", ":5", "127.0.0.1:-1"])
def test_a_bad_override_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"max\.connections\.per\.ip\.overrides"):
        parse_overrides(text)
