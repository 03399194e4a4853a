"""The run of a schedule with transactions: transactional producers, and readers of committed records.

What must be true whenever the cluster is repaired: every partition is stable up to its end, on all replicas;
of each transaction a reader has seen all records or none, each once and in order: all if the commit was
acknowledged, none if it was aborted. The offset of a group is that of the last committed transaction.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import trio

from kcli.broker.controller.replication_control import NewTopic, TopicDefaults
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.protocol.records.control_records import ControlRecordType, parse_end_txn_marker
from kcli.protocol.topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tests.broker.schedules.clients import (
    BACKOFF_SECONDS,
    REQUEST_SECONDS,
    RETRIED,
    TOPIC,
    Violation,
)
from tests.broker.schedules.happenings import PARTITIONS, Happenings
from tests.broker.schedules.life import PROPERTIES, RECOVERY_SECONDS
from tests.broker.schedules.schedule import NODES
from tests.broker.schedules.simulated_cluster import Lost, simulated_cluster
from tests.broker.schedules.transactional_producer import Refused, TransactionalProducer

if TYPE_CHECKING:
    from pathlib import Path

    from kcli.broker.controller.controller import Controller
    from kcli.broker.replication.partition import Partition
    from tests.broker.schedules.schedule import Life, Schedule
    from tests.broker.schedules.simulated_cluster import SimulatedCluster

TRANSACTIONS = {
    **PROPERTIES,
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
THINK_SECONDS = 0.1

ENDED_BY_OTHERS = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""What a producer gets whose transaction the coordinator has aborted for its time."""


@dataclass
class Transaction:
    """What a transaction wrote, by partition; `outcome` is None if nobody told the producer."""

    values: dict[int, list[str]] = field(default_factory=dict)
    has_offset: bool = False
    outcome: bool | None = None
    may_commit: bool = False
    """Whether the producer asked for a commit."""


class TransactionalClient:
    """A transactional id, whose producer crashes at times, and what its transactions wrote."""

    def __init__(self, name: str, random: Random, *, is_tv2: bool, timeout_ms: int) -> None:
        self.name = name
        self.transactions: list[Transaction] = []
        self.enough = False
        self._random = random
        self._is_tv2 = is_tv2
        self._timeout_ms = timeout_ms

    async def run(self, cluster: SimulatedCluster) -> None:
        """Write transactions until there is enough; end the last."""
        producer = None
        while not self.enough:
            if producer is None:
                producer = TransactionalProducer(
                    cluster, self.name, is_tv2=self._is_tv2, timeout_ms=self._timeout_ms
                )
                await producer.init()
            transaction = Transaction(may_commit=self._random.random() < 0.7)
            self.transactions.append(transaction)
            crash_after = self._random.expovariate(1) if self._random.random() < 0.2 else float("inf")
            try:
                with trio.move_on_after(crash_after) as scope:
                    await self._write(producer, transaction)
            except Refused as refusal:
                if refusal.code not in ENDED_BY_OTHERS:
                    raise Violation(f"{self.name} got {refusal.code.name}") from refusal
                producer = None
            if scope.cancelled_caught:
                producer = None
        final = TransactionalProducer(cluster, self.name, is_tv2=self._is_tv2, timeout_ms=self._timeout_ms)
        await final.init()

    def check_offset(self, cluster: SimulatedCluster) -> None:
        """Compare the offset of the group with the outcomes. Raises `Violation`."""
        known = [(number, each) for number, each in enumerate(self.transactions, start=1) if each.has_offset]
        last = max((number for number, each in known if each.outcome), default=-1)
        allowed = {last}
        allowed |= {
            number for number, each in known if number > last and each.outcome is None and each.may_commit
        }
        image = cluster.controller.image.topics.get(GROUP_METADATA_TOPIC)
        if image is None:
            return
        coordinator = cluster.node(image.partitions[0].leader)
        assert coordinator is not None
        wanted = OffsetFetchRequestGroup(
            group_id=self.name, topics=[OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
        )
        (topic,) = coordinator.groups.shard(0).offset_fetch(wanted, require_stable=True).topics
        (row,) = topic.partitions
        if row.error_code or row.committed_offset not in allowed:
            raise Violation(f"the offset of {self.name} is {row}, not one of {allowed}")

    async def _write(self, producer: TransactionalProducer, transaction: Transaction) -> None:
        number = len(self.transactions)
        for batch in range(self._random.randint(1, 3)):
            index = self._random.randrange(PARTITIONS)
            values = [f"{self.name}:{number}:{batch}:{n}" for n in range(self._random.randint(1, 2))]
            transaction.values.setdefault(index, []).extend(values)
            await producer.send(TOPIC, index, *(value.encode() for value in values))
            await trio.sleep(self._random.expovariate(1 / THINK_SECONDS))
        if self._random.random() < 0.3:
            transaction.has_offset = True
            await producer.send_offset(self.name, TOPIC, 0, number)
        await producer.end(commit=transaction.may_commit)
        transaction.outcome = transaction.may_commit


@dataclass
class CommittedReader:
    """A reader of the committed records of one partition."""

    index: int
    position: int = 0
    seen: list[str] = field(default_factory=list)

    async def run(self, cluster: SimulatedCluster) -> None:
        """Read until cancelled."""
        while True:
            if not await self._fetch(cluster):
                await trio.sleep(BACKOFF_SECONDS)

    async def _fetch(self, cluster: SimulatedCluster) -> bool:
        row = FetchPartition(partition=self.index, fetch_offset=self.position, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            isolation_level=1,
            topics=[FetchTopic(topic=TOPIC, partitions=[row])],
        )
        try:
            leader = leader_of(cluster, self.index)
            response = await cluster.ask(leader, request, 11, seconds=REQUEST_SECONDS)
        except Lost:
            return False
        answer = response.responses[0].partitions[0]
        code = ErrorCode.of(answer.error_code)
        if code in RETRIED:
            return False
        if code is not ErrorCode.NONE:
            raise Violation(f"a reader of partition {self.index} at {self.position} got {code.name}")
        self._take(answer)
        return True

    def _take(self, answer: Any) -> None:
        """Keep the records of transactions that were not aborted, as a client does."""
        aborted = sorted(answer.aborted_transactions or (), key=lambda each: each.first_offset)
        skipped: set[int] = set()
        for batch in iter_batches(answer.records or b""):
            assert isinstance(batch, RecordBatch)
            if batch.last_offset >= answer.last_stable_offset:
                raise Violation(
                    f"offset {batch.last_offset} came, the last stable offset is {answer.last_stable_offset}"
                )
            while aborted and aborted[0].first_offset <= batch.last_offset:
                skipped.add(aborted.pop(0).producer_id)
            if batch.is_control:
                (record,) = batch.records()
                if parse_end_txn_marker(record).control_type == ControlRecordType.ABORT:
                    skipped.discard(batch.producer_id)
            elif batch.producer_id not in skipped:
                self.seen += [
                    bytes(record.value or b"").decode()
                    for record in batch.records()
                    if record.offset >= self.position
                ]
            self.position = batch.last_offset + 1


class TransactionRun:
    """A schedule under way, with clients that live through all its processes."""

    def __init__(self, schedule: Schedule, directory: Path) -> None:
        self.schedule = schedule
        self._directory = directory
        random = Random(schedule.seed + 1)
        self._clients = [
            TransactionalClient(
                f"x{number}",
                Random(random.random()),
                is_tv2=number != 1,
                timeout_ms=1500 if number == 2 else 60_000,
            )
            for number in range(3)
        ]
        self._readers = [CommittedReader(index) for index in range(PARTITIONS)]
        self._happenings = Happenings()

    @property
    def committed(self) -> int:
        """The number of acknowledged commits."""
        return sum(each.outcome is True for client in self._clients for each in client.transactions)

    async def run(self) -> None:
        """Run the schedule. Raises `Violation`, and the errors of nodes."""
        for number, life in enumerate(self.schedule.lives):
            async with simulated_cluster(
                self._directory, nodes=len(NODES), properties=TRANSACTIONS, kill=lambda life=life: life.kill
            ) as cluster:
                if number == 0:
                    create_topic(cluster.controller)
                await self._live(cluster, life)
            self._check(f"after process {number + 1}")

    async def _live(self, cluster: SimulatedCluster, life: Life) -> None:
        for client in self._clients:
            client.enough = False
        async with trio.open_nursery() as nursery, trio.open_nursery() as producing:
            for reader in self._readers:
                nursery.start_soon(reader.run, cluster)
            for client in self._clients:
                producing.start_soon(client.run, cluster)
            await self._happenings.follow(cluster, life)
            await self._happenings.repair(cluster)
            for client in self._clients:
                client.enough = True
            with trio.fail_after(RECOVERY_SECONDS):
                while not self._is_level(cluster):  # noqa: ASYNC110 - nothing tells of it
                    await trio.sleep(0.2)
            for client in self._clients:
                client.check_offset(cluster)
            nursery.cancel_scope.cancel()

    def _is_level(self, cluster: SimulatedCluster) -> bool:
        """Return whether every replica is complete and stable, and readers have read everything."""
        for topic in (TOPIC, TRANSACTION_STATE_TOPIC, GROUP_METADATA_TOPIC):
            image = cluster.controller.image.topics.get(topic)
            for index, registration in enumerate(() if image is None else image.partitions):
                replicas = replicas_of(cluster, topic, index)
                if not set(registration.isr) == set(registration.replicas) == set(replicas):
                    return False
                ends = set()
                for each in replicas.values():
                    ends |= {each.log.log_end_offset, each.log.high_watermark, each.log.last_stable_offset}
                if topic == TOPIC:
                    ends.add(self._readers[index].position)
                if len(ends) != 1:
                    return False
        return True

    def _check(self, when: str) -> None:
        """Compare what readers saw with the outcomes of the transactions, and compare the replicas."""
        seen = {reader.index: Counter(reader.seen) for reader in self._readers}
        for reader in self._readers:
            values, counts = reader.seen, seen[reader.index]
            if repeated := [value for value, count in counts.items() if count > 1]:
                raise Violation(f"{when}, {repeated[0]} is twice in partition {reader.index}")
            for client in self._clients:
                own = [value for value in values if value.startswith(f"{client.name}:")]
                if own != sorted(own, key=_order):
                    raise Violation(f"{when}, the records of {client.name} are out of order")
        for client in self._clients:
            for number, each in enumerate(client.transactions, start=1):
                found = [value in seen[index] for index, values in each.values.items() for value in values]
                name = f"transaction {number} of {client.name}"
                if each.outcome is True and not all(found):
                    raise Violation(f"{when}, {name} was committed, of its records are there: {found}")
                if any(found) and (each.outcome is False or not each.may_commit):
                    raise Violation(f"{when}, {name} was aborted, of its records are there: {found}")
                if any(found) and not all(found):
                    raise Violation(f"{when}, half of {name} is there: {found}")
        for index in range(PARTITIONS):
            copies = {
                b"".join(path.read_bytes() for path in sorted(log.glob("*.log")))
                for node in NODES
                if (log := self._directory / f"node-{node}" / f"{TOPIC}-{index}").is_dir()
            }
            if len(copies) != 1:
                raise Violation(f"{when}, the replicas of partition {index} differ")


def _order(value: str) -> list[int]:
    return [int(part) for part in value.split(":")[1:]]


def leader_of(cluster: SimulatedCluster, index: int) -> int:
    """Return the leader of a partition. Raises `Lost` without one."""
    if cluster.cluster.election.controller is None:
        raise Lost("there is no controller")
    leader = cluster.controller.image.topics[TOPIC].partitions[index].leader
    if leader < 0:
        raise Lost("the partition has no leader")
    return leader


def replicas_of(cluster: SimulatedCluster, topic: str, index: int) -> dict[int, Partition]:
    """Return the replicas of a partition on running nodes."""
    found = {}
    for node in NODES:
        broker = cluster.node(node)
        partition = None if broker is None else broker.replica_manager.partitions.get((topic, index))
        if partition is not None:
            found[node] = partition
    return found


def create_topic(controller: Controller) -> None:
    """Create the topic of the schedule."""
    (outcome,) = controller.create_topics(
        [NewTopic(TOPIC, PARTITIONS, len(NODES), configs={"min.insync.replicas": "2"})],
        defaults=TopicDefaults(1, 1, {}),
    )
    if isinstance(outcome, Exception):
        raise outcome
