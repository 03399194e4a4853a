"""The run of one schedule, and what must be true whenever the cluster is repaired."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import trio

from kcli.broker.controller.replication_control import NewTopic, TopicDefaults
from kcli.protocol.records.batch import RecordBatch, iter_batches
from tests.broker.schedules.clients import TOPIC, Consumer, Producer, View, Violation
from tests.broker.schedules.happenings import PARTITIONS, Happenings
from tests.broker.schedules.schedule import NODES
from tests.broker.schedules.simulated_cluster import simulated_cluster

if TYPE_CHECKING:
    from pathlib import Path

    from kcli.broker.controller.controller import Controller
    from tests.broker.schedules.schedule import Life, Schedule
    from tests.broker.schedules.simulated_cluster import SimulatedCluster

PROPERTIES = {
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "300",
    "replica.fetch.backoff.ms": "100",
    "replica.socket.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "1000",
    "auto.create.topics.enable": "false",
}
RECOVERY_SECONDS = 60.0
"""In virtual time: how long everything may take once all is repaired."""


class Run:
    """A schedule under way, with clients that live through all its processes."""

    def __init__(self, schedule: Schedule, directory: Path) -> None:
        self.schedule = schedule
        self._directory = directory
        self._random = Random(schedule.seed + 1)
        self._producers = [
            Producer(
                f"p{number}",
                number % PARTITIONS,
                self._rng(),
                View(self._rng(), len(NODES)),
                think_seconds=0.25,
            )
            for number in range(PARTITIONS + 1)
        ]
        self._consumers = [Consumer(each, View(self._rng(), len(NODES))) for each in range(PARTITIONS)]
        self._happenings = Happenings()
        self.records = 0

    def _rng(self) -> Random:
        return Random(self._random.random())

    async def run(self) -> None:
        """Run the schedule. Raises `Violation`, and the errors of nodes."""
        for number, life in enumerate(self.schedule.lives):
            async with simulated_cluster(
                self._directory, nodes=len(NODES), properties=PROPERTIES, kill=lambda life=life: life.kill
            ) as cluster:
                if number == 0:
                    create_topic(cluster.controller)
                await self._live(cluster, life)
            self._check_replicas(f"after process {number + 1}")

    async def _live(self, cluster: SimulatedCluster, life: Life) -> None:
        for producer in self._producers:
            producer.enough = False
        async with trio.open_nursery() as nursery, trio.open_nursery() as producing:
            for consumer in self._consumers:
                nursery.start_soon(consumer.run, cluster)
            for producer in self._producers:
                producing.start_soon(producer.run, cluster)
            await self._happenings.follow(cluster, life)
            await self._happenings.repair(cluster)
            for producer in self._producers:
                producer.enough = True
            with trio.fail_after(RECOVERY_SECONDS):
                await self._until_level(cluster)
            nursery.cancel_scope.cancel()

    # --- what must be

    async def _until_level(self, cluster: SimulatedCluster) -> None:
        """Wait until every replica is in sync and complete, and readers have read it."""
        while not self._is_level(cluster):  # noqa: ASYNC110 - nothing tells of it
            await trio.sleep(0.2)

    def _is_level(self, cluster: SimulatedCluster) -> bool:
        if any(producer.pending for producer in self._producers):
            return False
        for index in range(PARTITIONS):
            registration = cluster.controller.image.topics[TOPIC].partitions[index]
            if (
                registration.adding
                or registration.removing
                or set(registration.isr) != set(registration.replicas)
            ):
                return False
            ends = set()
            for node in registration.replicas:
                broker = cluster.node(node)
                partition = None if broker is None else broker.replica_manager.partitions.get((TOPIC, index))
                if partition is None:
                    return False
                ends |= {partition.log.log_end_offset, partition.log.high_watermark}
            if ends != {len(self._consumers[index].seen)}:
                return False
        return True

    def _check_replicas(self, when: str) -> None:
        """Compare the bytes of all replicas, and their values with the acknowledged and the read ones."""
        for index in range(PARTITIONS):
            copies = {}
            for node in NODES:
                log = self._directory / f"node-{node}" / f"{TOPIC}-{index}"
                if log.is_dir():
                    copies[node] = b"".join(each.read_bytes() for each in sorted(log.glob("*.log")))
            if len(set(copies.values())) != 1:
                sizes = {node: len(content) for node, content in copies.items()}
                raise Violation(f"{when}, the replicas of partition {index} differ: {sizes} bytes")
            self._check_records(index, values_of(next(iter(copies.values()))), when)

    def _check_records(self, index: int, values: list[str], when: str) -> None:
        self.records += len(values)
        seen = self._consumers[index].seen
        if seen != values[: len(seen)]:
            raise Violation(f"{when}, partition {index} has other records than were read")
        for producer in self._producers:
            if producer.partition != index:
                continue
            own = [value for value in values if value.startswith(f"{producer.name}:")]
            expected = [f"{producer.name}:{number}" for number in range(len(own))]
            if own != expected:
                wrong = next(pair for pair in zip(own, expected, strict=True) if pair[0] != pair[1])
                raise Violation(f"{when}, partition {index} has {wrong[0]} where {wrong[1]} belongs")
            if len(producer.acknowledged) > len(own):
                raise Violation(
                    f"{when}, {len(producer.acknowledged) - len(own)} acknowledged records are lost"
                )
            for value, offset in producer.acknowledged.items():
                if offset >= 0 and values[offset] != value:
                    raise Violation(
                        f"{when}, {value} was acknowledged at {offset}, there is {values[offset]}"
                    )


def create_topic(controller: Controller) -> None:
    """Create the topic of the schedule."""
    (outcome,) = controller.create_topics(
        [NewTopic(TOPIC, PARTITIONS, len(NODES), configs={"segment.ms": "3000", "min.insync.replicas": "2"})],
        defaults=TopicDefaults(1, 1, {}),
    )
    if isinstance(outcome, Exception):
        raise outcome


def values_of(log: bytes) -> list[str]:
    """Return the values in a log, whose offsets must have no gap."""
    values: list[str] = []
    for batch in iter_batches(log):
        assert isinstance(batch, RecordBatch)
        for record in batch.records():
            if record.offset != len(values):
                raise Violation(f"offset {record.offset} stands where {len(values)} belongs")
            values.append(bytes(record.value or b"").decode())
    return values
