"""The transactional program built on kafka-python; `transaction_program` describes it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition

from tests.support.transaction_program import DEADLINE_SECONDS, ReadRecord, Wanted, records_to_send, serve

if TYPE_CHECKING:
    from collections.abc import Iterator


class KafkaPythonTransactions:
    """Producers by name."""

    def __init__(self) -> None:
        self._producers: dict[str, KafkaProducer] = {}

    def open(self, *, producer: str, bootstrap: str, id: str, timeout: str, **_: str) -> None:
        """InitProducerId."""
        made = KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=id, transaction_timeout_ms=int(timeout)
        )
        made.init_transactions()
        self._producers[producer] = made

    def begin(self, *, producer: str) -> None:
        """Only known to the client."""
        self._producers[producer].begin_transaction()

    def send(self, *, producer: str, topic: str, partitions: str, count: str, tag: str) -> None:
        """Send and flush."""
        made = self._producers[producer]
        sent = [
            made.send(topic, value=value, key=key, partition=partition)
            for partition, key, value in records_to_send(partitions, count, tag)
        ]
        made.flush(timeout=DEADLINE_SECONDS)
        for future in sent:
            future.get(timeout=DEADLINE_SECONDS)

    def offsets(self, *, producer: str, group: str, topic: str, position: str) -> None:
        """In the name of a group without members."""
        wanted = {TopicPartition(topic, 0): OffsetAndMetadata(int(position), "", -1)}
        self._producers[producer].send_offsets_to_transaction(wanted, group)

    def commit(self, *, producer: str) -> None:
        """Commit."""
        self._producers[producer].commit_transaction()

    def abort(self, *, producer: str) -> None:
        """Abort."""
        self._producers[producer].abort_transaction()

    def close(self, *, producer: str) -> None:
        """Without waiting for what it has still to do."""
        self._producers.pop(producer).close(timeout=0)

    def read(self, bootstrap: str, isolation: str, wanted: Wanted) -> Iterator[ReadRecord]:
        """Read every wanted partition."""
        places = [TopicPartition(*place) for place in wanted.slots]
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False, isolation_level=isolation
        )
        consumer.assign(places)
        for place in places:
            consumer.seek(place, 0)
        deadline = time.monotonic() + DEADLINE_SECONDS
        while wanted.missing:
            assert time.monotonic() < deadline, f"still missing: {wanted.missing}"
            for (topic, partition), messages in consumer.poll(timeout_ms=200, max_records=5000).items():
                for each in messages:
                    wanted.arrived((topic, partition), each.offset)
                    yield topic, partition, each.offset, each.key, each.value
        consumer.close()


if __name__ == "__main__":
    serve(KafkaPythonTransactions())
