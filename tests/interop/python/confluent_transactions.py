"""The transactional program built on confluent-kafka (librdkafka); `transaction_program` describes it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.support.transaction_program import DEADLINE_SECONDS, ReadRecord, Wanted, records_to_send, serve

if TYPE_CHECKING:
    from collections.abc import Iterator


class ConfluentTransactions:
    """Producers by name."""

    def __init__(self) -> None:
        self._producers: dict[str, Producer] = {}
        self._consumers: dict[str, Consumer] = {}
        """By group."""
        self._bootstrap = ""

    def open(self, *, producer: str, bootstrap: str, id: str, timeout: str, **_: str) -> None:
        """InitProducerId."""
        self._bootstrap = bootstrap
        made = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": id,
                "transaction.timeout.ms": int(timeout),
                "socket.timeout.ms": min(int(timeout), 5000),
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        made.init_transactions(DEADLINE_SECONDS)
        self._producers[producer] = made

    def begin(self, *, producer: str) -> None:
        """Only known to the client."""
        self._producers[producer].begin_transaction()

    def send(self, *, producer: str, topic: str, partitions: str, count: str, tag: str) -> None:
        """Send and flush."""
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failures.append(error)

        made = self._producers[producer]
        for partition, key, value in records_to_send(partitions, count, tag):
            made.produce(topic, value, key, partition, on_delivery=delivered)
        left = made.flush(DEADLINE_SECONDS)
        if failures:
            raise KafkaException(failures[0])
        assert left == 0, f"{left} records without an answer"

    def offsets(self, *, producer: str, group: str, topic: str, position: str) -> None:
        """Through the metadata of a consumer that never joins, and stays: `close` may hang in a new one."""
        if group not in self._consumers:
            config = {"bootstrap.servers": self._bootstrap, "group.id": group, "log_level": 0}
            self._consumers[group] = Consumer(config)
        wanted = [TopicPartition(topic, 0, int(position))]
        metadata = self._consumers[group].consumer_group_metadata()
        self._producers[producer].send_offsets_to_transaction(wanted, metadata, DEADLINE_SECONDS)

    def commit(self, *, producer: str) -> None:
        """Commit."""
        self._producers[producer].commit_transaction(DEADLINE_SECONDS)

    def abort(self, *, producer: str) -> None:
        """Abort."""
        self._producers[producer].abort_transaction(DEADLINE_SECONDS)

    def close(self, *, producer: str) -> None:
        """Forget the producer."""
        self._producers.pop(producer).purge()

    def read(self, bootstrap: str, isolation: str, wanted: Wanted) -> Iterator[ReadRecord]:
        """Read every wanted partition."""
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "isolation.level": isolation,
                "fetch.wait.max.ms": 100,
            }
        )
        consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in wanted.slots])
        deadline = time.monotonic() + DEADLINE_SECONDS
        while wanted.missing:
            assert time.monotonic() < deadline, f"still missing: {wanted.missing}"
            for message in consumer.consume(5000, 0.2):
                if message.error() is not None:
                    raise KafkaException(message.error())
                topic, partition, offset = message.topic(), message.partition(), message.offset()
                assert topic is not None
                assert partition is not None
                assert offset is not None
                wanted.arrived((topic, partition), offset)
                yield topic, partition, offset, message.key(), message.value()
        consumer.close()


if __name__ == "__main__":
    serve(ConfluentTransactions())
