"""Ledger: a librdkafka producer that never rests, and what it knows to be acknowledged."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, Message, Producer

from tests.support.producing import PATIENT_PRODUCER, read_partition
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

OUTSTANDING = 100
FLUSH_SECONDS = 120.0


class Ledger:
    """Produces numbered records to partition 0 of a topic until `close`."""

    def __init__(self, bootstrap: str, topic: str, config: Mapping[str, object] | None = None) -> None:
        self.topic = topic
        self.acknowledged: dict[int, int] = {}
        """The numbers of acknowledged records by offset."""
        self.failures: list[KafkaError] = []
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                **PATIENT_PRODUCER,
                "bootstrap.servers": bootstrap,
                "linger.ms": 2,
                **(config or {}),
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            if len(self._producer) < OUTSTANDING:
                value = b"%d " % number + bytes(number % 700)
                self._producer.produce(self.topic, value, partition=0, on_delivery=self._delivered)
                number += 1
            self._producer.poll(0.001)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(error)
            return
        offset, value = message.offset(), message.value()
        assert offset is not None
        assert isinstance(value, bytes)
        self.acknowledged[offset] = int(value.partition(b" ")[0])

    def wait_for(self, more: int) -> None:
        """Return when so many more records are acknowledged."""
        wanted = len(self.acknowledged) + more
        eventually(lambda: len(self.acknowledged) >= wanted, f"{more} more records are acknowledged")

    def close(self) -> None:
        """Stop producing, and wait for the answers."""
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(FLUSH_SECONDS) == 0

    def check_acknowledged(self, bootstrap: str) -> dict[int, int]:
        """Read the topic back with another client; return the numbers of its records by offset.

        Each acknowledged record must be at its offset.
        """
        records = read_partition(bootstrap, self.topic, 0)
        found = {record.offset: int((record.value or b"").partition(b" ")[0]) for record in records}
        lost = sorted(self.acknowledged.items() - found.items())
        assert lost == [], f"{len(lost)} of {len(self.acknowledged)} are not among {len(found)}"
        return found

    def check(self, bootstrap: str) -> None:
        """Read everything back, where nobody else produces: each record is there once and in order."""
        found = self.check_acknowledged(bootstrap)
        assert len(set(found.values())) == len(found), "a record was stored twice"
        assert sorted(found.values()) == [found[offset] for offset in sorted(found)]
