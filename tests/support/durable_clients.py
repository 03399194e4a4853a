"""Clients that say of every record whether it was acknowledged, and what they read, while nodes come and go.

Each is an idempotent producer with acks=all and a consumer. Both write to the same partitions, so that what
is read too early and replaced later shows. Values are `NAME:0`, `NAME:1` … in each partition.

A client is ready when each partition has its first record: a broker that knows nothing of a producer takes
any sequence from it, as Kafka's does, so that a leader lost before that may cost the order.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.support.apache_kafka import java_command
from tests.support.processes import ChildProcess
from tests.support.toolchain import java_classes
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

TICK_SECONDS = 0.02
FLUSH_SECONDS = 120.0


@dataclass
class Ledger:
    """What one client knows, by partition."""

    name: str
    acknowledged: dict[int, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    """Value -> offset, -1 where the answer was that the record is there already."""
    read: dict[int, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))
    """Offset -> value."""
    expired: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The values that the producer gave up after its delivery timeout, not knowing whether they are there."""
    failures: list[str] = field(default_factory=list)

    def position(self, partition: int) -> int:
        """How far the consumer has come."""
        return len(self.read[partition])


class ConfluentClient:
    """librdkafka, by confluent-kafka, in threads of this process."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, per_second: int) -> None:
        self.ledger = Ledger("confluent")
        self._topic = topic
        self._partitions = partitions
        self._per_tick = max(1, round(per_second * TICK_SECONDS))
        self.ready = threading.Event()
        self._stopping, self._ending = threading.Event(), threading.Event()
        common = {
            "bootstrap.servers": bootstrap,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "socket.timeout.ms": 2000,
            "topic.metadata.refresh.interval.ms": 2000,
            "log_level": 0,
        }
        self._producer = Producer(
            common
            | {
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "request.timeout.ms": 2000,
                "message.timeout.ms": 120_000,
                "retry.backoff.ms": 20,
            }
        )
        self._consumer = Consumer(
            common
            | {
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
            }
        )
        self._threads = [
            threading.Thread(target=each, daemon=True) for each in (self._produce, self._consume)
        ]
        for thread in self._threads:
            thread.start()

    def flush(self) -> None:
        """Produce no more, and return when every record has its answer."""
        self._stopping.set()
        self._threads[0].join(FLUSH_SECONDS)
        left = self._producer.flush(FLUSH_SECONDS)
        if left:
            self.ledger.failures.append(f"{left} records have no answer")

    def close(self) -> None:
        """End it whatever its state."""
        self._stopping.set()
        self._ending.set()
        for thread in self._threads:
            thread.join(10)
        self._consumer.close()

    def _produce(self) -> None:
        self._send(0)
        self._producer.flush(FLUSH_SECONDS)
        self.ready.set()
        number = 1
        while not self._stopping.wait(TICK_SECONDS):
            for _ in range(self._per_tick):
                self._send(number)
                number += 1
            self._producer.poll(0)

    def _send(self, number: int) -> None:
        for partition in range(self._partitions):
            self._producer.produce(
                self._topic, f"confluent:{number}", partition=partition, on_delivery=self._delivered
            )

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        value = (message.value() or b"").decode()
        if error is not None:
            self.ledger.failures.append(f"{value}: {error}")
        else:
            offset = message.offset()
            self.ledger.acknowledged[message.partition() or 0][value] = -1 if offset is None else offset

    def _consume(self) -> None:
        self._consumer.assign([TopicPartition(self._topic, each, 0) for each in range(self._partitions)])
        while not self._ending.is_set():
            for message in self._consumer.consume(1000, 0.1):
                error = message.error()
                if error is None:
                    value = (message.value() or b"").decode()
                    self.ledger.read[message.partition() or 0][message.offset() or 0] = value
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self.ledger.failures.append(f"the consumer: {error}")


class JavaClient:
    """Java's clients, in a process of their own."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, per_second: int, log: Path) -> None:
        self.ledger = Ledger("java")
        self.ready, self._flushed = threading.Event(), threading.Event()
        module = "clients-4.3"
        classes = java_classes(module, "DurableClient")
        command = java_command(module, "DurableClient", "-Xmx128m", classes=classes)
        arguments = [bootstrap, topic, str(partitions), str(per_second)]
        self._process = ChildProcess([*command, *arguments], stderr=log, on_line=self._take)

    def flush(self) -> None:
        """Produce no more, and return when every record has its answer."""
        self._process.write_line("stop")
        if not self._flushed.wait(FLUSH_SECONDS):
            self.ledger.failures.append("the producer has not flushed")

    def close(self) -> None:
        """End it whatever its state."""
        self._process.kill()

    def _take(self, line: str | None) -> None:
        if line is None or line == "flushed":
            self._flushed.set()
            return
        if line == "ready":
            self.ready.set()
            return
        kind, _, rest = line.partition(" ")
        if kind == "failed":
            self.ledger.failures.append(rest)
            return
        if kind == "expired":
            partition, value = rest.split(" ")
            self.ledger.expired[int(partition)].add(value)
            return
        partition, offset, value = rest.split(" ")
        if kind == "acked":
            self.ledger.acknowledged[int(partition)][value] = int(offset)
        else:
            self.ledger.read[int(partition)][int(offset)] = value


def wait_until_read(ledger: Ledger, ends: dict[int, int], *, seconds: float) -> None:
    """Return when a consumer has read everything."""
    eventually(
        lambda: all(ledger.position(partition) >= end for partition, end in ends.items()),
        f"{ledger.name} has read {ends}",
        seconds=seconds,
        seen=lambda: ([ledger.position(partition) for partition in ends], ledger.failures),
    )
