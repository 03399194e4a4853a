"""Words for people: numbers of things, and lists of a few."""

from __future__ import annotations

import pytest

from kcli.commands.shared.formatting import counted, listed


@pytest.mark.parametrize(
    ("count", "noun", "shown"),
    [
        (0, "byte", "0 bytes"),
        (1, "batch", "1 batch"),
        (2, "batch", "2 batches"),
        (3, "entry", "3 entries"),
        (4, "key", "4 keys"),
        (2000, "row", "2,000 rows"),
    ],
)
def test_things_are_counted(count: int, noun: str, shown: str) -> None:
    assert counted(count, noun) == shown


def test_a_noun_may_come_with_its_plural() -> None:
    shown = [counted(count, "key or value", "keys and values") for count in (1, 2)]
    assert shown == ["1 key or value", "2 keys and values"]


def test_of_a_long_list_the_rest_is_counted() -> None:
    assert [listed("abcdefg"[:size], most=3) for size in (1, 2, 3, 4)] == [
        "a",
        "a and b",
        "a, b and c",
        "a, b, c and 1 more",
    ]
