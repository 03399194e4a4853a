"""ParquetPart: one Parquet file that grows by row groups.

Rows are collected, because every write makes a row group. Dictionaries only where values repeat, delta
encoding where they ascend, statistics only where a reader can skip by them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kcli.spark.job.options import ParquetOptions
    from kcli.spark.job.target import Target

_REPEATING = ("topic", "partition", "timestampType")
_ASCENDING = ("offset", "timestamp")
_DEFAULT_LEVELS = {"zstd": 1, "gzip": 6}
"""Where pyarrow's own level costs far more than it saves: its gzip is at 9."""


class ParquetPart:
    """A file under its temporary name; rows go in as record batches of one schema."""

    def __init__(
        self,
        target: Target,
        path: str,
        *,
        schema: pa.Schema,
        metadata: Mapping[str, str],
        options: ParquetOptions,
    ) -> None:
        self.target = target
        self.path = path
        self.rows = 0
        self.buffered_rows = 0
        self.buffered_bytes = 0
        self._row_group_rows = options.row_group_rows
        self._buffered: list[pa.RecordBatch] = []
        self._schema = schema.with_metadata({**(schema.metadata or {}), **metadata})
        self._sink = target.open_output(path)
        self._writer = pq.ParquetWriter(self._sink, self._schema, **settings(self._schema, options))

    def add(self, batch: pa.RecordBatch) -> None:
        """Collect rows, and write them when they fill a row group."""
        self._buffered.append(batch)
        self.rows += batch.num_rows
        self.buffered_rows += batch.num_rows
        self.buffered_bytes += batch.nbytes
        if self.buffered_rows >= self._row_group_rows:
            self.flush()

    def flush(self) -> None:
        """Write what is collected as row groups."""
        if not self._buffered:
            return
        table = pa.Table.from_batches(self._buffered, self._schema)
        self._buffered.clear()
        # What is a little more than a group becomes one, not a full and a tiny one.
        rows = max(1, round(table.num_rows / self._row_group_rows))
        self._writer.write_table(table, row_group_size=-(-table.num_rows // rows))
        self.buffered_rows = self.buffered_bytes = 0

    def close(self, said_last: Mapping[str, str] | None = None) -> int:
        """Write the rest and the footer, with what is known only now; return the file's size in bytes.

        What was written survives a power failure.
        """
        self.flush()
        if said_last:
            self._writer.add_key_value_metadata(said_last)
        self._writer.close()
        size: int = self._sink.tell()
        self._sink.close()
        self.target.sync(self.path)
        return size

    def discard(self) -> None:
        """Close the file however it is, and remove it."""
        self._buffered.clear()
        self._writer.is_open = False  # nothing is to be written when it is collected
        try:
            self._sink.close()
        finally:
            self.target.remove(self.path)


def settings(schema: pa.Schema, options: ParquetOptions) -> dict[str, Any]:
    """Return how pyarrow is to encode files of a schema."""
    codec = options.compression
    level = options.compression_level
    if level is None:
        level = _DEFAULT_LEVELS.get(codec)
    leaves = dict(_leaves(schema))
    return {
        "compression": codec,
        "compression_level": level,
        "version": "2.6",
        "coerce_timestamps": None,
        "use_dictionary": [
            path
            for path in leaves
            if path in _REPEATING or (path.startswith("headers.") and path.endswith(".key"))
        ],
        "column_encoding": {path: "DELTA_BINARY_PACKED" for path in leaves if path in _ASCENDING},
        "write_statistics": [path for path, kind in leaves.items() if _has_statistics(path, kind)],
        "write_page_index": True,
    }


def _has_statistics(path: str, kind: pa.DataType) -> bool:
    """Return whether a column's bounds are of use: offsets, times, and keys and values that are scalars."""
    if path in _ASCENDING:
        return True
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    return path.partition(".")[0] in ("key", "value") and not is_bytes


def _leaves(schema: pa.Schema) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the path and type of every column as Parquet has it."""
    for field in schema:
        yield from _leaves_of(field.name, field.type)


def _leaves_of(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves_of(f"{path}.{field.name}", field.type)
    elif pa.types.is_map(kind):
        yield from _leaves_of(f"{path}.key_value.key", kind.key_type)
        yield from _leaves_of(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves_of(f"{path}.list.element", kind.value_type)
    else:
        yield path, kind
