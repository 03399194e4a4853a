"""Parquet files as an export writes them, and what records they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from kcli.spark.importing.stored_records import StoredFile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


class StoredRow(NamedTuple):
    """A record as it was in the log."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()


def stored_row(offset: int) -> StoredRow:
    """Return a record that differs from its neighbours in everything, nulls included."""
    return StoredRow(
        offset,
        None if offset % 5 == 0 else b"key-%d" % offset,
        None if offset % 7 == 0 else b"value-%d" % offset,
        1_700_000_000_000 + offset if offset % 11 else -1,
        tuple((f"h{index}", None if index == 1 else b"%d" % offset) for index in range(offset % 3)),
    )


def write_rows(
    path: Path,
    rows: Sequence[StoredRow],
    *,
    partition: int = 0,
    within: tuple[int, int] | None = None,
    group_rows: int = 1000,
    schema: pa.Schema = SCHEMA,
) -> StoredFile:
    """Write rows to a file and return what the commit log would say of it."""
    columns = {
        "key": [row.key for row in rows],
        "value": [row.value for row in rows],
        "offset": [row.offset for row in rows],
        "timestamp": [row.timestamp_ms * 1000 for row in rows],
        "timestampType": [0] * len(rows),
        "headers": [
            [{"key": name, "value": content} for name, content in row.headers] or None for row in rows
        ],
    }
    table = pa.table({name: columns[name] for name in schema.names}, schema=schema)
    pq.write_table(table, path, row_group_size=group_rows)
    start, end = within or (rows[0].offset, rows[-1].offset + 1)
    return StoredFile(str(path), "orders", partition, start, end, len(rows), path.stat().st_size)
