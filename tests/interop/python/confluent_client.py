"""The interop client built on confluent-kafka (librdkafka)."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.client_program import DEADLINE_SECONDS, Lane, Wanted, run_client
from tests.support.records import TestRecord


def create(bootstrap: str, topic: str, partitions: int) -> None:
    """Create the topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(DEADLINE_SECONDS)


def produce(bootstrap: str, topic: str, lane: Lane) -> None:
    """Produce one lane's records."""
    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "compression.type": lane.codec,
        "acks": lane.acks,
        "enable.idempotence": lane.is_idempotent,
        "linger.ms": 5,
    }
    failures: list[object] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(config)
    for record in lane.records:
        stamp = {} if record.timestamp < 0 else {"timestamp": record.timestamp}
        producer.produce(
            topic,
            record.value,
            record.key,
            lane.partition,
            on_delivery=delivered,
            headers=list(record.headers),
            **stamp,
        )
        producer.poll(0)
    left = producer.flush(DEADLINE_SECONDS)
    if failures or left:
        raise SystemExit(f"{left} not delivered, first error: {failures[:1]}")


def consume(bootstrap: str, wanted: Wanted) -> list[TestRecord]:
    """Read every wanted partition to its count."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in wanted.slots])
    records: list[TestRecord] = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while wanted.missing:
        if time.monotonic() > deadline:
            raise SystemExit(f"records still missing: {wanted.missing}")
        for message in consumer.consume(5000, 0.5):
            if message.error() is not None:
                raise SystemExit(str(message.error()))
            place = (message.topic(), message.partition())
            headers = tuple(message.headers() or ())
            _, timestamp = message.timestamp()
            records.append(
                TestRecord(
                    wanted.slots[place], message.offset(), timestamp, message.key(), message.value(), headers
                )
            )
            wanted.arrived(place, 1)
    consumer.close()
    return records


if __name__ == "__main__":
    run_client(create=create, produce=produce, consume=consume)
