"""JSON values as structs of a schema.

All values of a column are parsed in one step, each wrapped in its own object, so that a broken value cannot
be completed by the next one. If one fails, those that are no JSON are sorted out, and the rest is halved
until each value that does not fit stands alone.

Maps and bytes, which Arrow's reader does not know, are converted one by one; bytes are base64, as in Spark's
`from_json`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from kcli.spark.decode.formats.column_formats import Text
from kcli.spark.decode.formats.ddl import parse_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

Convert: TypeAlias = Callable[[Any], Any]


def is_plain_only(type_: pa.DataType) -> bool:
    """Whether a type contains one that Arrow's reader does not know."""
    if pa.types.is_map(type_) or pa.types.is_binary(type_):
        return True
    if pa.types.is_struct(type_):
        return any(is_plain_only(field.type) for field in type_)
    return pa.types.is_list(type_) and is_plain_only(type_.value_type)


def convert_plainly(
    type_: pa.DataType, values: list[bytes], rows: list[int], bad: dict[int, str]
) -> tuple[pa.Array, list[int]]:
    """Return the converted values and their rows; other rows are added to `bad`."""
    convert = _converter(type_)
    found: list[Any] = []
    good: list[int] = []
    for value, row in zip(values, rows, strict=True):
        try:
            one = convert(json.loads(value, parse_float=Decimal))
            # A value of the right kind may not fit either, such as a number that is too large.
            pa.scalar(one, type_)
        except RecursionError:
            bad[row] = "not JSON: too deep"
        except (ValueError, TypeError, ArithmeticError, pa.ArrowException) as error:
            bad[row] = f"not of the schema: {str(error).partition(chr(10))[0]}"
        else:
            found.append(one)
            good.append(row)
    return pa.array(found, type_), good


def _converter(type_: pa.DataType) -> Convert:
    """Return what converts parsed JSON to Arrow's input for the type; null becomes None."""
    convert = _converter_of_some(type_)
    return lambda given: None if given is None else convert(given)


def _converter_of_some(type_: pa.DataType) -> Convert:
    if pa.types.is_struct(type_):
        fields = {field.name: _converter(field.type) for field in type_}
        return lambda given: {name: convert(_is(given, dict).get(name)) for name, convert in fields.items()}
    if pa.types.is_list(type_):
        item = _converter(type_.value_type)
        return lambda given: [item(one) for one in _is(given, list)]
    if pa.types.is_map(type_):
        key, value = _from_text(type_.key_type), _converter(type_.item_type)
        return lambda given: [(key(name), value(one)) for name, one in _is(given, dict).items()]
    if pa.types.is_floating(type_):
        return lambda given: float(_is(given, int, Decimal, float))
    if pa.types.is_integer(type_):
        return lambda given: _is(given, int)
    if pa.types.is_boolean(type_):
        return lambda given: _is(given, bool)
    if pa.types.is_decimal(type_):
        return lambda given: Decimal(_is(given, int, Decimal, str))
    from_text = _from_text(type_)
    return lambda given: from_text(_is(given, str))


def _from_text(type_: pa.DataType) -> Convert:
    """Return what parses text, also the names in a JSON object, as values of the type."""
    if pa.types.is_integer(type_):
        return int
    if pa.types.is_floating(type_):
        return float
    if pa.types.is_decimal(type_):
        return Decimal
    if pa.types.is_binary(type_):
        return lambda given: base64.b64decode(given, validate=True)
    if pa.types.is_date(type_):
        return date.fromisoformat
    if pa.types.is_timestamp(type_):
        return _moment if type_.tz else datetime.fromisoformat
    return lambda given: given


def _moment(given: str) -> datetime:
    found = datetime.fromisoformat(given)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _is(given: Any, *kinds: type) -> Any:  # noqa: ANN401
    if not isinstance(given, kinds) or (isinstance(given, bool) and bool not in kinds):
        raise ValueError(f"{given!r} is not {' or '.join(kind.__name__ for kind in kinds)}")
    return given


_TEXT = Text()
_WRAPPER = "value"
_BEGIN, _END = b'{"value":', b"}"
_BETWEEN = _END + b"\n" + _BEGIN


class JsonValues:
    def __init__(self, schema: str) -> None:
        self.type = parse_schema(schema)
        self._plain_only = is_plain_only(self.type)
        # Types that Arrow's reader does not parse are read as text, and cast.
        self._read_as = _with_dates_as_text(self.type)
        self._options = pj.ParseOptions(
            explicit_schema=pa.schema([pa.field(_WRAPPER, self._read_as)]), unexpected_field_behavior="ignore"
        )

    def decode(self, column: pa.Array) -> tuple[pa.Array, Mapping[int, str]]:
        # The parser does not check the encoding of text.
        text, not_text = _TEXT.decode(column)
        bad = dict(not_text)
        rows = np.flatnonzero(text.is_valid().to_numpy(zero_copy_only=False))
        values = text.drop_null().cast(pa.binary()).to_pylist()
        parsed, good = self._parse(values, rows.tolist(), bad)
        if len(good) == len(column):
            return parsed, bad
        places = np.zeros(len(column), np.int64)
        places[good] = np.arange(len(good))
        is_missing = np.ones(len(column), bool)
        is_missing[good] = False
        return parsed.take(pa.array(places, mask=is_missing)), bad

    def _parse(self, values: list[bytes], rows: list[int], bad: dict[int, str]) -> tuple[pa.Array, list[int]]:
        """Return the parsed values and their rows; other rows are added to `bad`."""
        if self._plain_only:
            return convert_plainly(self.type, values, rows, bad)
        if not values:
            return pa.nulls(0, self.type), []
        try:
            return self._block(values), rows
        except pa.ArrowInvalid:
            kept = [at for at, value in enumerate(values) if _is_json(value, rows[at], bad)]
        parts: list[tuple[pa.Array, list[int]]] = []
        self._halve([values[at] for at in kept], [rows[at] for at in kept], bad, parts)
        parsed = pa.concat_arrays([pa.nulls(0, self.type), *(array for array, _ in parts)])
        return parsed, [row for _, part in parts for row in part]

    def _halve(
        self,
        values: list[bytes],
        rows: list[int],
        bad: dict[int, str],
        parts: list[tuple[pa.Array, list[int]]],
    ) -> None:
        if not values:
            return
        try:
            parts.append((self._block(values), rows))
        except pa.ArrowInvalid as error:
            if len(values) == 1:
                bad[rows[0]] = f"not of the schema: {_first_line(error)}"
                return
            half = len(values) // 2
            self._halve(values[:half], rows[:half], bad, parts)
            self._halve(values[half:], rows[half:], bad, parts)

    def _block(self, values: list[bytes]) -> pa.Array:
        """Return the structs of good values; raises `ArrowInvalid`."""
        joined = b"".join((_BEGIN, _BETWEEN.join(values), _END))
        table = pj.read_json(
            pa.BufferReader(joined),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(joined) + 1),
            parse_options=self._options,
        )
        if table.num_rows != len(values):
            raise pa.ArrowInvalid("more values in one, or none")
        parsed = table.column(_WRAPPER).combine_chunks()
        return parsed if self._read_as == self.type else pc.cast(parsed, self.type)


def _is_json(value: bytes, row: int, bad: dict[int, str]) -> bool:
    try:
        json.loads(value)
    except (ValueError, RecursionError) as error:
        bad[row] = f"not JSON: {_first_line(error)}"
        return False
    return True


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].removesuffix(" in row 0")


def _with_dates_as_text(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_date(type_):
        return pa.string()
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_with_dates_as_text(field.type)) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(_with_dates_as_text(type_.value_type))
    return type_
