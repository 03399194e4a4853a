"""Java's consumer in a rack reads from the replica that is in it, and from the leader when that is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.apache_kafka import java_command
from tests.support.kcli_cluster import KcliCluster
from tests.support.processes import ChildProcess
from tests.support.toolchain import java_classes
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.interop

TOPIC = "near"
LEADER, NEAR = 2, 3
RACKS = "rack-1,rack-2,rack-3"
COUNT, RECORD_BYTES = 100, 1000
SETTINGS = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "auto.leader.rebalance.enable": "false",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KcliCluster]:
    """Nodes in a rack each, and a topic that two of them have."""
    running = KcliCluster(tmp_path, settings=SETTINGS, arguments=("--rack", RACKS))
    running.broker.start()
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    wanted = NewTopic(TOPIC, num_partitions=1, replica_assignment=[[LEADER, NEAR]])
    admin.create_topics([wanted])[TOPIC].result(30)
    yield running
    assert running.broker.stop() == 0


def produce(cluster: KcliCluster, first: int) -> None:
    """Produce records that every in-sync replica has."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(first, first + COUNT):
        producer.produce(TOPIC, str(number).zfill(RECORD_BYTES), partition=0)
    assert producer.flush(60) == 0


class RackConsumer:
    """The program, and what it said."""

    def __init__(self, bootstrap: str, rack: str, *counts: int, log: Path) -> None:
        self.lines: list[str | None] = []
        module = "clients-4.3"
        command = java_command(
            module, "RackConsumer", "-Xmx64m", classes=java_classes(module, "RackConsumer")
        )
        arguments = (bootstrap, TOPIC, rack, *map(str, counts))
        self.process = ChildProcess([*command, *arguments], stderr=log, on_line=self.lines.append)

    def report(self, count: int) -> tuple[int, dict[int, int]]:
        """When so many records are read: the node that is read from, and the bytes that each has sent."""
        end = f"count {count}"
        eventually(
            lambda: end in self.lines or None in self.lines, end, seen=lambda: (self.lines[-1:], self.errors)
        )
        assert end in self.lines, self.errors
        words = [line.split() for line in self.lines[: self.lines.index(end)] if line]
        source = [int(rest[0]) for kind, *rest in words if kind == "from"][-1]
        return source, {int(rest[0]): int(rest[1]) for kind, *rest in words if kind == "received"}

    @property
    def values(self) -> list[str]:
        """What it has read, in order."""
        words = [line.split() for line in self.lines if line]
        return [rest[1] for kind, *rest in words if kind == "read"]

    @property
    def errors(self) -> str:
        """What it wrote to standard error."""
        return self.process.errors[-2000:]


def test_a_consumer_reads_from_the_replica_in_its_rack_while_there_is_one(
    cluster: KcliCluster, tmp_path: Path
) -> None:
    produce(cluster, 0)
    consumer = RackConsumer(
        cluster.bootstrap, f"rack-{NEAR}", COUNT, 2 * COUNT, log=tmp_path / "consumer.log"
    )
    try:
        source, received = consumer.report(COUNT)
        assert source == NEAR
        assert received[NEAR] > COUNT * RECORD_BYTES
        # Where to read from is all that the leader has told.
        assert received[LEADER] < 5 * RECORD_BYTES
        cluster.stop_node(NEAR)
        produce(cluster, COUNT)
        source, received = consumer.report(2 * COUNT)
        assert source == -1
        assert received[LEADER] > COUNT * RECORD_BYTES
        assert consumer.values == [str(number).zfill(RECORD_BYTES) for number in range(2 * COUNT)]
    finally:
        consumer.process.kill()
