"""The transactional member built on kafka-python; `TransactionalMember.java` describes its commands."""

from __future__ import annotations

import sys
import time

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition

DEADLINE_SECONDS = 60.0


class Member:
    """One member after another."""

    def join(self, bootstrap: str, _: str, topic: str) -> None:
        """Join in the classic protocol, the only one that it has."""
        self._topic = topic
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=topic,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not self._consumer.poll(timeout_ms=100):
            assert time.monotonic() < deadline, "no record came"
        self._metadata = self._consumer.group_metadata()
        self._producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
        self._producer.init_transactions()

    def begin(self) -> None:
        """Only known to the client."""
        self._producer.begin_transaction()

    def offsets(self, position: str) -> None:
        """In the name of the member."""
        wanted = {TopicPartition(self._topic, 0): OffsetAndMetadata(int(position), "", -1)}
        self._producer.send_offsets_to_transaction(wanted, self._metadata)

    def commit(self) -> None:
        """Commit."""
        self._producer.commit_transaction()

    def abort(self) -> None:
        """Abort."""
        self._producer.abort_transaction()

    def leave(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def close(self) -> None:
        """Without waiting for what it has still to do."""
        self._producer.close(timeout=0)


if __name__ == "__main__":
    member = Member()
    for line in sys.stdin:
        name, *words = line.split()
        try:
            getattr(member, name)(*words)
            answer = "ok"
        except Exception as error:  # whatever the client raises is what the test wants to know
            answer = f"refused {type(error).__name__}"
        print(answer, flush=True)
