"""Schemas of JSON values as Spark writes them: DDL, or the JSON of a `StructType`.

    id BIGINT NOT NULL, name STRING COMMENT 'as entered', tags ARRAY<STRING>, place STRUCT<x: DOUBLE>

`NOT NULL` and comments are parsed and ignored: every field may be null.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import pyarrow as pa

from kcli.errors import UsageError

_SIMPLE = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "tinyint": pa.int8(),
    "short": pa.int16(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ltz": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMALS = ("decimal", "dec", "numeric")
_TEXTS = ("varchar", "char")
_TOKEN = re.compile(
    r"\s*(?:(`(?:[^`]|``)+`)|('(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")|(\w+)|([<>(),:]))"
)
_LARGEST_PRECISION = 38


def parse_schema(text: str) -> pa.StructType:
    """Return the type of values with that schema; raises `UsageError`."""
    if text.lstrip().startswith("{"):
        try:
            made = _of_json(json.loads(text))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"not a schema in Spark's JSON form: {error}") from error
    else:
        made = _Ddl(text).schema()
    if not pa.types.is_struct(made) or not made.num_fields:
        raise UsageError("a schema needs fields", hint="as in: id BIGINT, name STRING")
    return made


def _of_json(given: Any) -> pa.DataType:  # noqa: ANN401  # JSON
    if isinstance(given, str):
        return _Ddl(given).only_type()
    match given["type"]:
        case "struct":
            return pa.struct([pa.field(one["name"], _of_json(one["type"])) for one in given["fields"]])
        case "array":
            return pa.list_(_of_json(given["elementType"]))
        case "map":
            return pa.map_(_of_json(given["keyType"]), _of_json(given["valueType"]))
    raise UsageError(f"a type that is not supported: {given['type']}")


class _Ddl:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = []
        at = 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if match is None:
                self.refuse(text[at:].strip()[:20])
            self.tokens.append(match.group().strip())
            at = match.end()
        self.next = 0

    def refuse(self, at: str) -> NoReturn:
        where = f"near `{at}`" if at else "at its end"
        raise UsageError(f"not a schema, {where}: {self.text}", hint="as in: id BIGINT, name STRING")

    def peek(self) -> str:
        return self.tokens[self.next].lower() if self.next < len(self.tokens) else ""

    def take(self, *expected: str) -> str:
        token = self.peek()
        if not token or (expected and token not in expected):
            self.refuse(token)
        self.next += 1
        return self.tokens[self.next - 1]

    def schema(self) -> pa.DataType:
        if self.peek() == "struct" and self.tokens[1:2] == ["<"]:
            return self.only_type()
        return pa.struct(self.fields(end=""))

    def only_type(self) -> pa.DataType:
        made = self.type()
        if self.peek():
            self.refuse(self.peek())
        return made

    def fields(self, *, end: str) -> list[pa.Field]:
        found: list[pa.Field] = []
        while self.peek() != end:
            if found:
                self.take(",")
            found.append(self.field())
        names = [field.name for field in found]
        if len(set(names)) < len(names):
            raise UsageError(f"a schema with two fields of one name: {self.text}")
        return found

    def field(self) -> pa.Field:
        name = self.take()
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        elif not re.fullmatch(r"\w+", name):
            self.refuse(name)
        if self.peek() == ":":
            self.take()
        type_ = self.type()
        if self.peek() == "not":
            self.take()
            self.take("null")
        if self.peek() == "comment":
            self.take()
            self.take()
        return pa.field(name, type_)

    def type(self) -> pa.DataType:
        name = self.take().lower()
        if name in _DECIMALS:
            return self.decimal()
        if name in _TEXTS:
            self.numbers(1)
            return pa.string()
        if name not in ("array", "map", "struct"):
            if name not in _SIMPLE:
                raise UsageError(f"a type that is not supported: {name}")
            return _SIMPLE[name]
        self.take("<")
        made: pa.DataType
        match name:
            case "array":
                made = pa.list_(self.type())
            case "map":
                key = self.type()
                self.take(",")
                made = pa.map_(key, self.type())
            case _:
                made = pa.struct(self.fields(end=">"))
        self.take(">")
        return made

    def decimal(self) -> pa.DataType:
        precision, scale = self.numbers(2) if self.peek() == "(" else (10, 0)
        if not (1 <= precision <= _LARGEST_PRECISION and scale <= precision):
            raise UsageError(f"a decimal cannot have {precision} digits, {scale} of them a fraction")
        return pa.decimal128(precision, scale)

    def numbers(self, most: int) -> tuple[int, int]:
        """Return one or two numbers in brackets, 0 for a missing one."""
        self.take("(")
        found = [self.number()]
        if most > 1 and self.peek() == ",":
            self.take()
            found.append(self.number())
        self.take(")")
        return found[0], found[1] if len(found) > 1 else 0

    def number(self) -> int:
        token = self.take()
        if not token.isdecimal():
            self.refuse(token)
        return int(token)
