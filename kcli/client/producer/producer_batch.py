"""ProducerBatch: records of one partition on their way to the broker, and the deliveries of its records.

A batch is open while it takes records, closed once drained, and settled once, with an offset or an error. A
batch that the broker finds too large is split. No record has a task, an event or a callback list of its own:
a `Delivery` is the batch and an index. After a split, a delivery follows the part with its record, and a
`DeliveryRun` becomes one run per part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import trio

from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.batch_header import set_producer_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kcli.protocol.compression.codecs import Codec
    from kcli.protocol.topics import TopicPartition


class GivenUp(KafkaError):
    """The producer was closed before the outcome was known."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, "the producer was closed")


class RecordMetadata(NamedTuple):
    """Where a record was stored. `offset` is -1 under acks=0; `timestamp` may be that of the log."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class Delivery:
    """The delivery of one record: wait for it, or poll it."""

    __slots__ = ("_batch", "_index", "_timestamp")

    def __init__(self, batch: ProducerBatch, index: int, timestamp: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp

    def on_settled(self, callback: Callable[[Delivery], None]) -> None:
        """Call `callback(delivery)` in sending order, in the sender's task; it must not raise."""
        batch = self._batch
        if batch.parts is not None:
            batch, _ = batch.part_of(self._index)
        if batch.is_settled:
            callback(self)
        else:
            batch.add_callback(self, callback)

    @property
    def is_settled(self) -> bool:
        return self._batch.part_of(self._index)[0].is_settled

    @property
    def error(self) -> KafkaError | None:
        """Return the error, None if there is none (yet)."""
        batch, index = self._batch.part_of(self._index)
        if batch.error is None or not batch.record_errors:
            return batch.error
        if index in batch.record_errors:
            return KafkaError(batch.error.code, batch.record_errors[index])
        # The broker refuses a batch as a whole and names the records to blame (KIP-467).
        why = "another record of the same batch was refused, and with it this one"
        return KafkaError(ErrorCode.INVALID_RECORD, why)

    def result(self) -> RecordMetadata:
        """Return where the record was stored; raise its error. It must be settled."""
        error = self.error
        if error is not None:
            raise error
        batch, index = self._batch.part_of(self._index)
        offset = batch.base_offset + index if batch.base_offset >= 0 else -1
        timestamp = self._timestamp if batch.log_append_time < 0 else batch.log_append_time
        return RecordMetadata(batch.partition.topic, batch.partition.partition, offset, timestamp)

    def as_run(self) -> DeliveryRun:
        """Return the run of this record alone."""
        return DeliveryRun(self._batch, self._index, 1, self._timestamp)

    async def wait(self) -> RecordMetadata:
        """Wait for the outcome and return it, or raise it."""
        while True:
            batch, _ = self._batch.part_of(self._index)
            await batch.wait()
            if batch.is_settled:
                return self.result()


class DeliveryRun:
    """The delivery of `count` consecutive records of a batch."""

    __slots__ = ("_batch", "_first", "_timestamp", "count")

    def __init__(self, batch: ProducerBatch, first: int, count: int, timestamp: int) -> None:
        self._batch = batch
        self._first = first
        self._timestamp = timestamp
        self.count = count

    def __iter__(self) -> Iterator[Delivery]:
        for index in range(self._first, self._first + self.count):
            yield Delivery(self._batch, index, self._timestamp)

    def on_settled(self, callback: Callable[[DeliveryRun], None]) -> None:
        """As `Delivery.on_settled`; if the batch is split, `callback` is called for each part."""
        batch = self._batch
        if batch.parts is not None:
            for run in self._by_part():
                run.on_settled(callback)
        elif batch.is_settled:
            callback(self)
        else:
            batch.add_callback(self, callback)

    @property
    def is_delivered(self) -> bool:
        if self._batch.parts is not None:
            return all(run.is_delivered for run in self._by_part())
        return self._batch.is_settled and self._batch.error is None

    def _by_part(self) -> Iterator[DeliveryRun]:
        first, left = self._first, self.count
        for part in self._batch.parts or ():
            count = min(part.count - first, left)
            if count > 0:
                yield DeliveryRun(part, first, count, self._timestamp)
                left -= count
                first = 0
            else:
                first -= part.count
            if not left:
                return


NO_SEQUENCE = -1

Delivered = TypeVar("Delivered", Delivery, DeliveryRun)


class ProducerBatch:
    """Times are `trio.current_time()` seconds; `reserved` is its share of the memory budget."""

    __slots__ = (
        "_callbacks", "_done", "attempts", "base_offset", "base_sequence", "builder", "count", "created_at",
        "data", "delayed_since", "drain_number", "error", "first_index", "is_settled", "leader_epoch",
        "limit", "log_append_time", "partition", "parts", "producer_epoch", "producer_id", "record_errors",
        "reserved", "retry_at",
    )  # fmt: skip

    def __init__(
        self, partition: TopicPartition, builder: RecordBatchBuilder, created_at: float, reserved: int
    ) -> None:
        self.partition = partition
        self.builder: RecordBatchBuilder | None = builder
        self.count = 0
        self.created_at = created_at
        self.reserved = reserved
        self.limit = 0
        """The most bytes before compression, estimated from the topic's compression ratio."""
        self.data: bytearray | None = None
        self.attempts = 0
        self.retry_at = 0.0
        self.delayed_since: float | None = None
        """When it first had to wait because of an error."""
        self.leader_epoch = -1
        self.drain_number = -1
        self.first_index = 0
        """In a part: how many records of the split batch come before it."""
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = NO_SEQUENCE
        self.base_offset = -1
        self.log_append_time = -1
        self.error: KafkaError | None = None
        self.record_errors: dict[int, str] = {}
        self.is_settled = False
        self.parts: list[ProducerBatch] | None = None
        self._done: trio.Event | None = None
        self._callbacks: Callbacks = []

    @property
    def size(self) -> int:
        """Return the bytes it takes in a request; an upper bound before compression."""
        if self.data is not None:
            return len(self.data)
        return self.builder.estimated_size if self.builder is not None else 0

    @property
    def place(self) -> tuple[int, int]:
        """Return its position in the order of first drains of its partition."""
        return self.drain_number, self.first_index

    @property
    def has_sequence(self) -> bool:
        return self.base_sequence != NO_SEQUENCE

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
    ) -> Delivery:
        builder = self.builder
        assert builder is not None
        builder.append(timestamp, key, value, headers)
        index = self.count
        self.count = index + 1
        return Delivery(self, index, timestamp)

    def append_values(self, timestamp: int, values: Sequence[bytes], start: int) -> DeliveryRun | None:
        """Add values from index `start` on while they fit; None if not even the first fits."""
        builder = self.builder
        assert builder is not None
        index = self.count
        count = builder.append_values(timestamp, values, start, self.limit)
        if not count:
            return None
        self.count = index + count
        return DeliveryRun(self, index, count, timestamp)

    def add_callback(self, delivery: Delivered, callback: Callable[[Delivered], None]) -> None:
        """Call a callback, in append order, when the batch settles."""
        self._callbacks.append((delivery, callback))

    def build(self) -> None:
        """Compress and seal a drained batch, or renumber a sealed one. May run in a thread."""
        if self.data is None:
            builder = self.builder
            if builder is None:
                return  # expired meanwhile
            builder.producer_id = self.producer_id
            builder.producer_epoch = self.producer_epoch
            builder.base_sequence = self.base_sequence
            self.data = builder.build()
            self.builder = None
            return
        header = RecordBatch(self.data)
        numbered = (header.producer_id, header.producer_epoch, header.base_sequence)
        if numbered != (self.producer_id, self.producer_epoch, self.base_sequence):
            set_producer_state(self.data, 0, self.producer_id, self.producer_epoch, self.base_sequence)

    def succeed(self, base_offset: int, log_append_time: int) -> None:
        """Settle with the first record's offset, and run the callbacks."""
        self.base_offset = base_offset
        self.log_append_time = log_append_time
        self._settle()

    def fail(self, error: KafkaError, record_errors: dict[int, str] | None = None) -> None:
        """Settle with an error, and run the callbacks; `record_errors` has texts for single records."""
        self.error = error
        self.record_errors = record_errors or {}
        self._settle()

    def _settle(self) -> None:
        self.is_settled = True
        self.builder = None
        self.data = None
        if self._done is not None:
            self._done.set()
        callbacks, self._callbacks = self._callbacks, []
        for delivery, callback in callbacks:
            callback(delivery)

    def split(self, limit: int, codec: Codec, level: int | None, now: float) -> list[ProducerBatch]:
        """Return batches of at most `limit` bytes (at least one record) that replace this one."""
        assert self.data is not None
        parts: list[ProducerBatch] = []
        room = 0
        for record in RecordBatch(self.data).records():
            size = len(record.key or b"") + len(record.value or b"") + 40
            if not parts or room < size:
                builder = RecordBatchBuilder(
                    codec=codec, level=level, is_transactional=RecordBatch(self.data).is_transactional
                )
                parts.append(ProducerBatch(self.partition, builder, self.created_at, 0))
                room = limit
            parts[-1].append(record.timestamp, record.key, record.value, record.headers)
            room -= size
        self._hand_over(parts, now)
        return parts

    def _hand_over(self, parts: list[ProducerBatch], now: float) -> None:
        sequence = self.base_sequence
        first_index = self.first_index
        for part in parts:
            part.drain_number = self.drain_number
            part.first_index = first_index
            first_index += part.count
            part.attempts = self.attempts
            part.retry_at = now
            part.producer_id, part.producer_epoch = self.producer_id, self.producer_epoch
            if self.has_sequence:
                part.base_sequence = sequence
                sequence = (sequence + part.count) & 0x7FFFFFFF
        # The memory is released when the last part settles.
        parts[-1].reserved, self.reserved = self.reserved, 0
        callbacks, self._callbacks = self._callbacks, []
        self.parts = parts
        for delivery, callback in callbacks:
            delivery.on_settled(callback)
        if self._done is not None:
            self._done.set()

    def part_of(self, index: int) -> tuple[ProducerBatch, int]:
        """Return the batch that holds a record of a split batch, and its index there."""
        batch = self
        while batch.parts is not None:
            for part in batch.parts:
                if index < part.count:
                    batch = part
                    break
                index -= part.count
        return batch, index

    async def wait(self) -> None:
        """Wait until it is settled or split."""
        if self.is_settled or self.parts is not None:
            await trio.lowlevel.checkpoint()
            return
        if self._done is None:
            self._done = trio.Event()
        await self._done.wait()


if TYPE_CHECKING:
    Callbacks: TypeAlias = list[tuple[Any, Callable[[Any], None]]]
