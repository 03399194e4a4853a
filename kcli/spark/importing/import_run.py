"""Sends the rows of an export to a topic in order, each partition by its own task.

The first record that fails ends the import: nothing behind it is delivered, so a partition always holds a
prefix of what was to be sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import trio

from kcli.client.producer.producer import ProducerClosed
from kcli.errors import KcliError
from kcli.spark.importing.stored_records import Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kcli.client.producer.producer import Producer
    from kcli.client.producer.producer_batch import Delivery
    from kcli.spark.importing.import_state import PartitionPlan
    from kcli.spark.importing.stored_records import PartitionRows

PARTITIONS_AT_A_TIME = 8


class Watcher(Protocol):
    def advance(self, rows: int, size_bytes: int) -> None:
        """Add delivered records."""


class ImportRun:
    """Sends the rows that the plans have left. `delivered` counts acknowledged records."""

    def __init__(self, producer: Producer, topic: str, watcher: Watcher) -> None:
        self.delivered: dict[int, int] = {}
        self.error: KcliError | None = None
        self._producer = producer
        self._topic = topic
        self._watcher = watcher
        self._turns = trio.CapacityLimiter(PARTITIONS_AT_A_TIME)
        self._scope = trio.CancelScope()

    async def run(self, rows: Mapping[int, PartitionRows], plans: Mapping[int, PartitionPlan]) -> None:
        """Send the rows, and wait until all are delivered; raise the error of the first that failed."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                for partition, plan in plans.items():
                    if plan.todo:
                        nursery.start_soon(self._send_partition, rows[partition], plan)
            await self._producer.flush()
        if self.error is not None:
            raise self.error

    async def _send_partition(self, rows: PartitionRows, plan: PartitionPlan) -> None:
        async with self._turns:
            batches = rows.batches(plan.done)
            while (batch := await trio.to_thread.run_sync(next, batches, None)) is not None:
                await self._send(batch, plan.partition)

    async def _send(self, rows: Rows, partition: int) -> None:
        settled = self._counter(partition)
        send, topic = self._producer.send, self._topic
        for key, value, timestamp, headers in zip(*rows, strict=True):
            try:
                delivery = await send(
                    topic, value, key, partition=partition, headers=headers, timestamp=timestamp
                )
            except ProducerClosed:
                await trio.sleep_forever()  # a record failed: the scope is cancelled
            except KcliError as error:
                self._fail(partition, error)
                await trio.sleep_forever()
            else:
                delivery.on_settled(settled(len(key or b"") + len(value or b"")))

    def _counter(self, partition: int) -> Callable[[int], Callable[[Delivery], None]]:
        """Return a function that makes the callback of a record, given its size."""

        def settled(size: int) -> Callable[[Delivery], None]:
            def note(delivery: Delivery) -> None:
                if self.error is not None:
                    return
                if delivery.error is not None:
                    self._fail(partition, delivery.error)
                    return
                self.delivered[partition] = self.delivered.get(partition, 0) + 1
                self._watcher.advance(1, size)

            return note

        return settled

    def _fail(self, partition: int, error: KcliError) -> None:
        """Keep the first error, and cancel all sending."""
        if self.error is None:
            self.error = KcliError(
                f"cannot write to partition {partition} of `{self._topic}`: {error.message}", hint=error.hint
            )
            self._scope.cancel()
            self._producer.abort()


def row_before(rows: PartitionRows, plan: PartitionPlan) -> Rows | None:
    """Return the last row that the target has already, None without one."""
    if not plan.done:
        return None
    first = next(rows.batches(plan.done - 1))
    return Rows._make(column[:1] for column in first)
