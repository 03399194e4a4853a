"""The definition of durable with real clients: librdkafka and Java produce and read while nodes come and go.

Three nodes in one process, replication factor 3, two in-sync replicas needed, idempotent producers with
acks=all. The schedules are those of `tests/broker/schedules`, in real time: kills, stops, pauses, isolations,
cuts, slow links, elections, moves, and the process itself stopped or killed.

    KCLI_DURABLE_SCHEDULES=200 pytest tests/interop/test_durable.py
    KCLI_DURABLE_SEED=17 KCLI_DURABLE_SCHEDULES=1 pytest tests/interop/test_durable.py
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import trio

from kcli.client.admin import (
    ElectionType,
    NewTopic,
    alter_partition_reassignments,
    create_topics,
    describe_topics,
    elect_leaders,
)
from kcli.client.client import connect
from kcli.control_socket import ask
from kcli.errors import KcliError
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.protocol.topics import TopicPartition
from tests.broker.schedules.schedule import NODES, make_schedule
from tests.support.durable_clients import ConfluentClient, JavaClient, Ledger, wait_until_read
from tests.support.kcli_broker import KcliBroker
from tests.support.ports import free_ports
from tests.support.toolchain import need
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from kcli.client.client import Client
    from tests.broker.schedules.schedule import Event, Life

pytestmark = pytest.mark.interop

FIRST_SEED = int(os.environ.get("KCLI_DURABLE_SEED", "1"))
COUNT = int(os.environ.get("KCLI_DURABLE_SCHEDULES", "3"))
LIFE_SECONDS = 5.0
RECOVERY_SECONDS = 180.0
TOPIC = "orders"
PARTITIONS = 2
SETTINGS = {
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "200",
    "controller.quorum.fetch.timeout.ms": "1000",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.wait.max.ms": "200",
    "replica.fetch.backoff.ms": "100",
    "replica.socket.timeout.ms": "1000",
    "auto.create.topics.enable": "false",
}


class Durable:
    """A cluster in a process of its own, and what a schedule does to it."""

    def __init__(self, directory: Path) -> None:
        self.ports = free_ports(len(NODES))
        self.broker = KcliBroker(directory, settings=SETTINGS, arguments=["--nodes", str(len(NODES))])
        self.broker.port = self.ports[0]
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        self._numbers: dict[object, int] = {}
        self._is_added: dict[object, threading.Event] = {}

    def start(self) -> None:
        self.broker.start()
        self._numbers.clear()
        self._is_added.clear()

    def admin(self, work: Callable[[Client], Awaitable[Any]]) -> Any:
        """Do something as an administrator."""

        async def run() -> Any:
            async with connect(self.bootstrap) as client:
                return await work(client)

        return trio.run(run)

    def live(self, life: Life) -> None:
        """Have everything of one process's life happen, and repair it."""
        for event in life.events:
            if event.action == "fault":
                self._is_added[event.arguments[0]] = threading.Event()
        started = time.monotonic()
        threads = []
        for event in life.events:
            # The schedule is in real time: other people's clients run along it.
            time.sleep(max(0.0, started + event.at - time.monotonic()))
            # A stop takes its time, and the next harm does not wait for it.
            threads.append(threading.Thread(target=self._do, args=(event,)))
            threads[-1].start()
        time.sleep(max(0.0, started + life.seconds - time.monotonic()))
        for thread in threads:
            thread.join(RECOVERY_SECONDS)
        self._ask("fault.clear")
        for node in NODES:
            for operation in ("node.resume", "node.start"):
                self._ask(operation, node=node)

    def _do(self, event: Event) -> None:
        match event.action, event.arguments:
            case ("kill" | "stop" | "start" | "pause" | "resume") as action, (node,):
                self._ask(f"node.{action}", node=node)
            case "fault", (name, kind, *options):
                added = self._ask("fault.add", kind=kind, **dict(options))  # type: ignore[arg-type]
                if added is not None:
                    self._numbers[name] = added["number"]
                self._is_added[name].set()
            case "clear", (name,):
                if self._is_added[name].wait(RECOVERY_SECONDS) and name in self._numbers:
                    self._ask("fault.clear", numbers=[self._numbers.pop(name)])
            case "move", (partition, node):
                self._ask("fault.move-leader", topic=TOPIC, partition=partition, to=node)
            case "controller", (node,):
                self._ask("fault.move-controller", to=node)
            case "elect", ():
                self._try(lambda client: elect_leaders(client, ElectionType.PREFERRED, timeout_ms=2000))
            case "reassign", (int(partition), tuple(replicas)):
                targets = {TopicPartition(TOPIC, partition): replicas}
                self._try(lambda client: alter_partition_reassignments(client, targets, timeout_ms=2000))

    def _ask(self, operation: str, **arguments: object) -> Any:
        try:
            return ask(self.broker.data, operation, timeout_seconds=RECOVERY_SECONDS, **arguments)
        except KcliError:
            return None  # What cannot be done at that moment is refused.

    def _try(self, work: Callable[[Client], Awaitable[Any]]) -> None:
        with suppress(KcliError, BaseExceptionGroup):  # Nobody may be there to be asked.
            self.admin(work)

    def wait_until_in_sync(self) -> None:
        """Return when every replica is in sync and nothing moves."""
        found: list[object] = []

        def is_so() -> bool:
            # Nobody may answer yet, or somebody who does not know the topic again.
            try:
                topic: Any = self.admin(lambda client: describe_topics(client, [TOPIC]))[TOPIC]
            except (KcliError, BaseExceptionGroup) as error:
                topic = error
            found[:] = [topic]
            return not isinstance(topic, BaseException) and all(
                each.leader is not None and set(each.isr) == set(each.replicas) for each in topic.partitions
            )

        eventually(is_so, "all replicas are in sync", seconds=RECOVERY_SECONDS, seen=lambda: found)

    def copies(self, partition: int) -> dict[int, bytes]:
        """The bytes of a partition's log, by node."""
        found = {}
        for node in NODES:
            log = self.broker.data / f"node-{node}" / f"{TOPIC}-{partition}"
            if log.is_dir():
                found[node] = b"".join(each.read_bytes() for each in sorted(log.glob("*.log")))
        return found


class Stored(NamedTuple):
    """A record as it lies in a log."""

    value: str
    producer_epoch: int


def records_of(log: bytes) -> list[Stored]:
    """The records of a log, whose offsets must leave no gap."""
    found: list[Stored] = []
    for batch in iter_batches(log):
        assert isinstance(batch, RecordBatch)
        for record in batch.records():
            assert record.offset == len(found), "a gap, or an offset that stands twice"
            found.append(Stored(bytes(record.value or b"").decode(), batch.producer_epoch))
    return found


def attempts(records: list[Stored], name: str) -> dict[str, list[int]]:
    """Where each value of a producer lies: once and in order, but for what a new producer epoch begins with.

    librdkafka takes a new epoch when a request is refused behind one that was refused before it
    (`rd_kafka_handle_idempotent_Produce_error`), and then sends again what it has no answer to, though it may
    be there. To a broker, Kafka's too, those are new records; within an epoch all is its own doing.
    """
    found: dict[str, list[int]] = {}
    epoch, expected = -1, 0
    for offset, (value, producer_epoch) in enumerate(records):
        client, _, number = value.partition(":")
        if client != name:
            continue
        if producer_epoch != epoch:
            assert producer_epoch > epoch, f"{value} was taken from an epoch that had ended"
            assert int(number) <= len(found), f"lost: what stands before {value}"
            epoch, expected = producer_epoch, int(number)
        assert int(number) == expected, f"lost, repeated or moved: {value} instead of {expected}"
        expected += 1
        found.setdefault(value, []).append(offset)
    return found


def check(records: list[Stored], partition: int, ledger: Ledger) -> int:
    """Compare what a partition holds with what a client knows; how many records its client sent again."""
    assert ledger.failures == []
    assert not ledger.expired[partition], "given up"
    own = attempts(records, ledger.name)
    acknowledged = ledger.acknowledged[partition]
    assert acknowledged.keys() <= own.keys(), "acknowledged and lost"
    for value, offset in acknowledged.items():
        # Nobody sends again what was answered: the answer is to the last attempt, or says that it is there.
        assert offset in (-1, own[value][-1]), f"{value}: acknowledged at {offset}, lies at {own[value]}"
    wrong = [
        (offset, value, records[offset : offset + 1])
        for offset, value in ledger.read[partition].items()
        if [each.value for each in records[offset : offset + 1]] != [value]
    ]
    assert not wrong, f"read by {ledger.name}, but not there: {wrong[:5]}"
    return sum(len(offsets) - 1 for offsets in own.values())


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + COUNT))
def test_what_was_acknowledged_survives(seed: int, tmp_path: Path, show: Callable[[str], None]) -> None:
    need("java", "javac", "mvn")
    schedule = make_schedule(seed, seconds=LIFE_SECONDS)
    print(schedule)
    cluster = Durable(tmp_path)
    cluster.start()
    wanted = NewTopic(TOPIC, PARTITIONS, 3, configs={"min.insync.replicas": "2", "segment.ms": "2000"})
    created = cluster.admin(lambda client: create_topics(client, [wanted]))[TOPIC]
    assert not isinstance(created, KcliError), created
    clients = [
        ConfluentClient(cluster.bootstrap, TOPIC, PARTITIONS, per_second=100),
        JavaClient(cluster.bootstrap, TOPIC, PARTITIONS, per_second=100, log=tmp_path / "java.log"),
    ]
    try:
        assert all(client.ready.wait(RECOVERY_SECONDS) for client in clients)
        for life in schedule.lives:
            cluster.live(life)
            cluster.wait_until_in_sync()
            if life.kill:
                cluster.broker.kill()
            else:
                assert cluster.broker.stop() == 0
            cluster.start()
        cluster.wait_until_in_sync()
        for client in clients:
            client.flush()
        ends = dict.fromkeys(range(PARTITIONS), 0)
        for client in clients:
            for partition, known in client.ledger.acknowledged.items():
                ends[partition] = max(ends[partition], *(offset + 1 for offset in known.values()))
        for client in clients:
            wait_until_read(client.ledger, ends, seconds=RECOVERY_SECONDS)
        cluster.wait_until_in_sync()
    finally:
        for client in clients:
            client.close()
        stopped = cluster.broker.stop()
    assert stopped == 0
    acknowledged = sent_again = 0
    for partition in range(PARTITIONS):
        copies = cluster.copies(partition)
        assert len(set(copies.values())) == 1, {node: len(copy) for node, copy in copies.items()}
        records = records_of(next(iter(copies.values())))
        for client in clients:
            sent_again += check(records, partition, client.ledger)
            acknowledged += len(client.ledger.acknowledged[partition])
    again = f"; {sent_again} sent again in a new epoch" if sent_again else ""
    show(f"durable, seed {seed}: {acknowledged} records acknowledged, none lost, repeated or moved{again}")
