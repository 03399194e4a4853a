"""Conditions taken apart at their ANDs."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.errors import UsageError
from kcli.spark.filters.where import (
    Comparison,
    Condition,
    In,
    IsNull,
    Opaque,
    StartsWith,
    is_evaluable,
    parse_where,
    sql_of,
)

MAY_DAY = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("offset = 5", [Comparison(("offset",), "=", 5)]),
        ("OFFSET==5", [Comparison(("offset",), "=", 5)]),
        ("offset <=> -5", [Comparison(("offset",), "=", -5)]),
        ("5 < offset", [Comparison(("offset",), ">", 5)]),
        ("value <> 1.5", [Comparison(("value",), "!=", 1.5)]),
        ("ok = true", [Comparison(("ok",), "=", True)]),
        ("value.user.`odd name` = 'it''s'", [Comparison(("value", "user", "odd name"), "=", "it's")]),
        ("timestamp >= '2026-05-01'", [Comparison(("timestamp",), ">=", MAY_DAY)]),
        ("timestamp >= 1777593600000", [Comparison(("timestamp",), ">=", MAY_DAY)]),
        ("TIMESTAMP '2026-05-01T02:00+02:00' <= `timestamp`", [Comparison(("timestamp",), ">=", MAY_DAY)]),
        ("made = TIMESTAMP '2026-05-01'", [Comparison(("made",), "=", MAY_DAY)]),
        ("offset between 3 and 7 and x = 1",
         [Comparison(("offset",), ">=", 3), Comparison(("offset",), "<=", 7), Comparison(("x",), "=", 1)]),
        ("topic in ('a', 'b')", [In(("topic",), ("a", "b"))]),
        ("partition NOT IN (1)", [In(("partition",), (1,), negated=True)]),
        ("key is null and headers IS NOT NULL", [IsNull(("key",)), IsNull(("headers",), negated=True)]),
        ("value like 'ab%'", [StartsWith(("value",), "ab")]),
        ("startswith(value, 'ab')", [StartsWith(("value",), "ab")]),
        ("((a = 1) and (b = 2))", [Comparison(("a",), "=", 1), Comparison(("b",), "=", 2)]),
        ("a = 1 or b = 2", [Opaque("a = 1 or b = 2")]),
        ("c = 3 and (a = 1 or b = 2)", [Comparison(("c",), "=", 3), Opaque("a = 1 or b = 2")]),
        ("not offset = 5", [Opaque("not offset = 5")]),
        ("offset + 1 > 5", [Opaque("offset + 1 > 5")]),
        ("a = b", [Opaque("a = b")]),
        ("a = null", [Opaque("a = null")]),
        ("a in (b)", [Opaque("a in (b)")]),
        ("value like '%ab%'", [Opaque("value like '%ab%'")]),
        ("upper(a) = 'A' and offset > 2", [Opaque("upper(a) = 'A'"), Comparison(("offset",), ">", 2)]),
        ("a = 'x and y'", [Comparison(("a",), "=", "x and y")]),
        ("value:field::int > 3", [Opaque("value:field::int > 3")]),
    ],
)  # fmt: skip
def test_conditions_come_apart(text: str, expected: list[Condition]) -> None:
    assert list(parse_where(text)) == expected
    assert is_evaluable(parse_where(text)) == (not any(isinstance(one, Opaque) for one in expected))


@pytest.mark.parametrize("text", ["", "  ", "a = 'x", "(a = 1", "a = 1)", "a = 1 and", "and a = 1", "`a = 1"])
def test_what_is_not_closed_or_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="invalid filter"):
        parse_where(text)


@pytest.mark.parametrize("text", ["timestamp > 'noon'", "timestamp > 99999999999999999999"])
def test_times_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_where(text)


names = st.lists(
    st.text("ab_c1é ", min_size=1).filter(lambda name: name.strip()), min_size=1, max_size=3
).map(tuple)
literals = st.one_of(
    st.integers(-(2**63), 2**63),
    st.booleans(),
    st.text(st.characters(exclude_characters="\\", exclude_categories=["Cs"])),
    st.datetimes(timezones=st.just(UTC), min_value=datetime(1900, 1, 1)),
)
conditions = st.one_of(
    st.builds(Comparison, names, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), literals),
    st.builds(In, names, st.lists(literals, min_size=1).map(tuple), st.booleans()),
    st.builds(IsNull, names, st.booleans()),
)


@given(st.lists(conditions, min_size=1, max_size=4))
def test_what_is_written_as_sql_is_read_again(written: list[Condition]) -> None:
    # Spark doubles no quotes, it escapes them; texts without quotes read the same both ways.
    text = " AND ".join(sql_of(one).replace("\\'", "''") for one in written)
    assert list(parse_where(text)) == written


@given(st.text("ab'`() =<>,.1-andorinlike%\n", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(UsageError):
        assert parse_where(text)
