"""Kafka Streams counts words exactly once while nodes of three, and the application itself, are killed.

`KCLI_STREAMS_RECORDS` sets how many records it counts, `KCLI_KILL_SEED` what is killed when.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.conftest import GROUP_SETTINGS, TRANSACTION_SETTINGS
from tests.support.apache_kafka import java_command
from tests.support.kcli_cluster import NODES, KcliCluster, wait_until_in_sync
from tests.support.processes import ChildProcess
from tests.support.producing import DEADLINE_SECONDS, PATIENT_PRODUCER, produce, read_partition
from tests.support.records import TestRecord
from tests.support.toolchain import java_classes, need
from tests.support.transaction_load import Reader
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.interop

RECORDS = int(os.environ.get("KCLI_STREAMS_RECORDS", "6000"))
PER_ROUND = 2000
"""Records between two kills."""
SEED = int(os.environ.get("KCLI_KILL_SEED", "1"))
PARTITIONS = 2
INPUT, OUTPUT = "text", "counts"
CHANGELOG = "word-count-counts-changelog"
WORDS = [f"word-{number}" for number in range(50)]
ROUND_SECONDS = 90.0
SETTINGS = {
    **GROUP_SETTINGS,
    **TRANSACTION_SETTINGS,
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
    "log.cleaner.backoff.ms": "200",
}


class WordCount:
    """The application, what was said to it so far, and what it has counted."""

    def __init__(self, bootstrap: str, directory: Path, *, replicas: int) -> None:
        self._bootstrap = bootstrap
        self._directory = directory
        self._replicas = replicas
        self._source = random.Random(SEED)
        self._said: Counter[str] = Counter()
        self._lines: list[str | None] = []
        admin = AdminClient({"bootstrap.servers": bootstrap})
        wanted = [NewTopic(topic, PARTITIONS, replicas) for topic in (INPUT, OUTPUT)]
        for future in admin.create_topics(wanted).values():
            future.result(DEADLINE_SECONDS)
        self._reader = Reader(bootstrap, [OUTPUT], PARTITIONS)
        self._process = self._start()

    def _start(self) -> ChildProcess:
        classes = java_classes("streams-4.3", "WordCount")
        command = java_command("streams-4.3", "WordCount", "-Xmx192m", classes=classes)
        arguments = [self._bootstrap, str(self._directory / "state"), INPUT, OUTPUT, str(self._replicas)]
        log = self._directory / "streams.log"
        return ChildProcess([*command, *arguments], stderr=log, on_line=self._lines.append)

    def run(self, bounce_node: Callable[[random.Random], None]) -> None:
        """Kill a node or the application while it counts, again and again."""
        for number in range(RECORDS // PER_ROUND):
            self._say(PER_ROUND)
            threading.Event().wait(self._source.uniform(0.0, 0.5))
            if number % 2 == 0:
                bounce_node(self._source)
            else:
                # The next one has its counts from the changelog.
                self._process.kill()
                self._process = self._start()
            eventually(
                lambda: {word: counts[-1] for word, counts in self.counted().items()} == self._said,
                "every word is counted",
                seconds=ROUND_SECONDS,
                seen=lambda: (self._said, self.counted(), self._lines[-10:]),
            )

    def _say(self, count: int) -> None:
        records = []
        for number in range(count):
            words = self._source.choices(WORDS, k=self._source.randint(1, 4))
            self._said.update(words)
            records.append(TestRecord(number % PARTITIONS, -1, -1, None, " ".join(words).encode()))
        produce(self._bootstrap, INPUT, records, PATIENT_PRODUCER)

    def counted(self) -> dict[str, list[int]]:
        """Every count that was put out, by word."""
        found: dict[str, list[int]] = {}
        for rows in list(self._reader.read.values()):
            for _, word, count in list(rows):
                found.setdefault(word, []).append(int(count))
        return found

    def check(self) -> int:
        """Every word was counted up by one at a time, and the changelog has each last count.

        Returns how many offsets of the changelog have no record: markers, and what compaction has removed.
        """
        self.close()
        assert self.counted() == {word: list(range(1, count + 1)) for word, count in self._said.items()}
        last: dict[str, int] = {}
        removed = 0
        for partition in range(PARTITIONS):
            produce(self._bootstrap, CHANGELOG, [TestRecord(partition, -1, -1, b"end", bytes(8))])
            *records, end = read_partition(self._bootstrap, CHANGELOG, partition)
            removed += end.offset - len(records)
            last |= {(each.key or b"").decode(): int.from_bytes(each.value or b"") for each in records}
        assert last == self._said
        return removed

    def close(self) -> None:
        """End the application and the reader."""
        self._process.kill()
        self._reader.stop()


def test_words_are_counted_exactly_once(tmp_path: Path, show: Callable[[str], None]) -> None:
    need("java", "javac", "mvn")
    cluster = KcliCluster(tmp_path, settings=SETTINGS)
    cluster.broker.start()
    counting = WordCount(cluster.bootstrap, tmp_path, replicas=NODES)

    def bounce_node(source: random.Random) -> None:
        node = source.randint(1, NODES)
        cluster.kill_node(node)
        threading.Event().wait(source.uniform(0.0, 2.0))
        cluster.start_node(node)
        wait_until_in_sync(cluster.bootstrap)

    try:
        counting.run(bounce_node)
        removed = counting.check()
    finally:
        counting.close()
        stopped = cluster.broker.stop()
    assert stopped == 0
    assert removed > 0
    show(
        f"Kafka Streams: {RECORDS} records counted exactly once; {removed} offsets of the changelog compacted"
    )
