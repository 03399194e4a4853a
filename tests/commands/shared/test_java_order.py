"""The order in which maps of Java list their keys."""

from __future__ import annotations

import pytest

from kcli.commands.shared.java import computed_map_order, hash_map_order

KEYS = list(range(0, 13 * 16, 16))
"""Thirteen numbers in one bucket of the smallest table; each is its own hash."""


def identity(number: int) -> int:
    return number


def test_keys_of_one_bucket_stay_in_order_or_come_in_front() -> None:
    assert hash_map_order(KEYS[:3], identity) == [0, 16, 32]
    assert computed_map_order(KEYS[:3], identity, asked_again=True) == [32, 16, 0]


@pytest.mark.parametrize("asked_again", [True, False])
def test_a_table_grows_when_it_is_asked_again(asked_again: bool) -> None:
    even, odd = KEYS[0::2][::-1], KEYS[1::2][::-1]
    expected = even + odd if asked_again else KEYS[::-1]
    assert computed_map_order(KEYS, identity, asked_again=asked_again) == expected
