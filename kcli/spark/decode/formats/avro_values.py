"""Avro values: one datum per value, of a given schema or framed as Confluent's serializers do.

    0  1  zero
    1  4  id of the writer's schema in the registry, big-endian
    5  …  the datum

All records are read with one schema, the reader's: that of the subject's latest version when the export was
planned. `registry:URL` names a registry; `registry:URL SCHEMA` pins the reader's schema too, so that all
tasks decode alike.

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

Other unions, and recursive records, have no Arrow type.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from struct import Struct
from struct import error as StructError
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from kcli.errors import KcliError, UsageError, install_hint
from kcli.spark.decode.formats.schema_registry import REGISTRY, SchemaRegistry, UnknownSchema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
    """An Arrow type, and what turns a datum into Arrow's input; None if it needs no conversion."""

    type: pa.DataType
    convert: Convert | None = None


def avro_type(schema: Schema, named: dict[str, Schema], inside: frozenset[str] = frozenset()) -> AvroType:
    """Return the type of a parsed schema; `named` holds the named schemas. Raises `UsageError`."""
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
    others = [one for one in schema if (one["type"] if isinstance(one, dict) else one) != "null"]
    if len(others) == 1:
        only = avro_type(others[0], named, inside)
        return AvroType(only.type, None if only.convert is None else _or_null(only.convert))
    wider = _WIDER.get(frozenset(one for one in others if isinstance(one, str)))
    if wider is None or len(others) != 2:
        raise UsageError(f"an Avro union of more than null and one type: {others}")
    return AvroType(_PRIMITIVES[wider], _or_null(int if wider == "long" else float))


def _decimal(schema: Schema) -> AvroType:
    precision, scale = schema["precision"], schema.get("scale", 0)
    if not 0 < precision <= _MOST_DIGITS:
        raise UsageError(f"an Avro decimal of {precision} digits; at most {_MOST_DIGITS}")
    return AvroType(pa.decimal128(precision, scale))


def _or_null(convert: Convert) -> Convert:
    return lambda datum: None if datum is None else convert(datum)


def _of_list(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda datum: [convert(one) for one in datum]


def _of_map(convert: Convert | None) -> Convert:
    if convert is None:
        return lambda datum: list(datum.items())
    return lambda datum: [(key, convert(value)) for key, value in datum.items()]


_FRAME = Struct(">bi")
_BAD_DATA = (
    EOFError,
    ValueError,
    IndexError,
    KeyError,
    TypeError,
    ArithmeticError,
    StructError,
    UnknownSchema,
)
"""What fastavro raises for bytes that do not match a schema."""


class AvroValues:
    def __init__(self, given: str) -> None:
        address, _, schema = given.removeprefix(REGISTRY).partition(" ")
        self._registry = SchemaRegistry(address) if given.startswith(REGISTRY) else None
        text = given if self._registry is None else schema
        if not text:
            raise UsageError(
                "the reader's Avro schema is not known", hint="it is pinned when an export is planned"
            )
        fastavro = _fastavro()
        self._read = fastavro.schemaless_reader
        self._bad_data = (*_BAD_DATA, fastavro.SchemaResolutionError)
        self._reader, named = parse_avro(text)
        found = avro_type(self._reader, named)
        self.type = found.type
        self._convert = found.convert
        self._writers: dict[int, Any] = {}

    def decode(self, column: pa.Array) -> tuple[pa.Array, Mapping[int, str]]:
        values: list[Any] = []
        bad: dict[int, str] = {}
        for row, raw in enumerate(column.to_pylist()):
            datum = None
            if raw is not None:
                try:
                    datum = self._datum(raw)
                except self._bad_data as error:
                    bad[row] = f"not of the schema: {type(error).__name__}: {error}".partition("\n")[0]
            values.append(datum)
        try:
            return pa.array(values, self.type), bad
        except (pa.ArrowException, OverflowError):
            return self._one_by_one(values, bad), bad

    def _one_by_one(self, values: list[Any], bad: dict[int, str]) -> pa.Array:
        """Find the data that no Arrow value can hold, such as a decimal with too many digits."""
        for row, datum in enumerate(values):
            try:
                pa.scalar(datum, self.type)
            except (pa.ArrowException, OverflowError) as error:
                bad[row] = f"out of range: {error}".partition("\n")[0]
                values[row] = None
        return pa.array(values, self.type)

    def _datum(self, raw: bytes) -> Any:  # noqa: ANN401
        stream = BytesIO(raw)
        writer = self._reader
        if self._registry is not None:
            if len(raw) < _FRAME.size or raw[0]:
                raise ValueError("no schema id in front of it")
            writer = self._writer(_FRAME.unpack(stream.read(_FRAME.size))[1])
        datum = self._read(stream, writer, self._reader)
        if stream.tell() != len(raw):
            raise ValueError(f"{len(raw) - stream.tell()} bytes too many")
        return datum if self._convert is None else self._convert(datum)

    def _writer(self, number: int) -> Any:  # noqa: ANN401
        """Return the schema with that id; `UnknownSchema` makes a value bad, other errors end the task."""
        writer = self._writers.get(number)
        if writer is None:
            assert self._registry is not None
            try:
                writer = parse_avro(self._registry.schema(number))[0]
            except UnknownSchema as error:
                writer = error
            self._writers[number] = writer
        if isinstance(writer, UnknownSchema):
            raise writer
        return writer


def pin_schema(given: str, topics: Iterable[str], side: str) -> str:
    """Return `registry:URL` with the latest schema of the topics' keys or values; `side` says which.

    Anything else is returned unchanged. Raises `KcliError` if the registry has no schema, `UsageError` if the
    topics have different ones.
    """
    if not given.startswith(REGISTRY) or " " in given:
        return given
    registry = SchemaRegistry(given.removeprefix(REGISTRY))
    schemas = {topic: registry.latest(f"{topic}-{side}") for topic in topics}
    found = {json.dumps(json.loads(schema)) for schema in schemas.values()}
    if len(found) != 1:
        raise UsageError(f"no single Avro schema for the {side} of {', '.join(sorted(schemas))}")
    return f"{given} {found.pop()}"


def parse_avro(text: str) -> tuple[Any, dict[str, Any]]:
    """Return a schema as fastavro takes it, and its named schemas; raises `UsageError`."""
    fastavro = _fastavro()
    named: dict[str, Any] = {}
    try:
        parsed = fastavro.parse_schema(json.loads(text), named)
    except (ValueError, KeyError, TypeError, fastavro.SchemaParseException) as error:
        raise UsageError(f"not an Avro schema: {type(error).__name__}: {error}") from error
    return parsed, named


def _fastavro() -> Any:  # noqa: ANN401
    try:
        import fastavro
        from fastavro.read import SchemaResolutionError
        from fastavro.schema import SchemaParseException
    except ImportError as error:
        raise KcliError("Avro needs fastavro", hint=install_hint("avro")) from error
    return SimpleNamespace(
        schemaless_reader=fastavro.schemaless_reader,
        parse_schema=fastavro.parse_schema,
        SchemaResolutionError=SchemaResolutionError,
        SchemaParseException=SchemaParseException,
    )
