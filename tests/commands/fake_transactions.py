"""FakeTransactions: a cluster of two brokers in memory that coordinates transactional ids."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kcli.client import admin
from kcli.client.admin import ProducerState, TopicPartition, TransactionDescription
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from tests.commands.fake_cluster import FakeCluster, unknown

NOW_MS = 1_700_000_600_000
STARTED_MS = 1_700_000_000_000


class FakeTransactions(FakeCluster):
    """What the coordinators know, and the producers of each partition."""

    def __init__(self) -> None:
        super().__init__()
        self.add("orders", [1, 2], [2, 1])
        self.add("clicks", [2])
        orders = tuple(TopicPartition("orders", index) for index in range(2))
        self.ids = {
            name: TransactionDescription(name, *row)
            for name, row in {
                "payments-1": (1, 1000, 4, "Ongoing", 60_000, STARTED_MS, orders),
                "payments-2": (2, 1001, 0, "Empty", 900_000, None, ()),
                "done": (2, 1003, 1, "CompleteCommit", 60_000, STARTED_MS, ()),
                "ledger": (1, 1002, 7, "PrepareCommit", 60_000, STARTED_MS, orders[:1]),
            }.items()
        }
        minutes = 60_000
        self.producers: dict[TopicPartition, list[ProducerState]] = {
            TopicPartition("orders", 0): [
                ProducerState(1000, 4, 11, 9, NOW_MS - 20 * minutes, 40),
                ProducerState(1002, 7, 11, 3, NOW_MS - 20 * minutes, 44),
                ProducerState(500, 1, -1, 0, NOW_MS - 30 * minutes, 20),
                ProducerState(501, 0, -1, 5, NOW_MS - 30 * minutes, None),
            ],
            TopicPartition("orders", 1): [
                ProducerState(1001, 0, 12, 2, NOW_MS - 90 * minutes, 7),
                ProducerState(600, 0, -1, 2, NOW_MS - 2 * minutes, 9),
            ],
            TopicPartition("clicks", 0): [],
        }
        self.aborted: list[tuple[TopicPartition, int, int, int]] = []
        self.silent: set[int] = set()
        self.writes_markers = False

    async def list_transactions(
        self,
        client: object,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        duration_ms: int | None = None,
        pattern: str | None = None,
        timeout_ms: int | None = None,
    ) -> admin.TransactionListings:
        if pattern in ("((", "["):
            refused = KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION)
            return admin.TransactionListings((), {1: refused, 2: refused})
        found = [
            admin.TransactionListing(each.transactional_id, each.coordinator, each.producer_id, each.state)
            for each in self.ids.values()
            if (not states or each.state in states)
            and (not producer_ids or each.producer_id in producer_ids)
            and (duration_ms is None or each.start_ms is None or NOW_MS - each.start_ms > duration_ms)
            and (pattern is None or each.transactional_id.startswith(pattern.removesuffix(".*")))
            and each.coordinator not in self.silent
        ]
        errors: dict[int, KcliError] = {
            node_id: KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) for node_id in self.silent
        }
        return admin.TransactionListings(tuple(found), errors)

    async def describe_transactions(
        self, client: object, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, TransactionDescription | KafkaError]:
        return {
            name: self.ids.get(name, KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND))
            for name in transactional_ids
        }

    async def describe_producers(
        self,
        client: object,
        partitions: Iterable[TopicPartition],
        *,
        node_id: int | None = None,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, tuple[ProducerState, ...] | KafkaError]:
        answers: dict[TopicPartition, tuple[ProducerState, ...] | KafkaError] = {}
        for partition in partitions:
            known = self.producers.get(partition)
            replicas = [] if known is None else self.topics[partition.topic].assignments[partition.partition]
            if known is None:
                answers[partition] = unknown()
            elif node_id is not None and node_id not in replicas:
                answers[partition] = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                answers[partition] = tuple(known)
        return answers

    async def abort_transaction(
        self,
        client: object,
        partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        timeout_ms: int | None = None,
    ) -> None:
        if partition not in self.producers:
            raise unknown()
        for state in self.producers[partition]:
            if state.producer_id == producer_id and producer_epoch < state.producer_epoch:
                raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
        self.aborted.append((partition, producer_id, producer_epoch, coordinator_epoch))

    async def force_terminate_transaction(
        self, client: object, transactional_id: str, *, timeout_ms: int = 60_000
    ) -> tuple[int, int]:
        known = self.ids[transactional_id]
        if known.state == "PrepareCommit" and not self.writes_markers:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return known.producer_id, known.producer_epoch + 2
