"""Avro values: one datum each, of a schema that is given, or framed as Confluent's serializers do.

    0  1  zero
    1  4  id of the writer's schema in the registry, big-endian
    5  …  the datum

Whatever a record was written with is read as one schema, the reader's: that of the subject's latest version
when the export was planned. `registry:URL` names a registry; `registry:URL SCHEMA` is that with the reader's
schema pinned, so that all tasks mean the same.
"""

from __future__ import annotations

import json
from io import BytesIO
from struct import Struct
from struct import error as StructError
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kcli.errors import KcliError, UsageError, install_hint
from kcli.spark.columns.avro_schema import avro_type
from kcli.spark.columns.schema_registry import REGISTRY, SchemaRegistry, UnknownSchema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
"""What fastavro raises for bytes that are not of a schema."""


class AvroValues:
    """Values of one reader's schema."""

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
        """Return the data, and why rows are bad, which are null then."""
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
        """Return the schema with that id; `UnknownSchema` makes a value bad, anything else ends the task."""
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
    """Return a registry's address with the reader's schema of the topics' keys or values; `side` says which.

    Anything else comes back as it is. Raises `KcliError` if the registry has none, `UsageError` if the topics
    have different ones.
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
    """Return a schema as fastavro takes it, and those in it that have names; raises `UsageError`."""
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
