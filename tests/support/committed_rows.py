"""What librdkafka's consumer shows of a topic, with or without what was not committed."""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

WAIT_SECONDS = 60.0


class SeenRecord(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


def seen_records(
    bootstrap: str, topic: str, partitions: int, *, isolation: str = "read_committed"
) -> list[SeenRecord]:
    """Return the records of a topic up to where the broker says that a partition ends now."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "seen",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "fetch.wait.max.ms": 1,
        }
    )
    # Asked now, it does not wait half a second until it asks by itself.
    consumer.list_topics(topic, WAIT_SECONDS)
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)])
    found = []
    left = set(range(partitions))
    try:
        while left:
            messages = consumer.consume(1, WAIT_SECONDS)
            assert messages, f"partitions {left} do not end"
            for message in messages:
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    left.discard(message.partition())
                else:
                    when = message.timestamp()[1]
                    where = (message.partition(), message.offset())
                    found.append(SeenRecord(*where, message.key(), message.value(), when))
    finally:
        consumer.close()
    return sorted(found)
