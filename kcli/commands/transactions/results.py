"""The results of `kcli transactions`: the text of Kafka's tool, tables and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.shared.formatting import moment_text
from kcli.commands.shared.java import hash_map_order, partition_hash, tabbed_lines
from kcli.commands.shared.output import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kcli.client import admin
    from kcli.commands.transactions.lookup import OpenTransaction
    from kcli.errors import KcliError

MINUTE_MS = 60_000
WITHOUT_TRANSACTION = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")
"""The states of ids whose last transaction, if there was one, has ended."""


class Listing(NamedTuple):
    """The result of `transactions list`."""

    transactions: Sequence[admin.TransactionListing]
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        names = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
        if self.transactions or not self.failures:
            yield from tabbed_lines(names, self.transactions)

    def tables(self) -> Iterator[Table]:
        yield Table(("Transactional id", "Coordinator", "Producer id", "State"), self.transactions)


class DescriptionRow(NamedTuple):
    """A transactional id. Without a transaction there is no start and no duration."""

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    duration_ms: int | None
    partitions: Sequence[str]

    @classmethod
    def of(cls, description: admin.TransactionDescription, now_ms: int) -> DescriptionRow:
        start_ms = description.start_ms
        # Kafka's tool has them in a set.
        ordered = hash_map_order(description.partitions, partition_hash)
        return cls(
            *description[:6],
            start_ms,
            None if start_ms is None else now_ms - start_ms,
            tuple(str(partition) for partition in ordered),
        )


class Description(NamedTuple):
    """The result of `transactions describe`."""

    transactions: Sequence[DescriptionRow]
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        names = (
            *("CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState"),
            *("TransactionTimeoutMs", "CurrentTransactionStartTimeMs", "TransactionDurationMs"),
            "TopicPartitions",
        )
        rows = [
            (row.coordinator, row.transactional_id, *row[2:8], ",".join(row.partitions))
            for row in self.transactions
        ]
        if self.transactions:
            yield from tabbed_lines(names, rows)

    def tables(self) -> Iterator[Table]:
        names = (
            *("Transactional id", "Coordinator", "Producer id", "Epoch", "State", "Timeout ms"),
            *("Started", "Duration ms", "Partitions"),
        )
        rows = [
            (
                *row[:6],
                None if row.start_ms is None else moment_text(row.start_ms),
                # It began then, but does not last any more.
                None if row.state in WITHOUT_TRANSACTION else row.duration_ms,
                row.partitions or None,
            )
            for row in self.transactions
        ]
        if rows:
            yield Table(names, rows)


class Producers(NamedTuple):
    """The result of `transactions describe-producers`."""

    topic: str
    partition: int
    producers: Sequence[admin.ProducerState]

    def lines(self) -> Iterator[str]:
        names = (
            *("ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp"),
            "CurrentTransactionStartOffset",
        )
        yield from tabbed_lines(names, self.producers)

    def tables(self) -> Iterator[Table]:
        names = (
            *("Producer id", "Epoch", "Coordinator epoch", "Last sequence", "Last written"),
            "Open since offset",
        )
        rows = [
            (*each[:4], moment_text(each.last_timestamp) if each.last_timestamp >= 0 else None, each[5])
            for each in self.producers
        ]
        yield Table(names, rows, f"{self.topic}-{self.partition}", numbers=names[-1:])


class HangingRow(NamedTuple):
    """A transaction that no coordinator will end, and for how many minutes nothing was written in it."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp: int
    duration_min: int

    @classmethod
    def of(cls, found: OpenTransaction, now_ms: int) -> HangingRow:
        producer, start_offset = found.producer, found.producer.start_offset
        return cls(
            *found.partition,
            *producer[:3],
            -1 if start_offset is None else start_offset,
            producer.last_timestamp,
            (now_ms - producer.last_timestamp) // MINUTE_MS,
        )


class Hanging(NamedTuple):
    """The result of `transactions find-hanging`."""

    transactions: Sequence[HangingRow]
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        names = (
            *("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset"),
            *("LastTimestamp", "Duration(min)"),
        )
        if self.transactions or not self.failures:
            yield from tabbed_lines(names, self.transactions)

    def tables(self) -> Iterator[Table]:
        names = (
            *("Topic", "Partition", "Producer id", "Epoch", "Coordinator epoch", "Start offset"),
            *("Last written", "Minutes"),
        )
        rows = [(*row[:6], moment_text(row.last_timestamp), row.duration_min) for row in self.transactions]
        yield Table(names, rows)


class Aborted(NamedTuple):
    """The result of `transactions abort`. Kafka's tool prints nothing."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int

    def lines(self) -> Sequence[str]:
        return ()

    def tables(self) -> Iterator[Table]:
        yield Table(("Topic", "Partition", "Producer id", "Epoch", "Coordinator epoch"), [self])


class Terminated(NamedTuple):
    """The result of `transactions force-terminate`: what the next producer continues from."""

    transactional_id: str
    producer_id: int
    producer_epoch: int

    def lines(self) -> Sequence[str]:
        return ()

    def tables(self) -> Iterator[Table]:
        yield Table(("Transactional id", "Producer id", "Epoch"), [self])
