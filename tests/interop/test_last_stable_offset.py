"""Readers of committed records that wait at an open transaction, and go on when it ends."""

from __future__ import annotations

import subprocess
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from tests.support.processes import ChildProcess
from tests.support.producing import create_topic
from tests.support.toolchain import need
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"


class Writers:
    """Two transactional producers and a plain one, on one partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        create_topic(bootstrap, topic)
        self.plain = Producer({"bootstrap.servers": bootstrap})
        self.first, self.second = (
            Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-{number}"})
            for number in (1, 2)
        )
        for producer in (self.first, self.second):
            producer.init_transactions(PATIENCE_SECONDS)

    def write(self, producer: Producer, value: str) -> None:
        producer.produce(self.topic, value.encode(), partition=0)
        assert producer.flush(PATIENCE_SECONDS) == 0

    def fill(self) -> None:
        """Write 0 plain; 1 aborted by marker 3; 2 open; 4 plain."""
        self.write(self.plain, "plain")
        self.first.begin_transaction()
        self.write(self.first, "aborted")
        self.second.begin_transaction()
        self.write(self.second, "open")
        self.first.abort_transaction(PATIENCE_SECONDS)
        self.write(self.plain, "behind")


def kcat(bootstrap: str, topic: str, isolation: str) -> list[str]:
    return [
        *("kcat", "-C", "-q", "-u", "-b", bootstrap, "-t", topic, "-p", "0", "-o", "beginning"),
        *("-f", "%o %s\n", "-X", f"isolation.level={isolation}"),
    ]


@contextmanager
def running_kcat(bootstrap: str, topic: str, stderr: Path) -> Iterator[ChildProcess]:
    process = ChildProcess(kcat(bootstrap, topic, COMMITTED), stderr=stderr)
    try:
        yield process
    finally:
        process.kill()


def lines_up_to_the_end(bootstrap: str, topic: str, isolation: str) -> list[str]:
    """Return what kcat prints up to the end of the partition, as its isolation level sees it."""
    command = [*kcat(bootstrap, topic, isolation), "-e"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("is_commit", [True, False])
def test_kcat_waits_at_an_open_transaction(is_commit: bool, kcli_broker: KcliBroker, tmp_path: Path) -> None:
    need("kcat")
    bootstrap, topic = kcli_broker.bootstrap, f"stable-kcat-{is_commit}"
    writers = Writers(bootstrap, topic)
    writers.fill()
    assert lines_up_to_the_end(bootstrap, topic, COMMITTED) == ["0 plain"]
    assert lines_up_to_the_end(bootstrap, topic, UNCOMMITTED) == [
        "0 plain",
        "1 aborted",
        "2 open",
        "4 behind",
    ]
    with running_kcat(bootstrap, topic, tmp_path / "kcat.log") as reader:
        seen = [reader.wait_for_line(bool, timeout=PATIENCE_SECONDS, what="a first record")]
        if is_commit:
            writers.second.commit_transaction(PATIENCE_SECONDS)
        else:
            writers.second.abort_transaction(PATIENCE_SECONDS)
        expected = ["0 plain", "2 open", "4 behind"] if is_commit else ["0 plain", "4 behind"]
        while len(seen) < len(expected):
            seen.append(reader.wait_for_line(bool, timeout=PATIENCE_SECONDS, what="another record"))
        assert seen == expected
    assert lines_up_to_the_end(bootstrap, topic, COMMITTED) == expected


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # When kafka-python reads its schemas.
def test_kafka_python_sees_the_ends_of_its_isolation_level(kcli_broker: KcliBroker) -> None:
    from kafka import KafkaConsumer, TopicPartition

    topic = "stable-kafka-python"
    writers = Writers(kcli_broker.bootstrap, topic)
    writers.fill()
    partition = TopicPartition(topic, 0)

    def read(isolation: str) -> tuple[int, list[bytes]]:
        consumer = KafkaConsumer(bootstrap_servers=kcli_broker.bootstrap, isolation_level=isolation)
        with closing(consumer):
            consumer.assign([partition])
            consumer.seek_to_beginning()
            end = consumer.end_offsets([partition])[partition]
            values: list[bytes] = []
            while consumer.position(partition) < end:
                records = consumer.poll(timeout_ms=1000)
                values += [record.value for record in records.get(partition, [])]
            return end, values

    assert read(COMMITTED) == (2, [b"plain"])
    assert read(UNCOMMITTED) == (5, [b"plain", b"aborted", b"open", b"behind"])
    writers.second.commit_transaction(PATIENCE_SECONDS)
    assert read(COMMITTED) == (6, [b"plain", b"open", b"behind"])
