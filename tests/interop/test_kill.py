"""A broker killed at random moments under load keeps every acknowledged record, once and in order.

`KCLI_KILL_ROUNDS` sets how many rounds; the default keeps the test short. With `KCLI_KILL_PAUSE=0` the load
is as much as the producer can send.
"""

from __future__ import annotations

import os
import random
import threading
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, Message, Producer

from tests.support.producing import PATIENT_PRODUCER, create_topic, produce, read_partition
from tests.support.records import Shape, generate
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

ROUNDS = int(os.environ.get("KCLI_KILL_ROUNDS", "12"))
SEED = int(os.environ.get("KCLI_KILL_SEED", "1"))
PARTITIONS = 3
FLUSH_TIMEOUT_SECONDS = 120
OUTSTANDING = 2000
PAUSE_SECONDS = float(os.environ.get("KCLI_KILL_PAUSE", "0.001"))
"""Between records: nobody's processor is busy, and a request is always under way."""
NOISE = random.Random(SEED).randbytes(1000)


class Load:
    """A thread that produces numbered records until it is told to stop."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.acknowledged: list[list[tuple[int, int]]] = [[] for _ in range(PARTITIONS)]
        self.sent = [0] * PARTITIONS
        self.failures: list[KafkaError] = []
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                **PATIENT_PRODUCER,
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "linger.ms": 1,
                "batch.size": 8192,
                "compression.type": "lz4",
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(error)
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        assert isinstance(value, bytes)
        self.acknowledged[partition].append((offset, int(value.split(b" ")[0])))

    def _run(self) -> None:
        while not self._stopping.is_set():
            if len(self._producer) > OUTSTANDING:
                self._producer.poll(0.01)
                continue
            for partition in range(PARTITIONS):
                number = self.sent[partition]
                self._producer.produce(
                    self.topic,
                    b"%d %s" % (number, NOISE[: number % 1000]),
                    partition=partition,
                    on_delivery=self._delivered,
                )
                self.sent[partition] = number + 1
            self._producer.poll(PAUSE_SECONDS)

    @property
    def counts(self) -> list[int]:
        """How many records of each partition are acknowledged so far."""
        return list(map(len, self.acknowledged))

    def stop(self) -> None:
        """Wait until every record sent has its answer."""
        self._stopping.set()
        self._thread.join()
        left = self._producer.flush(FLUSH_TIMEOUT_SECONDS)
        assert left == 0, f"{left} records without an answer"
        assert self.failures == []


def test_no_acknowledged_record_is_lost_or_doubled(
    new_kcli_broker: Callable[..., KcliBroker], show: Callable[[str], None]
) -> None:
    source = random.Random(SEED)
    # Small segments and indexes, so that kills meet rolls too.
    broker = new_kcli_broker({"log.segment.bytes": "1048576", "log.index.interval.bytes": "1024"}).start()
    create_topic(broker.bootstrap, "load", PARTITIONS)
    load = Load(broker.bootstrap, "load")
    longest = 0.0
    for _ in range(ROUNDS):
        before = load.counts
        pause = source.uniform(0.05, 0.5)
        # Of every partition: a broker that knows nothing of a producer takes any sequence from it.
        eventually(
            lambda before=before: all(now > then for now, then in zip(load.counts, before, strict=True)),
            "answers to the producer",
            seen=lambda before=before: (before, load.counts),
        )
        threading.Event().wait(pause)
        broker.kill()
        started = time.monotonic()
        broker.start()
        longest = max(longest, time.monotonic() - started)
    load.stop()
    for partition, acknowledged in enumerate(load.acknowledged):
        records = read_partition(broker.bootstrap, "load", partition)
        numbers = [int((record.value or b"").split(b" ")[0]) for record in records]
        assert [record.offset for record in records] == list(range(len(records)))
        assert numbers == list(range(load.sent[partition])), "lost, doubled or out of order"
        assert all(numbers[offset] == number for offset, number in acknowledged if offset >= 0)
    show(
        f"kill -9 under load: {ROUNDS} rounds, {sum(load.counts)} records acknowledged, "
        f"none lost or doubled; slowest restart {longest:.2f} s"
    )


def test_a_clean_start_scans_nothing_and_an_unclean_one_recovers(
    new_kcli_broker: Callable[..., KcliBroker],
) -> None:
    broker = new_kcli_broker().start()
    create_topic(broker.bootstrap, "quiet", 2)
    records = generate(1, 0, 200, Shape())
    produce(broker.bootstrap, "quiet", records)
    assert broker.stop() == 0
    assert "recovering" not in messages_of_start(broker)
    broker.kill()
    assert "after an unclean stop" in messages_of_start(broker)
    assert len(read_partition(broker.bootstrap, "quiet", 0)) == 200


def messages_of_start(broker: KcliBroker) -> str:
    """Start the broker; what it logs until it is ready."""
    before = len(broker.messages())
    broker.start()
    return broker.messages()[before:]
