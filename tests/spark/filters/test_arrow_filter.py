"""Predicates: conditions as Arrow expressions, null being unknown as in SQL."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from kcli.errors import UsageError
from kcli.spark.filters.arrow_filter import expression_of, filter_rows
from kcli.spark.filters.where import parse_where

MOMENTS = [datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3, 4)]
ROWS = pa.record_batch(
    {
        "key": pa.array([b"a", None, b"ab", b"\xff"], pa.binary()),
        "value": pa.array(
            [{"id": 1, "name": "x"}, {"id": None, "name": None}, None, {"id": 3, "name": "xy"}],
            pa.struct([("id", pa.int64()), ("name", pa.string())]),
        ),
        "offset": pa.array([10, 11, 12, 13], pa.int64()),
        "timestamp": pa.array(MOMENTS, pa.timestamp("us", "UTC")),
        "flag": pa.array([True, False, None, True]),
        "price": pa.array([1.5, 2.5, None, float("nan")]),
    }
)


@pytest.mark.parametrize(
    ("where", "offsets"),
    [
        ("offset = 11", [11]),
        ("offset != 11", [10, 12, 13]),
        ("offset < 12 and offset >= 11", [11]),
        ("offset > 1e9", []),
        ("offset <= 11.5", [10, 11]),
        ("12 < offset", [13]),
        ("offset between 11 and 12", [11, 12]),
        ("offset in (10, 13, 99)", [10, 13]),
        ("offset not in (10, 13)", [11, 12]),
        ("key = 'a'", [10]),
        ("key like 'a%'", [10, 12]),
        ("key is null", [11]),
        ("key is not null", [10, 12, 13]),
        ("key != 'a'", [12, 13]),
        ("key not in ('a', 'b')", [12, 13]),
        ("value.id = 1", [10]),
        ("value.id not in (1)", [13]),
        ("value.id is null", [11, 12]),
        ("value is null", [12]),
        ("value.name like 'x%'", [10, 13]),
        ("startswith(value.name, 'xy')", [13]),
        ("timestamp >= '2024-01-03'", [12, 13]),
        ("timestamp < timestamp '2024-01-02 00:00:00'", [10]),
        ("flag = true", [10, 13]),
        ("price > 2", [11, 13]),
        ("price >= 1.5", [10, 11, 13]),
        ("price < 2", [10]),
    ],
)
def test_rows_for_which_the_filter_is_true_are_kept(where: str, offsets: list[int]) -> None:
    expression = expression_of(parse_where(where), ROWS.schema)
    kept = filter_rows(ROWS, expression)
    assert kept.column("offset").to_pylist() == offsets
    assert kept.schema == ROWS.schema


def test_no_filter_is_no_expression() -> None:
    assert expression_of((), ROWS.schema) is None


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("valu.id = 1", "no such column: valu"),
        ("value.nope = 1", "no such column: value.nope"),
        ("offset.x = 1", "no such column: offset.x"),
        ("offset = 'x'", "offset"),
        ("flag = 1", "flag"),
        ("value.name = 5", "value.name"),
        ("offset like 'a%'", "not a column of text: offset"),
        ("key = 5", "key"),
        ("length(key) = 1", "only Spark"),
    ],
)
def test_filters_that_cannot_be_are_refused(where: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        expression_of(parse_where(where), ROWS.schema)
