"""The original bytes of a key or value, from the column that an export made of them.

| exported as            | here                 | bytes                            |
|------------------------|----------------------|----------------------------------|
| binary                 | binary               | as they are                      |
| string, json unparsed  | string               | its UTF-8, which was checked     |
| int, long, double      | int32, int64, double | big-endian, as Kafka's encoders  |
| json, avro             | struct and others    | gone: the text was not kept      |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kcli.errors import KcliError

if TYPE_CHECKING:
    from collections.abc import Sequence

Headers = tuple[tuple[str, bytes | None], ...]


def is_reversible(kind: pa.DataType) -> bool:
    """Return whether a column of this type gives the original bytes."""
    types = pa.types
    is_bytes = types.is_binary(kind) or types.is_large_binary(kind)
    is_text = types.is_string(kind) or types.is_large_string(kind)
    is_number = types.is_int32(kind) or types.is_int64(kind) or types.is_float64(kind)
    return bool(is_bytes or is_text or is_number)


def original_bytes(column: pa.Array) -> list[bytes | None]:
    """Return the bytes of each row, None where the column is null."""
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        values: list[bytes | None] = column.to_pylist()
        return values
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        values = column.cast(pa.large_binary()).to_pylist()
        return values
    width = kind.bit_width // 8
    order = np.dtype(kind.to_pandas_dtype()).newbyteorder(">")
    raw = column.fill_null(0).to_numpy(zero_copy_only=False).astype(order).tobytes()
    return [
        raw[index * width : (index + 1) * width] if is_valid else None
        for index, is_valid in enumerate(column.is_valid().to_pylist())
    ]


def original_headers(column: pa.Array) -> list[Headers]:
    """Return the headers of each row; a map has kept only the last value of a key."""
    if pa.types.is_map(column.type):
        names, contents = column.keys, column.items
    elif pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        entries = column.values
        names, contents = _field(entries, "key"), _field(entries, "value")
    else:
        raise KcliError(f"the column `headers` holds no headers: {column.type}")
    pairs = list(zip(names.to_pylist(), contents.to_pylist(), strict=True))
    offsets: Sequence[int] = column.offsets.to_pylist()
    return [
        tuple(pairs[offsets[row] : offsets[row + 1]]) if is_valid else ()
        for row, is_valid in enumerate(column.is_valid().to_pylist())
    ]


def _field(entries: Any, name: str) -> Any:  # noqa: ANN401  # pyarrow's arrays are untyped here
    if not pa.types.is_struct(entries.type) or entries.type.get_field_index(name) < 0:
        raise KcliError(f"the column `headers` holds no headers: {entries.type}")
    return entries.field(name)
