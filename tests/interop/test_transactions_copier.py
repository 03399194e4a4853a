"""Copiers that read, write and commit offsets in transactions, while they and nodes are killed or stopped.

A topic and its copies are equal in the end, whichever protocol the copiers' group has.
`KCLI_COPIER_BOUNCES` sets how often something is killed, `KCLI_KILL_SEED` what.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.conftest import GROUP_SETTINGS, TRANSACTION_SETTINGS
from tests.support.apache_kafka import java_command
from tests.support.kcli_cluster import NODES, KcliCluster, wait_until_in_sync
from tests.support.processes import ChildProcess
from tests.support.producing import DEADLINE_SECONDS, produce, read_partition
from tests.support.records import TestRecord
from tests.support.steady_load import SteadyLoad
from tests.support.toolchain import java_classes, need
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.interop

BOUNCES = int(os.environ.get("KCLI_COPIER_BOUNCES", "4"))
SEED = int(os.environ.get("KCLI_KILL_SEED", "1"))
COPIERS = 3
PARTITIONS = 6
STOPPED = 128 + signal.SIGTERM
"""What a JVM ends with that was asked to."""
RECORDS_PER_SECOND = 300
RECORDS_PER_TRANSACTION = 20
INPUT = "input"
PROTOCOLS = ("classic", "consumer")
BOUNCE_SECONDS = 60.0
SETTINGS = {
    **GROUP_SETTINGS,
    **TRANSACTION_SETTINGS,
    "group.consumer.session.timeout.ms": "3000",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
}


class Copiers:
    """Their processes, and how many records each output has got from each of them."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._bootstrap = bootstrap
        self._directory = directory
        self.copied = [dict.fromkeys(PROTOCOLS, 0) for _ in range(COPIERS)]
        self.given_up: list[str] = []
        self._processes = [self._start(number) for number in range(COPIERS)]

    def _start(self, number: int) -> ChildProcess:
        def take(line: str | None) -> None:
            kind, protocol, rest = (line or "ended  ").split(" ", 2)
            if kind == "copied":
                self.copied[number][protocol] += int(rest)
            elif line is not None:
                self.given_up.append(line)

        classes = java_classes("clients-4.3", "MessageCopier")
        command = java_command("clients-4.3", "MessageCopier", "-Xmx96m", classes=classes)
        groups = [f"{protocol}:{protocol}" for protocol in PROTOCOLS]
        arguments = [self._bootstrap, str(number), INPUT, str(RECORDS_PER_TRANSACTION), *groups]
        return ChildProcess(
            [*command, *arguments], stderr=self._directory / f"copier-{number}.log", on_line=take
        )

    def bounce(self, number: int) -> None:
        """SIGKILL, and SIGTERM to the next one; others of the same transactional ids."""
        stopped = (number + 1) % COPIERS
        self._processes[number].kill()
        assert self._processes[stopped].stop() == STOPPED
        for each in (number, stopped):
            self._processes[each] = self._start(each)

    def wait_for_copies(self) -> None:
        """Both groups have copied more."""
        before = self.totals()
        eventually(
            lambda: all(self.totals()[protocol] > before[protocol] for protocol in PROTOCOLS),
            "both groups copy",
            seconds=BOUNCE_SECONDS,
            seen=lambda: (before, self.copied, self.given_up[-10:]),
        )

    def totals(self) -> dict[str, int]:
        """Records copied by protocol, as far as the copiers have told."""
        return {protocol: sum(each[protocol] for each in self.copied) for protocol in PROTOCOLS}

    def close(self) -> None:
        """End them."""
        for process in self._processes:
            process.kill()


class Copying:
    """A topic that grows, and its copies, on three nodes."""

    def __init__(self, cluster: KcliCluster, directory: Path) -> None:
        self._cluster = cluster
        self._bootstrap = cluster.bootstrap
        self._source = random.Random(SEED)
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        wanted = [NewTopic(topic, PARTITIONS, NODES) for topic in (INPUT, *PROTOCOLS)]
        for future in admin.create_topics(wanted).values():
            future.result(DEADLINE_SECONDS)
        self.copiers = Copiers(self._bootstrap, directory)

    def run(self) -> dict[int, int]:
        """Kill a copier or a node in turn while records come in; the end of each partition of the input."""
        with SteadyLoad(self._bootstrap, INPUT, PARTITIONS, per_second=RECORDS_PER_SECOND) as load:
            for bounce in range(BOUNCES):
                self.copiers.wait_for_copies()
                threading.Event().wait(self._source.uniform(0.0, 1.0))
                if bounce % 2 == 0:
                    self.copiers.bounce(self._source.randrange(COPIERS))
                else:
                    self._bounce_node(self._cluster.kill_node)
            self.copiers.wait_for_copies()
            self._bounce_node(self._cluster.stop_node)
            self.copiers.wait_for_copies()
            return load.stop()

    def _bounce_node(self, end: Callable[[int], None]) -> None:
        node = self._source.randint(1, NODES)
        end(node)
        threading.Event().wait(self._source.uniform(0.0, 2.0))
        self._cluster.start_node(node)
        wait_until_in_sync(self._bootstrap)

    def check(self, ends: dict[int, int]) -> None:
        """Each copy holds every record of the input once, and in its order."""
        for protocol in PROTOCOLS:
            eventually(
                lambda protocol=protocol: committed(self._bootstrap, protocol) == ends,
                f"{protocol}: everything is copied",
                seconds=BOUNCE_SECONDS,
                seen=lambda: (self.copiers.totals(), self.copiers.given_up[-10:]),
            )
            for partition, end in ends.items():
                # What ends a partition is no transaction's, so that a reader comes to it.
                produce(self._bootstrap, protocol, [TestRecord(partition, -1, -1, b"end", b"end")])
                *copies, _ = read_partition(self._bootstrap, protocol, partition)
                values = [(record.value or b"").decode() for record in copies]
                assert values == [f"{partition}:{number}" for number in range(end)], (protocol, partition)


def committed(bootstrap: str, group: str) -> dict[int, int] | None:
    """A group's offsets in the input; None while its coordinator moves, which librdkafka tells its caller."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    wanted = [TopicPartition(INPUT, partition) for partition in range(PARTITIONS)]
    try:
        return {each.partition: each.offset for each in consumer.committed(wanted, DEADLINE_SECONDS)}
    except KafkaException as error:
        if error.args[0].code() != KafkaError.NOT_COORDINATOR:
            raise
        return None
    finally:
        consumer.close()


def test_a_topic_and_its_copies_are_equal(tmp_path: Path, show: Callable[[str], None]) -> None:
    need("java", "javac", "mvn")
    cluster = KcliCluster(tmp_path, settings=SETTINGS)
    cluster.broker.start()
    copying = Copying(cluster, tmp_path)
    try:
        ends = copying.run()
        copying.check(ends)
    finally:
        copying.copiers.close()
        stopped = cluster.broker.stop()
    assert stopped == 0
    given_up = len(copying.copiers.given_up)
    show(f"copiers: {BOUNCES} hard bounces, {sum(ends.values())} records, {given_up} transactions given up")
