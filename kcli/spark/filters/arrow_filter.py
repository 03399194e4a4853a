"""The conditions of `--where` as an Arrow expression over decoded columns.

As in SQL, a comparison with null is unknown, and a row whose filter is unknown is left out.
"""

from __future__ import annotations

from datetime import datetime
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kcli.errors import UsageError
from kcli.spark.filters.where import Comparison, In, IsNull, StartsWith

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.spark.filters.where import Condition, Literal, Path

_OPERATORS = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def filter_rows(batch: pa.RecordBatch, expression: pc.Expression) -> pa.RecordBatch:
    kept = pa.Table.from_batches([batch]).filter(expression).combine_chunks().to_batches()
    return kept[0] if kept else batch.slice(0, 0)


def expression_of(conditions: Iterable[Condition], schema: pa.Schema) -> pc.Expression | None:
    """Return the conditions for batches of that schema, None without conditions.

    Raises `UsageError` if a column does not exist, or cannot be compared with its literal.
    """
    parts = [_expression(condition, schema) for condition in conditions]
    return reduce(and_, parts) if parts else None


def _expression(condition: Condition, schema: pa.Schema) -> pc.Expression:
    match condition:
        case Comparison(column, operator, value):
            type_ = _type(column, schema)
            field = pc.field(*column)
            found = _OPERATORS[operator](field, _literal(value, type_, column))
            # To Spark, NaN is greater than any number.
            return found | field.is_nan() if ">" in operator and pa.types.is_floating(type_) else found
        case In(column, values, negated):
            type_ = _type(column, schema)
            # Not `isin`: it treats null as a value; here null makes the result unknown.
            parts = [pc.field(*column) == _literal(value, type_, column) for value in values]
            found = reduce(lambda left, right: left | right, parts)
            return ~found if negated else found
        case IsNull(column, negated):
            _type(column, schema)
            field = pc.field(*column)
            return field.is_valid() if negated else field.is_null()
        case StartsWith(column, prefix):
            type_ = _type(column, schema)
            if pa.types.is_binary(type_):
                return pc.starts_with(pc.field(*column), pattern=prefix.encode())
            if not pa.types.is_string(type_):
                raise UsageError(f"not a column of text: {'.'.join(column)}")
            return pc.starts_with(pc.field(*column), pattern=prefix)
    raise UsageError(f"only Spark can evaluate this filter: {condition}")


def _type(column: Path, schema: pa.Schema) -> pa.DataType:
    fields = {field.name: field.type for field in schema}
    for depth, name in enumerate(column, 1):
        type_ = fields.get(name)
        if type_ is None:
            raise UsageError(
                f"no such column: {'.'.join(column[:depth])}", hint=f"there are {', '.join(sorted(fields))}"
            )
        fields = {field.name: field.type for field in type_} if pa.types.is_struct(type_) else {}
    return type_


def _literal(value: Literal, type_: pa.DataType, column: Path) -> pa.Scalar:
    """Return a literal that can be compared with a column of that type."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and (pa.types.is_integer(type_) or pa.types.is_floating(type_)):
        return pa.scalar(value)
    fits = (
        (isinstance(value, str) and pa.types.is_string(type_))
        or (isinstance(value, bool) and pa.types.is_boolean(type_))
        or (isinstance(value, datetime) and pa.types.is_timestamp(type_))
    )
    if isinstance(value, str) and pa.types.is_binary(type_):
        return pa.scalar(value.encode(), type_)
    if not fits:
        raise UsageError(f"a column of {type_} cannot be compared with {value!r}: {'.'.join(column)}")
    return pa.scalar(value, type_)
