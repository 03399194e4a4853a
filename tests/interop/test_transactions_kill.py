"""Brokers killed at random moments of transactions and of cleaning.

No committed transaction is lost or half visible, no aborted one is visible, and no partition stays below its
last stable offset. `KCLI_TRANSACTION_KILLS` sets how many rounds each test has, `KCLI_KILL_SEED` their seed.
"""

from __future__ import annotations

import os
import random
import threading
from typing import TYPE_CHECKING, Any

import pytest
import trio
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.client.admin import ElectionType, alter_partition_reassignments, describe_topics, elect_leaders
from kcli.client.client import connect
from kcli.protocol.topics import TopicPartition
from tests.support.kcli_cluster import NODES, KcliCluster, wait_until_in_sync
from tests.support.producing import DEADLINE_SECONDS, produce
from tests.support.records import TestRecord
from tests.support.transaction_clients import TransactionClient
from tests.support.transaction_load import (
    PARTITIONS,
    SOURCE,
    TIMEOUT_MS,
    Outcome,
    Reader,
    TransactionLoad,
    check,
    is_stable,
    visible,
)
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.conftest import Finished
    from tests.support.apache_kafka import KafkaTools
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

ROUNDS = int(os.environ.get("KCLI_TRANSACTION_KILLS", "3"))
STATE = "__transaction_state"
SEED = int(os.environ.get("KCLI_KILL_SEED", "1"))
CLIENTS = ("Java 4.3.1", "aiokafka", "confluent-kafka")
"""The first ends transactions with new epochs, the others add partitions by request."""
SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    # Every log rolls often and the cleaner never rests, so that kills meet both.
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.roll.ms": "500",
    "log.index.interval.bytes": "512",
    "auto.create.topics.enable": "false",
}
JAVAS = ("Java 4.3.1", "Java 3.9", "Java 2.8")
CLUSTER_SETTINGS = {
    **SETTINGS,
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
}


class Siege:
    """Clients whose transactions go on while brokers are killed."""

    def __init__(self, bootstrap: str, directory: Path, clients: Sequence[str], *, replicas: int) -> None:
        self._bootstrap = bootstrap
        programs = [TransactionClient(name, directory / f"{name}.log") for name in clients]
        self._programs = programs
        self.loads = [TransactionLoad(each, bootstrap, seed=SEED) for each in programs]
        self._create_topics(replicas)
        self._reader = Reader(bootstrap, [load.topics.plain for load in self.loads])

    def _create_topics(self, replicas: int) -> None:
        wanted = [NewTopic(SOURCE, 1, replicas)]
        for load in self.loads:
            wanted.append(NewTopic(load.topics.plain, PARTITIONS, replicas))
            config = {"cleanup.policy": "compact"}
            wanted.append(NewTopic(load.topics.compacted, PARTITIONS, replicas, config=config))
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        for future in admin.create_topics(wanted).values():
            future.result(DEADLINE_SECONDS)

    def suffer(self, harm: Callable[[random.Random], None]) -> None:
        """Have the harm done at random moments, each when every client has committed since the last."""
        source = random.Random(SEED)
        for load in self.loads:
            load.start()
        for _ in range(ROUNDS):
            self._wait_for_commits()
            threading.Event().wait(source.uniform(0.0, 0.5))
            harm(source)
        self._wait_for_commits()
        for load in self.loads:
            load.stop()

    def _wait_for_commits(self) -> None:
        before = [load.committed for load in self.loads]
        eventually(
            lambda: all(load.committed > then for load, then in zip(self.loads, before, strict=True)),
            "every client commits",
            seconds=TIMEOUT_MS / 1000 * 3,
            seen=lambda: [(load.name, load.committed, load.said[-2:]) for load in self.loads],
        )

    def check(self) -> str:
        """What is there is what the clients know; a line that says so."""
        topics = [topic for load in self.loads for topic in (load.topics.plain, load.topics.compacted)]
        eventually(
            lambda: all(is_stable(self._bootstrap, topic) for topic in topics),
            "no transaction is open",
            seconds=TIMEOUT_MS / 1000 * 2,
        )
        for topic in topics:
            for partition in range(PARTITIONS):
                produce(self._bootstrap, topic, [TestRecord(partition, -1, -1, b"end", b"end")])
        shown = []
        for load in self.loads:
            committed = check(load, self._bootstrap)
            unknown = load.outcomes.count(Outcome.UNKNOWN)
            shown.append(f"{load.name} {committed} of {len(load.outcomes)}, {unknown} unknown")
        self._check_reader()
        return f"{ROUNDS} kills; transactions visible: {'; '.join(shown)}"

    def _check_reader(self) -> None:
        expected = {place: visible(self._bootstrap, *place) for place in self._reader.read}
        eventually(
            lambda: all(len(self._reader.read[place]) >= len(rows) for place, rows in expected.items()),
            "the consumer has read everything",
        )
        self._reader.stop()
        assert self._reader.read == expected

    def close(self) -> None:
        """End the programs."""
        for program in self._programs:
            program.kill()


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Siege]]:
    """Begin a siege, which ends with the test."""
    begun: list[Siege] = []

    def new(bootstrap: str, clients: Sequence[str] = CLIENTS, *, replicas: int = 1) -> Siege:
        begun.append(Siege(bootstrap, tmp_path, clients, replicas=replicas))
        return begun[-1]

    yield new
    for siege in begun:
        siege.close()


def check_files(data: Path, kcli: Callable[..., Finished], kafka_tool: KafkaTools) -> None:
    """`verify-index` finds nothing wrong, and Apache Kafka's dump tool reads the transactions' own topic."""
    finished = kcli("verify-index", "--deep", str(data))
    assert finished.exit_code == 0, finished.out
    files = sorted(data.rglob("__transaction_state-*/*.log"))
    printed = kafka_tool("kafka-dump-log", "--transaction-log-decoder", "--files", ",".join(map(str, files)))
    # A compacted log has gaps.
    gaps = ("Non-consecutive offsets in", "  ")
    assert [line for line in printed.errors.splitlines() if not line.startswith(gaps)] == []
    assert "load-aiokafka" in printed.output


def test_the_process_is_killed(
    new_kcli_broker: Callable[..., KcliBroker],
    begin: Callable[..., Siege],
    kcli: Callable[..., Finished],
    kafka_tool: KafkaTools,
    show: Callable[[str], None],
) -> None:
    broker = new_kcli_broker(SETTINGS).start()
    siege = begin(broker.bootstrap)

    def kill(_: random.Random) -> None:
        broker.kill()
        broker.start()

    siege.suffer(kill)
    show(f"kill -9 of one node: {siege.check()}")
    assert broker.stop() == 0
    check_files(broker.data, kcli, kafka_tool)


def test_nodes_of_three_are_killed(
    tmp_path: Path,
    begin: Callable[..., Siege],
    kcli: Callable[..., Finished],
    kafka_tool: KafkaTools,
    show: Callable[[str], None],
) -> None:
    cluster = KcliCluster(tmp_path, settings=CLUSTER_SETTINGS)
    cluster.broker.start()
    siege = begin(cluster.bootstrap, replicas=NODES)

    def kill(source: random.Random) -> None:
        node = source.randint(1, NODES)
        cluster.kill_node(node)
        threading.Event().wait(source.uniform(0.0, 2.0))
        cluster.start_node(node)
        wait_until_in_sync(cluster.bootstrap)

    siege.suffer(kill)
    show(f"kills of one node of three: {siege.check()}")
    assert cluster.broker.stop() == 0
    for node in range(1, NODES + 1):
        check_files(cluster.broker.data / f"node-{node}", kcli, kafka_tool)


def test_coordinators_move(tmp_path: Path, begin: Callable[..., Siege], show: Callable[[str], None]) -> None:
    cluster = KcliCluster(tmp_path, settings=CLUSTER_SETTINGS)
    cluster.broker.start()
    siege = begin(cluster.bootstrap, JAVAS, replicas=NODES)

    def move(source: random.Random) -> None:
        if source.random() < 0.5:
            trio.run(move_coordinators, cluster.bootstrap)
        else:
            node = source.randint(1, NODES)
            cluster.stop_node(node)
            cluster.start_node(node)
            wait_until_in_sync(cluster.bootstrap)

    siege.suffer(move)
    show(f"coordinators moved and stopped: {siege.check()}")
    assert cluster.broker.stop() == 0


async def move_coordinators(bootstrap: str) -> None:
    """Give every partition of the transactions' own topic another leader of the same replicas."""
    async with connect(bootstrap) as client:
        topic: Any = (await describe_topics(client, [STATE]))[STATE]
        targets: dict[TopicPartition, Sequence[int]] = {}
        for each in topic.partitions:
            targets[TopicPartition(STATE, each.partition)] = (*each.replicas[1:], each.replicas[0])
        await alter_partition_reassignments(client, targets)
        await elect_leaders(client, ElectionType.PREFERRED)
