"""JSON values of types that Arrow's reader does not know, maps and bytes, converted one by one.

Bytes are base64, as Spark's `from_json` reads them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa

Convert: TypeAlias = Callable[[Any], Any]


def is_plain_only(type_: pa.DataType) -> bool:
    """Whether a type holds something that only this module reads."""
    if pa.types.is_map(type_) or pa.types.is_binary(type_):
        return True
    if pa.types.is_struct(type_):
        return any(is_plain_only(field.type) for field in type_)
    return pa.types.is_list(type_) and is_plain_only(type_.value_type)


def convert_plainly(
    type_: pa.DataType, values: list[bytes], rows: list[int], bad: dict[int, str]
) -> tuple[pa.Array, list[int]]:
    """Return what was converted, and of which rows; the others come into `bad`."""
    convert = _converter(type_)
    found: list[Any] = []
    good: list[int] = []
    for value, row in zip(values, rows, strict=True):
        try:
            one = convert(json.loads(value, parse_float=Decimal))
            # Also what has the right kind may not fit, such as a number that is too large.
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
    """Return what turns parsed JSON into what Arrow takes for the type, and null into None."""
    convert = _converter_of_some(type_)

    def of_any(given: Any) -> Any:  # noqa: ANN401
        return None if given is None else convert(given)

    return of_any


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
    """Return what reads text, also the names of a JSON object, as values of the type."""
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
        raise ValueError(f"{given!r} is no {' or '.join(kind.__name__ for kind in kinds)}")
    return given
