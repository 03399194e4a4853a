"""Producer: sends records and reports their delivery.

    async with Producer(client, ProducerConfig(linger_ms=20)) as producer:
        delivery = await producer.send("orders", b"value", b"key")
        where = await delivery.wait()          # RecordMetadata(topic, partition, offset, timestamp)

`send` returns once the record is queued; `send_nowait` never waits and raises `trio.WouldBlock` where `send`
would wait (no metadata yet, no memory left). A block that ends normally delivers all records; a block that
ends by an exception or a cancellation fails the undelivered ones.

With a `transactional_id`, records belong to a transaction. `read_committed` shows all of it or nothing:

    async with Producer(client, ProducerConfig(transactional_id="orders-1")) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("orders", b"value")
            await producer.send_offsets(offsets, consumer.group_metadata)
"""

from __future__ import annotations

from contextlib import asynccontextmanager, nullcontext
from time import time
from typing import TYPE_CHECKING

import trio

from kcli.client.config import ProducerConfig
from kcli.client.network.background import Background, shielded_nursery
from kcli.client.producer.accumulator import BATCH_OVERHEAD, RECORD_OVERHEAD, Accumulator, MemoryBudget
from kcli.client.producer.partitioner import Partitioner
from kcli.client.producer.sender import Sender
from kcli.client.producer.sequences import Sequences
from kcli.errors import KcliError, UsageError
from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from kcli.client.admin.types import CommittedOffset
    from kcli.client.client import Client
    from kcli.client.groups.classic_membership import GroupMetadata
    from kcli.client.network.metadata import TopicMetadata
    from kcli.client.producer.open_transaction import OpenTransaction
    from kcli.client.producer.producer_batch import Delivery, DeliveryRun, ProducerBatch
    from kcli.client.producer.transactions import Transactions
    from kcli.protocol.topics import TopicPartition

CHECKPOINT_RECORDS = 256
"""How many sends run in a row before other tasks get a turn."""

UNUSED_OVERHEAD = RECORD_OVERHEAD - 8
"""The upper bound of a record's size minus its usual size."""

TOPIC_USE_RECORDS = 4096
"""How many records pass before the topic is marked as in use again."""


class ProducerClosed(KcliError):
    """The producer takes no more records."""


class Producer(Background):
    """Sends records to a cluster; shareable by many tasks. Use it with `async with`.

    `warn` gets a line for each kind of error that delays records for more than three seconds.
    """

    def __init__(
        self,
        client: Client,
        config: ProducerConfig | None = None,
        *,
        wall_ms: Callable[[], int] = lambda: int(time() * 1000),
        warn: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.config = config or ProducerConfig()
        self.budget = MemoryBudget(self.config.buffer_memory)
        self._client = client
        self._cache = client.cache
        self._wall_ms = wall_ms
        self._accumulator = Accumulator(self.config, self.budget)
        self._partitioner = Partitioner(
            self.config.partitioner,
            batch_size=self.config.batch_size,
            adaptive=self.config.partitioner_adaptive_partitioning_enable,
            ignore_keys=self.config.partitioner_ignore_keys,
        )
        self._transactions: Transactions | None = None
        self._sequences = None
        if self.config.is_idempotent:
            self._sequences = Sequences(is_transactional=bool(self.config.transactional_id))
        if self._sequences is not None and self.config.transactional_id:
            # Imported here: most producers have no transactions.
            from kcli.client.producer.transactions import Transactions

            self._transactions = Transactions(
                client, self.config, sequences=self._sequences, flush=self.flush, warn=warn
            )
        self._sender = Sender(
            client,
            self.config,
            accumulator=self._accumulator,
            sequences=self._sequences,
            partitioner=self._partitioner,
            warn=warn,
            transactions=self._transactions,
        )
        self._largest = min(self.config.max_request_size, self.config.buffer_memory)
        self._is_closed = False
        self._sends = 0

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery, self._tasks(nursery) as tasks:
            tasks.start_soon(self._sender.run)
            if self._transactions is not None:
                self._transactions.nursery = tasks
            try:
                yield
                await self.close()
            finally:
                self._is_closed = self._accumulator.is_closed = True
                self._sender.close()
                if self._transactions is not None:
                    self._transactions.close()
                nursery.cancel_scope.cancel()

    def _tasks(self, nursery: trio.Nursery) -> AbstractAsyncContextManager[trio.Nursery]:
        """Return a nursery for tasks: one that outlives a cancellation, if a transaction must be aborted."""
        return nullcontext(nursery) if self._transactions is None else shielded_nursery(nursery)

    def send_nowait(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp: int | None = None,
    ) -> Delivery:
        """Queue a record now. `timestamp` in ms is the current time unless given.

        Raises `trio.WouldBlock` without metadata or memory, `KafkaError` 10 if the record is larger than
        `max.request.size` or `buffer.memory`, `KafkaError` 3 for a partition that the topic does not have,
        and `ProducerClosed`.
        """
        if self._is_closed or self._sender.fatal_error is not None:
            raise self._closed()
        if self._transactions is not None:
            self._transactions.check_send()
        known = self._cache.cluster.topics.get(topic)
        if known is None or not known.partitions:
            raise trio.WouldBlock
        self._sends += 1
        if not self._sends % TOPIC_USE_RECORDS:
            self._client.want_topic(topic, auto_create=True)
        chosen = self._partitioner.partition(known, key) if partition is None else partition
        size = RECORD_OVERHEAD
        if key is not None:
            size += len(key)
        if value is not None:
            size += len(value)
        if headers:
            size += _headers_size(headers)
        if timestamp is None:
            timestamp = self._wall_ms()
        delivery = self._accumulator.append(topic, chosen, timestamp, key, value, headers, size)
        if delivery is None:
            self._check(known, chosen, size)
            memory = self._accumulator.needed_memory(size)
            if not self.budget.reserve_nowait(memory):
                if partition is None:
                    self._partitioner.not_appended(known)
                raise trio.WouldBlock
            batch = self._accumulator.open_batch(topic, chosen, trio.current_time(), memory)
            delivery = batch.append(timestamp, key, value, headers)
            # The sender waits for the linger of the new batch, and the one before it is full.
            self._sender.wake()
        if partition is None and self._partitioner.is_free(key):
            self._partitioner.appended(
                known, size - UNUSED_OVERHEAD, lambda: self._accumulator.all_full(topic, chosen)
            )
        return delivery

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp: int | None = None,
    ) -> Delivery:
        """Queue a record as `send_nowait`, waiting up to `max.block.ms`; then raise `KafkaError` 7."""
        try:
            delivery = self.send_nowait(
                topic, value, key, partition=partition, headers=headers, timestamp=timestamp
            )
        except trio.WouldBlock:
            if timestamp is None:
                timestamp = self._wall_ms()
            return await self._send_waiting(topic, value, key, partition, headers, timestamp)
        if not self._sends % CHECKPOINT_RECORDS:
            await trio.lowlevel.checkpoint()
        return delivery

    async def send_values(
        self, topic: str, values: Sequence[bytes], start: int = 0, *, partition: int | None = None
    ) -> DeliveryRun:
        """Queue values without keys, from index `start` on: as many as fit into one batch, at least one.

        For many small records this is faster than `send`: its cost is per batch, not per record. If each
        record gets its own partition, it queues one at a time. Raises the errors of `send` for the first
        value.
        """
        if self._is_closed or self._sender.fatal_error is not None:
            raise self._closed()
        if self._transactions is not None:
            await self._transactions.wait_to_send()
        known = self._cache.cluster.topics.get(topic)
        run = None
        is_one_batch = partition is not None or self._partitioner.is_free(None)
        if known is not None and known.partitions and is_one_batch:
            chosen = self._partitioner.partition(known, None) if partition is None else partition
            run = self._accumulator.append_values(topic, chosen, self._wall_ms(), values, start)
        if known is None or run is None:
            # `send` opens a new batch with the first value.
            return (await self.send(topic, values[start], partition=partition)).as_run()
        self._sends += run.count
        if self._sends % TOPIC_USE_RECORDS < run.count:
            self._client.want_topic(topic, auto_create=True)
        if partition is None:
            size = sum(map(len, values[start : start + run.count]))
            size += run.count * (RECORD_OVERHEAD - UNUSED_OVERHEAD)
            self._partitioner.appended(known, size, lambda: self._accumulator.all_full(topic, chosen))
        await trio.lowlevel.checkpoint()
        return run

    async def _send_waiting(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        headers: Sequence[tuple[str, bytes | None]],
        timestamp: int,
    ) -> Delivery:
        if self._transactions is not None:
            await self._transactions.wait_to_send()
        what = f"metadata of topic {topic}"
        with trio.move_on_after(self.config.max_block_ms / 1000):
            known = await self._client.wait_for_topic(topic, auto_create=True)
            chosen = self._partitioner.partition(known, key) if partition is None else partition
            size = RECORD_OVERHEAD + len(key or b"") + len(value or b"") + _headers_size(headers)
            self._check(known, chosen, size)
            what = f"memory: {self.budget.available} of {self.budget.total} bytes are left"
            memory = self._accumulator.needed_memory(size)
            # A waiter for memory makes every batch sendable: wake the sender.
            self._sender.wake()
            await self.budget.reserve(memory)
            try:
                if self._is_closed:
                    raise self._closed()
                if self._transactions is not None:
                    # It may end, or have failed, meanwhile.
                    await self._transactions.wait_to_send()
                # Another task may have opened a batch meanwhile.
                delivery = self._accumulator.append(topic, chosen, timestamp, key, value, headers, size)
                if delivery is None:
                    batch = self._accumulator.open_batch(topic, chosen, trio.current_time(), memory)
                    memory = 0
                    delivery = batch.append(timestamp, key, value, headers)
            finally:
                if memory:
                    self.budget.release(memory)
            self._sender.wake()
            if partition is None and self._partitioner.is_free(key):
                self._partitioner.appended(
                    known, size - UNUSED_OVERHEAD, lambda: self._accumulator.all_full(topic, chosen)
                )
            return delivery
        why = f"waited {self.config.max_block_ms} ms for {what}"
        raise self._refused(KafkaError(ErrorCode.REQUEST_TIMED_OUT, why))

    def _check(self, known: TopicMetadata, partition: int, size: int) -> None:
        """Raise `KafkaError` for a record that no retry would queue."""
        if partition not in known.partitions:
            raise self._refused(
                KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"topic {known.name} has no partition {partition}, it has {len(known.partitions)}",
                )
            )
        if BATCH_OVERHEAD + size > self._largest:
            raise self._refused(
                KafkaError(
                    ErrorCode.MESSAGE_TOO_LARGE,
                    f"the record takes {BATCH_OVERHEAD + size} bytes, the limit is {self._largest}",
                    hint="raise `max.request.size`, and `buffer.memory` if that is smaller",
                )
            )

    def _refused(self, error: KafkaError) -> KafkaError:
        """Return the error of a record that is not queued: a transaction may not be committed without it."""
        if self._transactions is not None:
            self._transactions.request_failed(error)
        return error

    async def partitions_for(self, topic: str) -> TopicMetadata:
        """Return a topic's metadata, waiting up to `max.block.ms`; raise `KafkaError`."""
        with trio.move_on_after(self.config.max_block_ms / 1000):
            return await self._client.wait_for_topic(topic, auto_create=True)
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, f"waited {self.config.max_block_ms} ms for metadata of topic {topic}"
        )

    async def flush(self) -> None:
        """Wait until every record sent before this call is delivered or failed."""
        accumulator = self._accumulator
        accumulator.flushing += 1
        self._sender.wake()
        try:
            for batch in list(accumulator.incomplete):
                await _settled(batch)
        finally:
            accumulator.flushing -= 1

    async def close(self, timeout_ms: int | None = None) -> None:
        """Take no more records, deliver the sent ones, and fail those not delivered in time.

        A transaction that is open is aborted.
        """
        was_closed = self._is_closed
        self._is_closed = self._accumulator.is_closed = True
        seconds = float("inf") if timeout_ms is None else timeout_ms / 1000
        with trio.move_on_after(seconds):
            if self._transactions is not None and not was_closed:
                await self._transactions.give_up()
            await self.flush()
        self._sender.close()

    @property
    def transactions(self) -> Transactions:
        """Return the transactions of a producer with a `transactional.id`; raise `UsageError` for others."""
        if self._transactions is None:
            raise UsageError("the producer has no `transactional.id`")
        return self._transactions

    async def init_transactions(self) -> None:
        """Take over the transactional id: older producers with it are fenced, their transaction is aborted.

        Needed once, before the first transaction. This and the calls below wait up to `max.block.ms`, then
        raise `KafkaError` 7; another call goes on waiting. Every call raises the error of a producer that
        may not go on, for example because it is fenced.
        """
        await self.transactions.init()

    async def begin_transaction(self) -> None:
        """Begin a transaction, to which every record belongs that is sent from now on."""
        await self.transactions.begin()

    async def commit_transaction(self) -> None:
        """Deliver the records of the transaction and commit it.

        Raises the error of a record that was not delivered: then the transaction must be aborted. A commit
        that is cancelled before it was asked for is withdrawn.
        """
        await self.transactions.commit()

    async def abort_transaction(self) -> None:
        """Drop the records that are not sent, and abort the transaction."""
        await self.transactions.abort()

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Return a context that begins a transaction and commits it, or aborts it if the block is left.

        An error and a cancellation abort it: that is shielded, for at most `max.block.ms`.
        """
        return self.transactions.transaction()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, CommittedOffset], member: GroupMetadata
    ) -> None:
        """Commit a group's offsets with the transaction: see `Consumer.group_metadata` (KIP-447)."""
        await self.transactions.send_offsets(offsets, member)

    async def hand_over(self) -> OpenTransaction | None:
        """Deliver the records of the transaction, and leave it open for `end_transaction`.

        Returns None if there were no records. Raises the error of a record that was not delivered.
        """
        return await self.transactions.hand_over()

    def abort(self) -> None:
        """Take no more records and fail all undelivered ones at once; the callback of a delivery may call it.

        If an idempotent producer is aborted when its first record fails, no later record is stored without
        it: the broker refuses the requests that follow.
        """
        self._is_closed = self._accumulator.is_closed = True
        self._sender.close()

    def _closed(self) -> KcliError:
        return self._sender.fatal_error or ProducerClosed("the producer is closed")


def _headers_size(headers: Sequence[tuple[str, bytes | None]]) -> int:
    """Return the largest size of the headers; a character takes up to four bytes."""
    return sum(10 + 4 * len(name) + len(content or b"") for name, content in headers)


async def _settled(batch: ProducerBatch) -> None:
    await batch.wait()
    for part in batch.parts or ():
        await _settled(part)
