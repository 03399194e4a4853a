"""Records at a steady rate, numbered, to every partition of a topic, from a thread of its own."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, Message, Producer

from tests.support.producing import PATIENT_PRODUCER

if TYPE_CHECKING:
    from types import TracebackType

FLUSH_TIMEOUT_SECONDS = 120
TICK_SECONDS = 0.02


class SteadyLoad:
    """Produces until stopped; the record at offset N of partition P has the value `P:N`."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, per_second: int) -> None:
        self.topic = topic
        self.sent = [0] * partitions
        self.failures: list[KafkaError] = []
        self._per_tick = max(1, round(per_second * TICK_SECONDS))
        self._stopping = threading.Event()
        self._producer = Producer(
            {**PATIENT_PRODUCER, "bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5}
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> SteadyLoad:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self.failures.append(error)

    def _run(self) -> None:
        partition = 0
        while not self._stopping.wait(TICK_SECONDS):
            for _ in range(self._per_tick):
                number = self.sent[partition]
                self._producer.produce(
                    self.topic, f"{partition}:{number}", partition=partition, on_delivery=self._delivered
                )
                self.sent[partition] = number + 1
                partition = (partition + 1) % len(self.sent)
            self._producer.poll(0)

    def stop(self) -> dict[int, int]:
        """Wait until every record sent has its answer; the end of each partition."""
        self._stopping.set()
        self._thread.join()
        left = self._producer.flush(FLUSH_TIMEOUT_SECONDS)
        assert left == 0, f"{left} records without an answer"
        assert self.failures == []
        return dict(enumerate(self.sent))
