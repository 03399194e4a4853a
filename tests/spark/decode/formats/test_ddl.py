"""Schemas: Spark's DDL and its JSON form."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from kcli.errors import UsageError
from kcli.spark.decode.formats.ddl import parse_schema


def struct(**fields: pa.DataType) -> pa.DataType:
    return pa.struct(list(fields.items()))


UTC = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id BIGINT, name STRING", struct(id=pa.int64(), name=pa.string())),
        ("a tinyint,b smallint,c int,d long", struct(a=pa.int8(), b=pa.int16(), c=pa.int32(), d=pa.int64())),
        ("a FLOAT, b double", struct(a=pa.float32(), b=pa.float64())),
        ("a boolean, b binary, c date", struct(a=pa.bool_(), b=pa.binary(), c=pa.date32())),
        ("a timestamp, b TIMESTAMP_NTZ", struct(a=UTC, b=pa.timestamp("us"))),
        ("a decimal, b DECIMAL(5), c dec(38,10)",
         struct(a=pa.decimal128(10, 0), b=pa.decimal128(5, 0), c=pa.decimal128(38, 10))),
        ("a varchar(10), b char(3)", struct(a=pa.string(), b=pa.string())),
        ("a INT NOT NULL COMMENT 'it''s', b: int comment \"x, y\"", struct(a=pa.int32(), b=pa.int32())),
        ("`two words` int, `a``b` int", pa.struct([("two words", pa.int32()), ("a`b", pa.int32())])),
        ("a array<map<string, struct<x: int, y int>>>",
         struct(a=pa.list_(pa.map_(pa.string(), struct(x=pa.int32(), y=pa.int32()))))),
        ("STRUCT<a: INT>", struct(a=pa.int32())),
        ("struct int", struct(struct=pa.int32())),
        (json.dumps({"type": "struct", "fields": [
            {"name": "a", "type": "long", "nullable": True, "metadata": {}},
            {"name": "b", "type": {"type": "array", "elementType": "decimal(4,2)", "containsNull": True}},
            {"name": "c", "type": {"type": "map", "keyType": "string", "valueType": "date"}},
        ]}), struct(a=pa.int64(), b=pa.list_(pa.decimal128(4, 2)), c=pa.map_(pa.string(), pa.date32()))),
    ],
)  # fmt: skip
def test_schemas_become_types(text: str, expected: pa.DataType) -> None:
    assert parse_schema(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "  ", "id", "id BIGINT name STRING", "id UUID", "id INT,", ", id INT", "a array<int"),
        *("a array int", "a int, a long", "a map<string>", "a decimal(50)", "a decimal(3,5)", "a decimal(x)"),
        *("a struct<>; drop", "a interval", "a 'int'", "(a int)", "{", "[1]", "a int not"),
        *('{"type": "struct"}', '{"type": "long"}', '{"type":"struct","fields":[]}'),
        '{"type": "struct", "fields": [{"name": "a", "type": "money"}]}',
    ],
)
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_schema(text)
