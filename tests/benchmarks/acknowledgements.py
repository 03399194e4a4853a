"""Acknowledgements: a producer at a steady rate that knows when each record was sent and acknowledged."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from tests.benchmarks.wire import BenchmarkFailed

if TYPE_CHECKING:
    from types import TracebackType

    from confluent_kafka import KafkaError, Message

TICK_SECONDS = 0.002
VALUE = bytes(1000)
TIMEOUT_SECONDS = 60.0
NEVER = float("inf")


class Acknowledgements:
    """Sends a record every two milliseconds, acks=all and idempotent, to partition 0 of a topic.

    It asks for the leader twenty times a second: librdkafka alone would look once a second.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._after = NEVER
        self._acknowledged_at = NEVER
        self._found = threading.Event()
        self._stopping = threading.Event()
        self._failure: KafkaError | None = None
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "message.timeout.ms": int(TIMEOUT_SECONDS * 1000),
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 10,
                "topic.metadata.refresh.fast.interval.ms": 20,
                "topic.metadata.refresh.interval.ms": 50,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Acknowledgements:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()
        if kind is None and (self._producer.flush(TIMEOUT_SECONDS) or self._failure is not None):
            raise BenchmarkFailed(f"records were not delivered: {self._failure}")

    def first_sent_after(self, moment: float) -> float:
        """Return when the first one was acknowledged of the records sent after a moment."""
        self._acknowledged_at = NEVER
        self._found.clear()
        self._after = moment
        if not self._found.wait(TIMEOUT_SECONDS):
            raise BenchmarkFailed(f"nothing was acknowledged for {TIMEOUT_SECONDS} s: {self._failure}")
        return self._acknowledged_at

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopping.is_set():
            now = time.monotonic()
            if now < due:
                self._producer.poll(due - now)
                continue
            due = now + TICK_SECONDS
            self._producer.produce(self._topic, VALUE, partition=0, on_delivery=partial(self._answered, now))

    def _answered(self, sent_at: float, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failure = self._failure or error
        elif sent_at > self._after:
            self._after = NEVER
            self._acknowledged_at = time.monotonic()
            self._found.set()
