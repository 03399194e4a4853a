"""SinkColumns: which columns of a DataFrame make a record, and the records of its rows.

| column      | type                                             | without it              |
|-------------|--------------------------------------------------|-------------------------|
| `value`     | string or binary                                 | error                   |
| `key`       | string or binary                                 | no key                  |
| `topic`     | string; the option `topic` goes before it        | the option is needed    |
| `partition` | int                                              | the partitioner chooses |
| `headers`   | array<struct<key:string,value:binary>>           | no headers              |
| `timestamp` | timestamp, or double, the seconds since 1970     | the time of sending     |

Any other column is left out, as by Spark's own Kafka sink (Spark's class `KafkaWriter`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.types import BinaryType, DoubleType, IntegerType, StringType, TimestampType

from kcli.errors import KcliError, UsageError
from kcli.spark.row_schema import HEADERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

_TYPES: Mapping[str, tuple[DataType, ...]] = {
    "topic": (StringType(),),
    "key": (StringType(), BinaryType()),
    "value": (StringType(), BinaryType()),
    "headers": (HEADERS,),
    "partition": (IntegerType(),),
    "timestamp": (TimestampType(), DoubleType()),
}


class SinkRecord(NamedTuple):
    """A record to send; `timestamp_ms` None is now, `partition` None leaves the choice to the partitioner."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """Which of the columns there are; picklable, it travels to the tasks."""

    names: frozenset[str]
    topic: str | None

    @classmethod
    def of(cls, schema: StructType, topic: str | None) -> SinkColumns:
        """Return the columns of a schema that make records; raise `UsageError` for what cannot be written."""
        if topic is None and "topic" not in schema.names:
            raise UsageError(
                "no topic to write to: there is no column `topic`", hint="name one with the option `topic`"
            )
        if "value" not in schema.names:
            raise UsageError("the column `value` is missing", hint="select what to write AS value")
        present = {field.name: field.dataType for field in schema.fields if field.name in _TYPES}
        if topic is not None:
            present.pop("topic", None)
        for name, kind in present.items():
            if not any(_same(kind, wanted) for wanted in _TYPES[name]):
                wanted = " or ".join(one.simpleString() for one in _TYPES[name])
                raise UsageError(
                    f"the column `{name}` cannot be {kind.simpleString()}", hint=f"it must be {wanted}"
                )
        return cls(frozenset(present), topic)

    def records(self, batch: pa.RecordBatch) -> Iterator[SinkRecord]:
        """Yield the records of a batch's rows; raise `KcliError` for a row that is none."""
        count = batch.num_rows
        nothing = [None] * count
        topics = [self.topic] * count if self.topic is not None else batch.column("topic").to_pylist()
        for topic, key, value, headers, partition, timestamp_ms in zip(
            topics,
            self._bytes(batch, "key") or nothing,
            self._bytes(batch, "value") or nothing,
            batch.column("headers").to_pylist() if "headers" in self.names else nothing,
            batch.column("partition").to_pylist() if "partition" in self.names else nothing,
            self._milliseconds(batch) or nothing,
            strict=True,
        ):
            if topic is None:
                raise KcliError("a row has no topic", hint="name one for all rows with the option `topic`")
            if timestamp_ms is not None and timestamp_ms < 0:
                raise KcliError(f"a row has a timestamp before 1970: {timestamp_ms} ms")
            yield SinkRecord(topic, key, value, _headers(headers), partition, timestamp_ms)

    def _bytes(self, batch: pa.RecordBatch, name: str) -> list[bytes | None] | None:
        import pyarrow as pa

        if name not in self.names:
            return None
        column = batch.column(name)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            column = column.cast(pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary())
        values: list[bytes | None] = column.to_pylist()
        return values

    def _milliseconds(self, batch: pa.RecordBatch) -> list[int | None] | None:
        import pyarrow as pa

        if "timestamp" not in self.names:
            return None
        column = batch.column("timestamp")
        if pa.types.is_floating(column.type):
            return [None if seconds is None else int(seconds * 1000) for seconds in column.to_pylist()]
        return [None if us is None else us // 1000 for us in column.cast(pa.int64()).to_pylist()]


def _same(kind: DataType, wanted: DataType) -> bool:
    """Return whether types are equal but for what may be null and how text is compared."""
    name: str = kind.simpleString()
    return name.partition(" collate ")[0] == str(wanted.simpleString())


def _headers(headers: list[dict[str, object]] | None) -> tuple[tuple[str, bytes | None], ...]:
    pairs = []
    for header in headers or ():
        if header is None or header["key"] is None:
            raise KcliError("a row has a header without a key")
        pairs.append((header["key"], header["value"]))
    return tuple(pairs)  # type: ignore[arg-type]  # as the schema says
