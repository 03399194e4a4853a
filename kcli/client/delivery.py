"""Delivery: one record's share in the outcome of its batch; DeliveryRun: that of several in a row.

No record has a task, an event or a callback list of its own: a `Delivery` is the batch and an index into it.
When the batch is split, a delivery follows the part that its record went to, and a run becomes one per part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kcli.client.producer_batch import ProducerBatch


class GivenUp(KafkaError):
    """The producer was closed before the outcome was known."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, "the producer was closed")


class RecordMetadata(NamedTuple):
    """Where a record went. `offset` is -1 under acks=0; `timestamp` is the log's if it sets its own."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class Delivery:
    """One record's way to the log: wait for it, or look."""

    __slots__ = ("_batch", "_index", "_timestamp")

    def __init__(self, batch: ProducerBatch, index: int, timestamp: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp

    def on_settled(self, callback: Callable[[Delivery], None]) -> None:
        """Have `callback(delivery)` run, in order of sending, when the record is delivered or failed.

        It runs in the sender's task and must not raise: an exception ends the producer.
        """
        batch = self._batch
        if batch.parts is not None:
            batch, _ = batch.part_of(self._index)
        if batch.is_settled:
            callback(self)
        else:
            batch.add_callback(self, callback)

    @property
    def is_settled(self) -> bool:
        """Return whether the outcome is known."""
        return self._batch.part_of(self._index)[0].is_settled

    @property
    def error(self) -> KafkaError | None:
        """Return what went wrong, None if nothing did (yet)."""
        batch, index = self._batch.part_of(self._index)
        if batch.error is None or not batch.record_errors:
            return batch.error
        if index in batch.record_errors:
            return KafkaError(batch.error.code, batch.record_errors[index])
        # The broker refuses a batch as a whole and names the records to blame (KIP-467).
        return KafkaError(
            ErrorCode.INVALID_RECORD, "another record of the same batch was refused, and with it this one"
        )

    def result(self) -> RecordMetadata:
        """Return where the record went; raise the error it failed with. It must be settled."""
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
    """The way to the log of `count` records that follow each other in a batch."""

    __slots__ = ("_batch", "_first", "_timestamp", "count")

    def __init__(self, batch: ProducerBatch, first: int, count: int, timestamp: int) -> None:
        self._batch = batch
        self._first = first
        self._timestamp = timestamp
        self.count = count

    def __iter__(self) -> Iterator[Delivery]:
        """Yield the delivery of each record."""
        for index in range(self._first, self._first + self.count):
            yield Delivery(self._batch, index, self._timestamp)

    def on_settled(self, callback: Callable[[DeliveryRun], None]) -> None:
        """Have `callback(run)` run when the records are delivered or failed.

        Where the batch is split it runs for each part of the run. As for `Delivery.on_settled`, it must not
        raise.
        """
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
        """Return whether all records are delivered."""
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
