"""Schema changes: what differs between the schema of a target's files and that of a new export.

New fields are welcome, at any depth and in any place: readers match fields by name, and find null in older
files. Everything else would make files that no reader can read together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kcli.spark.decode.formats.formats import column_format

if TYPE_CHECKING:
    from kcli.spark.split import FieldFormat


def schema_difference(before: FieldFormat, now: FieldFormat) -> str | None:
    """Return the first difference that is no new field, None without one; the formats have the same name."""
    if before.schema == now.schema:
        return None
    old, new = column_format(before), column_format(now)
    assert old is not None  # a column that is left out has no schema
    assert new is not None
    return _difference("", old.type, new.type)


def _difference(path: str, before: pa.DataType, now: pa.DataType) -> str | None:
    if pa.types.is_struct(before) and pa.types.is_struct(now):
        return _of_structs(path, before, now)
    for is_such, parts in (
        (pa.types.is_list, (("element", "value_type"),)),
        (pa.types.is_map, (("key", "key_type"), ("value", "item_type"))),
    ):
        if is_such(before) and is_such(now):
            found = (
                _difference(f"{path}.{name}" if path else name, getattr(before, part), getattr(now, part))
                for name, part in parts
            )
            return next(filter(None, found), None)
    if before == now:
        return None
    return f"{f'`{path}`' if path else 'it'} was {before}, and is now {now}"


def _of_structs(path: str, before: pa.StructType, now: pa.StructType) -> str | None:
    fields = {field.name: field for field in now}
    for field in before:
        name = f"{path}.{field.name}" if path else field.name
        if field.name not in fields:
            return f"`{name}` is missing now"
        found = _difference(name, field.type, fields[field.name].type)
        if found is not None:
            return found
    return None
