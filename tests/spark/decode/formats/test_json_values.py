"""JSON values: all at once where they are good, and each for itself where some are not."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.spark.decode.formats.json_values import JsonValues

SCHEMA = "id BIGINT, name STRING, tags ARRAY<STRING>"
GOOD = b'{"id": 1, "name": "a", "tags": ["x", null], "more": {"y": 2}}'
TRICKS = [
    b'{"id": 1}{"id": 2}',
    b'{"id": 1}\n{"id": 2}',
    b'{"id":',
    b"1}",
    b"",
    b" ",
    b"}",
    b'{"id": 1}},{"value": {"id": 2}',
    b'{"id": 1}}\n{"value":{"id": 2}',
    b'{"name": "',
    b'"}',
    b"[",
    b"]",
    b"{",
    b"\xff",
    b'{"name": "\xff"}',
    b"null",
    b"5",
    b'{"id": "1"}',
    b'{"id": 1, "id": 2}',
    b'{"id": 99999999999999999999}',
    b"{}",
    b'{\n  "id": 7\n}',
    b"/* {} */",
    b"\x00",
    b'{"id": 1}\x00',
    b"[" * 100_000,
]


def decode(schema: str, *values: bytes | None) -> tuple[list[object], dict[int, str]]:
    made = JsonValues(schema)
    column, bad = made.decode(pa.array(values, pa.binary()))
    column.validate(full=True)
    assert column.type == made.type
    return column.to_pylist(), dict(bad)


def test_values_become_structs() -> None:
    found, bad = decode(SCHEMA, GOOD, None, b"{}", b"null", b' {"id": 2}\n')
    nothing = {"id": None, "name": None, "tags": None}
    assert found == [
        {"id": 1, "name": "a", "tags": ["x", None]},
        None,
        nothing,
        None,
        {**nothing, "id": 2},
    ]
    assert bad == {}


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        ("date", '"2024-02-29"', date(2024, 2, 29)),
        ("timestamp", '"2024-01-02T03:04:05.678Z"', datetime(2024, 1, 2, 3, 4, 5, 678000, UTC)),
        ("timestamp", '"2024-01-02T03:04:05+02:00"', datetime(2024, 1, 2, 1, 4, 5, 0, UTC)),
        ("timestamp_ntz", '"2024-01-02T03:04:05"', datetime(2024, 1, 2, 3, 4, 5)),
        ("decimal(10,2)", "1.25", Decimal("1.25")),
        ("double", "1", 1.0),
        ("boolean", "true", True),
        ("tinyint", "-128", -128),
        ("array<struct<a: date>>", '[{"a": "2024-01-01"}, null]', [{"a": date(2024, 1, 1)}, None]),
        ("map<string,int>", '{"a": 1, "b": null}', [("a", 1), ("b", None)]),
        ("map<int,array<double>>", '{"1": [1.5, 2]}', [(1, [1.5, 2.0])]),
        ("binary", '"aGk="', b"hi"),
        ("struct<m: map<string,date>, d: decimal(3,1), t: timestamp, b: boolean>",
         '{"m": {"x": "2024-01-01"}, "d": 1.5, "t": "2024-01-01T00:00:00", "b": false}',
         {"m": [("x", date(2024, 1, 1))], "d": Decimal("1.5"), "t": datetime(2024, 1, 1, tzinfo=UTC),
          "b": False}),
    ],
)  # fmt: skip
def test_types_are_read(type_: str, text: str, expected: object) -> None:
    value = json.dumps({"v": 0}).replace("0", text).encode()
    found, bad = decode(f"v {type_}", value, b'{"v": null}')
    assert bad == {}
    assert found == [{"v": expected}, {"v": None}]


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("date", '"tomorrow"'),
        ("date", "5"),
        ("tinyint", "128"),
        ("bigint", "1.5"),
        ("bigint", "true"),
        ("boolean", "1"),
        ("string", "1"),
        ("decimal(3,1)", "1.25"),
        ("map<string,int>", '{"a": "x"}'),
        ("map<string,int>", '{"a": 3000000000}'),
        ("map<string,int>", '[["a", 1]]'),
        ("map<int,int>", '{"a": 1}'),
        ("binary", '"*"'),
        ("binary", "5"),
    ],
)
def test_values_of_other_types_are_bad(type_: str, text: str) -> None:
    found, bad = decode(f"v {type_}", b'{"v": null}', f'{{"v": {text}}}'.encode(), b"{}")
    assert found == [{"v": None}, None, {"v": None}]
    assert list(bad) == [1]


@pytest.mark.parametrize("schema", [SCHEMA, f"{SCHEMA}, m MAP<STRING, INT>"])
def test_reasons_say_whether_a_value_is_json_at_all(schema: str) -> None:
    _, bad = decode(schema, b"{", b'{"id": "1"}')
    assert bad[0].startswith("not JSON" if schema == SCHEMA else "not ")
    assert bad[1].startswith("not of the schema")


@given(st.lists(st.sampled_from([GOOD, None, *TRICKS]), max_size=12))
def test_no_value_changes_what_the_others_are(values: list[bytes | None]) -> None:
    found, bad = decode(SCHEMA, *values)
    for row, value in enumerate(values):
        alone, why = decode(SCHEMA, value)
        assert alone == [found[row]]
        assert bool(why) == (row in bad)


def test_a_bad_value_among_many_is_found() -> None:
    values = [b'{"id": %d}' % number for number in range(5000)]
    values[1234] = b'{"id": "x"}'
    values[4321] = b"?"
    found, bad = decode(SCHEMA, *values)
    assert sorted(bad) == [1234, 4321]
    assert sum(one is None for one in found) == 2
    assert found[4999] == {"id": 4999, "name": None, "tags": None}
