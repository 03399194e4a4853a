"""The Arrow schema of records, exactly that of Spark's own Kafka source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

TIMESTAMP = pa.timestamp("us", tz="UTC")
HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS = pa.list_(HEADER)

FIELDS = {
    "key": pa.field("key", pa.binary()),
    "value": pa.field("value", pa.binary()),
    "topic": pa.field("topic", pa.string()),
    "partition": pa.field("partition", pa.int32()),
    "offset": pa.field("offset", pa.int64()),
    "timestamp": pa.field("timestamp", TIMESTAMP),
    "timestampType": pa.field("timestampType", pa.int32()),
    "headers": pa.field("headers", HEADERS),
}
"""Every column there is, by name; all may be null, as Spark declares them."""


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of those columns, in the order in which they are given."""
    return pa.schema([FIELDS[name] for name in columns])
