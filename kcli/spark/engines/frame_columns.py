"""The columns of a plan's rows on their way through Spark SQL.

    record columns asked for, or named in `where` or `select`, decoded     visible to the user's SQL
    __kcli_split, __kcli_offset, __kcli_time                               where a row came from

The last three bypass the user's expressions: file names, bounds and directories depend on them even where the
user selects no such column.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from kcli.spark.export.target.layout import Layout
from kcli.spark.export.writing.row_shaper import RowShaper
from kcli.spark.filters.where import Comparison, In, IsNull, parse_where, sql_of
from kcli.spark.split import COLUMNS, Split

if TYPE_CHECKING:
    from kcli.spark.export.options import WriteOptions
    from kcli.spark.filters.where import Condition

PLACES = ("topic", "partition", "offset", "timestamp")
SPLIT, OFFSET, TIME = "__kcli_split", "__kcli_offset", "__kcli_time"
HIDDEN = (SPLIT, OFFSET, TIME)
HIDDEN_FIELDS = (pa.field(SPLIT, pa.int32()), pa.field(OFFSET, pa.int64()), pa.field(TIME, pa.int64()))


def visible_columns(options: WriteOptions) -> tuple[str, ...]:
    """Return the record columns that the user's SQL can name."""
    words = set(re.findall(r"\w+", f"{options.where or ''} {options.select or ''}".lower()))
    if options.select is not None and "*" in options.select:
        words |= {name.lower() for name in options.reading.columns}
    wanted = {name for name in COLUMNS if name.lower() in words}
    if options.select is None:
        wanted |= set(options.reading.columns)
    return tuple(name for name in COLUMNS if name in wanted)


def frame_shaper(options: WriteOptions, split: Split) -> RowShaper:
    """Return the shaper that decodes rows before SQL, and applies the filters that need no SQL."""
    columns = tuple(dict.fromkeys([*visible_columns(options), "timestamp"]))
    conditions = [one for one in parse_where(options.where or "TRUE") if _is_plain(one)]
    before = replace(
        options,
        reading=replace(options.reading, columns=columns),
        where=" AND ".join(map(sql_of, conditions)) or None,
        select=None,
        # Topic and partition are in the path, but the user's SQL may name them.
        layout=Layout(()),
    )
    return RowShaper(before, split)


def frame_schema(options: WriteOptions) -> pa.Schema:
    """Return the columns that SQL can name, and the hidden ones."""
    return pa.schema([*frame_shaper(options, Split("", 0, 0, 0)).schema, *HIDDEN_FIELDS])


def condition_of(options: WriteOptions) -> str | None:
    return " AND ".join(map(sql_of, parse_where(options.where))) if options.where else None


def written_columns(options: WriteOptions, available: list[str]) -> list[str]:
    """Return the columns of SQL's result to write, in order."""
    in_path = options.layout.path_columns
    if options.select is not None:
        return [name for name in available if name not in in_path]
    return [name for name in options.reading.columns if name in available and name not in in_path]


def _is_plain(condition: Condition) -> bool:
    """Return whether a condition means the same to Arrow and to Spark for all types."""
    match condition:
        case Comparison((name,)) | In((name,)) | IsNull((name,)):
            return name in PLACES
    return False
