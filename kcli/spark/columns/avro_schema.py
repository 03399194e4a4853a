"""Avro schemas: what Arrow type their data have, and how a datum becomes what Arrow takes for it.

| Avro | Arrow |
|---|---|
| record | struct |
| array, map | list, map of string to … |
| enum, string, uuid | string |
| bytes, fixed | binary |
| union of null and one other | the other |
| union of int and long, of float and double | long, double |
| decimal, date, time-* | decimal128, date32, time64 |
| timestamp-*, local-timestamp-* | timestamp in UTC, timestamp without a zone |

Other unions, and records that contain themselves, have no such type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from kcli.errors import UsageError

Convert: TypeAlias = Callable[[Any], Any]
Schema: TypeAlias = Any

_PRIMITIVES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "null": pa.null(),
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time64("us"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("us", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
_WIDER = {frozenset(("int", "long")): "long", frozenset(("float", "double")): "double"}
_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True)
class AvroType:
    """An Arrow type, and what turns a datum into what Arrow takes; None where that is the datum itself."""

    type: pa.DataType
    convert: Convert | None = None


def avro_type(schema: Schema, named: dict[str, Schema], inside: frozenset[str] = frozenset()) -> AvroType:
    """Return the type of a parsed schema; `named` holds the schemas that have names. Raises `UsageError`."""
    if isinstance(schema, list):
        return _union(schema, named, inside)
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return AvroType(_PRIMITIVES[schema])
        return avro_type(named[schema], named, inside)
    kind = schema["type"]
    if isinstance(kind, dict | list):
        return avro_type(kind, named, inside)
    logical = schema.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        return _decimal(schema)
    if (kind, logical) in _LOGICAL:
        return AvroType(_LOGICAL[kind, logical])
    if logical == "uuid":
        return AvroType(pa.string(), str)
    match kind:
        case "record" | "error":
            return _record(schema, named, inside)
        case "array":
            items = avro_type(schema["items"], named, inside)
            return AvroType(pa.list_(items.type), _of_list(items.convert))
        case "map":
            values = avro_type(schema["values"], named, inside)
            return AvroType(pa.map_(pa.string(), values.type), _of_map(values.convert))
        case "enum":
            return AvroType(pa.string())
        case "fixed":
            return AvroType(pa.binary())
    return avro_type(kind, named, inside)


def _record(schema: Schema, named: dict[str, Schema], inside: frozenset[str]) -> AvroType:
    name = schema["name"]
    if name in inside:
        raise UsageError(f"an Avro record that contains itself: {name}")
    fields = {one["name"]: avro_type(one["type"], named, inside | {name}) for one in schema["fields"]}
    type_ = pa.struct([pa.field(field, one.type) for field, one in fields.items()])
    converts = {field: one.convert for field, one in fields.items() if one.convert is not None}
    if not converts:
        return AvroType(type_)

    def convert(datum: dict[str, Any]) -> dict[str, Any]:
        return datum | {field: change(datum[field]) for field, change in converts.items()}

    return AvroType(type_, convert)


def _union(schema: list[Schema], named: dict[str, Schema], inside: frozenset[str]) -> AvroType:
    others = [one for one in schema if _kind(one) != "null"]
    if len(others) == 1:
        only = avro_type(others[0], named, inside)
        return AvroType(only.type, None if only.convert is None else _or_null(only.convert))
    wider = _WIDER.get(frozenset(one for one in others if isinstance(one, str)))
    if wider is None or len(others) != 2:
        raise UsageError(f"an Avro union of more than null and one type: {others}")
    change = int if wider == "long" else float
    return AvroType(_PRIMITIVES[wider], _or_null(change))


def _kind(schema: Schema) -> Any:  # noqa: ANN401
    return schema["type"] if isinstance(schema, dict) else schema


def _decimal(schema: Schema) -> AvroType:
    precision, scale = schema["precision"], schema.get("scale", 0)
    if not 0 < precision <= _MOST_DIGITS:
        raise UsageError(f"an Avro decimal of {precision} digits; there is room for {_MOST_DIGITS}")
    return AvroType(pa.decimal128(precision, scale))


def _or_null(convert: Convert) -> Convert:
    return lambda datum: None if datum is None else convert(datum)


def _of_list(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda datum: [convert(one) for one in datum]


def _of_map(convert: Convert | None) -> Convert:
    if convert is None:
        return lambda datum: list(datum.items())
    return lambda datum: [(key, convert(value)) for key, value in datum.items()]
