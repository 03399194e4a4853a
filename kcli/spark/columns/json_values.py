"""JSON values as structs of a schema.

All values of a column are parsed in one go, each wrapped in an object of its own, so that what is broken in
one cannot be mended by the next. One bad value fails them all: then those that are no JSON are sorted out,
and the rest is halved until the others that do not fit stand alone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from kcli.spark.columns.column_formats import Text
from kcli.spark.columns.ddl import parse_schema
from kcli.spark.columns.json_plain import convert_plainly, is_plain_only

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEXT = Text()
_WRAPPER = "value"
_BEGIN, _END = b'{"value":', b"}"
_BETWEEN = _END + b"\n" + _BEGIN


class JsonValues:
    """Structs of one schema."""

    def __init__(self, schema: str) -> None:
        self.type = parse_schema(schema)
        self._plain_only = is_plain_only(self.type)
        # What Arrow's reader does not know how to read is read as text, and cast.
        self._read_as = _with_dates_as_text(self.type)
        self._options = pj.ParseOptions(
            explicit_schema=pa.schema([pa.field(_WRAPPER, self._read_as)]), unexpected_field_behavior="ignore"
        )

    def decode(self, column: pa.Array) -> tuple[pa.Array, Mapping[int, str]]:
        """Return the structs, and why rows are bad, which are null then."""
        # The parser does not look at the encoding of text.
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
        """Return what was parsed, and of which rows; the others come into `bad`."""
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
        """Return the structs of values that are all good; raises `ArrowInvalid`."""
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
