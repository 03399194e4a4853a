"""The interop client built on kafka-python."""

from __future__ import annotations

import time

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from tests.support.client_program import DEADLINE_SECONDS, Lane, Wanted, run_client
from tests.support.records import TestRecord


def create(bootstrap: str, topic: str, partitions: int) -> None:
    """Create the topic."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, partitions, 1)])
    admin.close()


def produce(bootstrap: str, topic: str, lane: Lane) -> None:
    """Produce one lane's records."""
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if lane.codec == "none" else lane.codec,
        acks="all" if lane.acks == "all" else int(lane.acks),
        enable_idempotence=lane.is_idempotent,
        linger_ms=5,
    )
    sent = [
        producer.send(
            topic,
            value=record.value,
            key=record.key,
            partition=lane.partition,
            headers=list(record.headers),
            timestamp_ms=None if record.timestamp < 0 else record.timestamp,
        )
        for record in lane.records
    ]
    producer.flush(timeout=DEADLINE_SECONDS)
    for future in sent:
        future.get(timeout=DEADLINE_SECONDS)
    producer.close()


def consume(bootstrap: str, wanted: Wanted) -> list[TestRecord]:
    """Read every wanted partition to its count."""
    places = [TopicPartition(*place) for place in wanted.slots]
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False)
    consumer.assign(places)
    for place in places:
        consumer.seek(place, 0)
    records: list[TestRecord] = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while wanted.missing:
        if time.monotonic() > deadline:
            raise SystemExit(f"records still missing: {wanted.missing}")
        for place, messages in consumer.poll(timeout_ms=500, max_records=5000).items():
            records += [
                TestRecord(
                    wanted.slots[place],
                    message.offset,
                    message.timestamp,
                    message.key,
                    message.value,
                    tuple(message.headers),
                )
                for message in messages
            ]
            wanted.arrived(place, len(messages))
    consumer.close()
    return records


if __name__ == "__main__":
    run_client(create=create, produce=produce, consume=consume)
