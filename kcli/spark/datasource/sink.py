"""The data source's sink: rows become records of topics, at least once, or in transactions.

Each task has its own idempotent producer and ends when every record is acknowledged. Spark may run a task
again, which sends its rows again; a failed batch keeps what its tasks have sent. With the option
`kafka.transactional.id` readers of committed records see each row of a stream exactly once, and of a batch
write all rows or none: `kcli.spark.datasource.sink_transactions` says how, and what can go wrong.

| column      | type                                             | without it              |
|-------------|--------------------------------------------------|-------------------------|
| `value`     | string or binary                                 | error                   |
| `key`       | string or binary                                 | no key                  |
| `topic`     | string; the option `topic` overrides it          | the option is needed    |
| `partition` | int                                              | the partitioner chooses |
| `headers`   | array<struct<key:string,value:binary>>           | no headers              |
| `timestamp` | timestamp, or double, the seconds since 1970     | the time of sending     |

Other columns are left out, as by Spark's class `KafkaWriter`. The names of options, and which are refused,
are those of Spark's own Kafka sink, but for the transactional id, which that refuses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import trio
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, DoubleType, IntegerType, StringType, TimestampType

from kcli.client.client import connect
from kcli.client.config import ClientConfig, ProducerConfig
from kcli.client.producer.producer import Producer
from kcli.errors import KcliError, UsageError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.topics import TopicPartition
from kcli.spark.datasource.pyspark_version import DataSourceStreamArrowWriter
from kcli.spark.datasource.reader_options import OptionValues
from kcli.spark.datasource.row_schema import HEADERS
from kcli.spark.datasource.sink_transactions import MicroBatch, SinkTransactions, TaskTransaction, id_of
from kcli.spark.python_worker import hinted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

    from kcli.client.producer.open_transaction import OpenTransaction
    from kcli.client.producer.producer_batch import Delivery

QUERY_ID = "sql.streaming.queryId"
"""The local property of a task that names its streaming query (Spark class `StreamExecution`)."""

TRANSACTIONAL_ID = "transactional.id"
TRANSACTION_TIMEOUT_MS = "900000"
"""How long transactions, which wait for all tasks, stay open at most: as long as brokers usually allow."""

_TIMEOUT_HINT = (
    "set `kafka.transaction.timeout.ms` to at most `transaction.max.timeout.ms` of the brokers, "
    "and to more than a job takes"
)

_TYPES: Mapping[str, tuple[DataType, ...]] = {
    "topic": (StringType(),),
    "key": (StringType(), BinaryType()),
    "value": (StringType(), BinaryType()),
    "headers": (HEADERS,),
    "partition": (IntegerType(),),
    "timestamp": (TimestampType(), DoubleType()),
}


class SinkRecord(NamedTuple):
    """A record to send; the client sets a missing timestamp, and chooses a missing partition."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """Which of the columns a frame has; it travels to the tasks."""

    names: frozenset[str]
    topic: str | None

    @classmethod
    def of(cls, schema: StructType, topic: str | None) -> SinkColumns:
        """Return the columns of a schema; raise `UsageError` if they cannot be written."""
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
        """Yield the records of a batch's rows; raise `KcliError` for a row that cannot be a record."""
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
    """Return whether types are equal except for nullability and collation."""
    name: str = kind.simpleString()
    return name.partition(" collate ")[0] == str(wanted.simpleString())


def _headers(headers: list[dict[str, object]] | None) -> tuple[tuple[str, bytes | None], ...]:
    pairs = []
    for header in headers or ():
        if header is None or header["key"] is None:
            raise KcliError("a row has a header without a key")
        pairs.append((header["key"], header["value"]))
    return tuple(pairs)  # type: ignore[arg-type]  # as the schema says


@dataclass(frozen=True)
class SentRecords(WriterCommitMessage):
    """What a task has sent: acknowledged, or with `open`, in a transaction that waits for its end."""

    records: int
    query: str = ""
    """The id of the streaming query, "" for a batch write."""
    open: TaskTransaction | None = None


class _Sender:
    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._columns = SinkColumns.of(schema, options.topic)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        with hinted():
            task = TaskContext.get()
            assert task is not None
            query = task.getLocalProperty(QUERY_ID) or ""
            return send(self._options, self._columns, iterator, task=task.partitionId(), query=query)

    def abort(self, messages: list[WriterCommitMessage | None], *_batch: int) -> None:
        """Abort the transactions of tasks that are done; what was sent without one cannot be taken back."""
        self._end(messages, SinkTransactions.abort)

    def _end(
        self,
        messages: list[WriterCommitMessage | None],
        end: Callable[[SinkTransactions, list[TaskTransaction]], Awaitable[None]],
    ) -> None:
        sent = _sent(messages)
        tasks = [message.open for message in sent if message.open is not None]
        if tasks:
            with hinted():
                trio.run(partial(self._end_tasks, tasks, end))

    async def _end_tasks(
        self,
        tasks: list[TaskTransaction],
        end: Callable[[SinkTransactions, list[TaskTransaction]], Awaitable[None]],
    ) -> None:
        options = self._options
        config = ProducerConfig.from_properties(options.properties)
        async with connect(options.bootstrap, ClientConfig.from_properties(options.properties)) as client:
            await end(SinkTransactions(client, config), tasks)


class KcliSink(_Sender, DataSourceArrowWriter):
    """Writes a batch."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the tasks' transactions; without them the records are in the topic already."""
        self._end(messages, SinkTransactions.commit)


class KcliStreamSink(_Sender, DataSourceStreamArrowWriter):
    """Writes the batches of a stream."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the tasks' transactions, but for those that an earlier attempt has committed."""
        query = next((message.query for message in _sent(messages)), "")
        batch = MicroBatch(query=query, number=batchId, tasks=len(messages))
        self._end(messages, partial(SinkTransactions.commit_micro_batch, batch=batch))


def _sent(messages: list[WriterCommitMessage | None]) -> list[SentRecords]:
    """Return the messages of the tasks that are done."""
    return [message for message in messages if isinstance(message, SentRecords)]


def send(
    options: SinkOptions,
    columns: SinkColumns,
    batches: Iterator[pa.RecordBatch],
    *,
    task: int = 0,
    query: str = "",
) -> SentRecords:
    """Send the records of some batches, and return when all are acknowledged; raise the first error.

    With a transactional id, their transaction is left open.
    """
    return trio.run(partial(_send, options, columns, batches, task=task, query=query))


async def _send(
    options: SinkOptions,
    columns: SinkColumns,
    batches: Iterator[pa.RecordBatch],
    *,
    task: int,
    query: str,
) -> SentRecords:
    properties = dict(options.properties)
    prefix = properties.get(TRANSACTIONAL_ID, "")
    if prefix:
        properties[TRANSACTIONAL_ID] = id_of(prefix, task)
    client_config = ClientConfig.from_properties(properties)
    async with (
        connect(options.bootstrap, client_config) as client,
        Producer(client, ProducerConfig.from_properties(properties)) as producer,
    ):
        task_producer = _TaskProducer(producer, columns)
        if not prefix:
            await task_producer.send_all(batches)
            return SentRecords(task_producer.records, query)
        transaction = await task_producer.send_in_transaction(batches)
    if transaction is None:
        return SentRecords(0, query)
    assert task_producer.place is not None
    return SentRecords(task_producer.records, query, TaskTransaction(task, transaction, task_producer.place))


class _TaskProducer:
    """Sends the rows of a task."""

    def __init__(self, producer: Producer, columns: SinkColumns) -> None:
        self._producer = producer
        self._columns = columns
        self._failures: list[KcliError] = []
        self.records = 0
        self.place: TopicPartition | None = None
        """The first partition of a topic that rows go to; None before the first row."""

    async def send_in_transaction(self, batches: Iterator[pa.RecordBatch]) -> OpenTransaction | None:
        """Send all rows in a transaction and leave it open; None without rows. An error aborts it."""
        producer = self._producer
        first = await _next(batches)
        while first is not None and not first.num_rows:
            first = await _next(batches)
        if first is None:
            return None
        try:
            await producer.init_transactions()
        except KafkaError as error:
            if error.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                error.hint = _TIMEOUT_HINT
            raise
        await producer.begin_transaction()
        try:
            await self._send(first)
            await self.send_all(batches)
            return await producer.hand_over()
        except BaseException as error:
            with trio.CancelScope(shield=True):
                await producer.transactions.give_up(error)
            raise

    async def send_all(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Send all rows and wait until they are acknowledged; raise the first error."""
        while (batch := await _next(batches)) is not None:
            await self._send(batch)
        await self._producer.flush()
        if self._failures:
            raise self._failures[0]

    async def _send(self, batch: pa.RecordBatch) -> None:
        for record in self._columns.records(batch):
            delivery = await self._producer.send(
                record.topic, record.value, record.key,
                partition=record.partition, headers=record.headers, timestamp=record.timestamp_ms,
            )  # fmt: skip
            delivery.on_settled(self._settle)
            if self._failures:
                raise self._failures[0]
            if self.place is None:
                self.place = TopicPartition(record.topic, 0)
        self.records += batch.num_rows

    def _settle(self, delivery: Delivery) -> None:
        if delivery.error is not None:
            self._failures.append(delivery.error)


async def _next(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    """Return the next batch; in a thread, so that sending goes on while Spark computes it."""
    return await trio.to_thread.run_sync(next, batches, None)


_REFUSED = {
    "key.serializer": "keys are written as bytes: make them binary or string with DataFrame operations",
    "value.serializer": "values are written as bytes: make them binary or string with DataFrame operations",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Where a frame is written to; `properties` are client properties and may hold passwords."""

    bootstrap: str
    topic: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Return the options of a write; raise `UsageError` for what is refused."""
    given = OptionValues(dict(options))
    for name, hint in _REFUSED.items():
        if f"kafka.{name}" in given:
            raise UsageError(f"the option `kafka.{name}` is not supported", hint=hint)
    properties = given.kafka_properties()
    bootstrap = properties.pop("bootstrap.servers", "").strip()
    if not bootstrap:
        raise UsageError(
            "the option `kafka.bootstrap.servers` is needed for writing", hint="give host:port,host:port"
        )
    if TRANSACTIONAL_ID in properties:
        properties.setdefault("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
    security = ClientConfig.from_properties(properties).security
    if security is not None and security.is_tls:
        # Tasks may run on machines that have no such files.
        properties = security.portable(properties)
    ProducerConfig.from_properties(properties)
    topic = given.get("topic", "")
    return SinkOptions(bootstrap=bootstrap, topic=topic or None, properties=properties)
