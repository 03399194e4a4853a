"""The interop client built on kafka-python.

create  BOOTSTRAP TOPIC PARTITIONS
produce BOOTSTRAP TOPIC PARTITION:CODEC:ACKS:IDEMPOTENT:FILE ...
consume BOOTSTRAP OUTPUT TOPIC:PARTITION:COUNT ...
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from tests.support.records import TestRecord, decode, encode

DEADLINE_SECONDS = 90.0


def create(bootstrap: str, topic: str, partitions: int) -> None:
    """Create the topic."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, partitions, 1)])
    admin.close()


def produce(bootstrap: str, topic: str, lane: str) -> None:
    """Produce one lane's file."""
    partition, codec, acks, idempotent, path = lane.split(":", 4)
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        acks="all" if acks == "all" else int(acks),
        enable_idempotence=idempotent == "1",
        linger_ms=5,
    )
    sent = [
        producer.send(
            topic,
            value=record.value,
            key=record.key,
            partition=int(partition),
            headers=list(record.headers),
            timestamp_ms=None if record.timestamp < 0 else record.timestamp,
        )
        for record in decode(Path(path).read_bytes())
    ]
    producer.flush(timeout=DEADLINE_SECONDS)
    for future in sent:
        future.get(timeout=DEADLINE_SECONDS)
    producer.close()


def consume(bootstrap: str, output: str, wanted: list[str]) -> None:
    """Read every wanted partition to its count."""
    slots: dict[TopicPartition, int] = {}
    missing: dict[TopicPartition, int] = {}
    for slot, argument in enumerate(wanted):
        topic, partition, count = argument.split(":")
        slots[TopicPartition(topic, int(partition))] = slot
        missing[TopicPartition(topic, int(partition))] = int(count)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False)
    consumer.assign(list(slots))
    for place in slots:
        consumer.seek(place, 0)
    records: list[TestRecord] = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while missing:
        if time.monotonic() > deadline:
            raise SystemExit(f"records still missing: {missing}")
        for place, messages in consumer.poll(timeout_ms=500, max_records=5000).items():
            records += [
                TestRecord(
                    slots[place],
                    message.offset,
                    message.timestamp,
                    message.key,
                    message.value,
                    tuple(message.headers),
                )
                for message in messages
            ]
            missing[place] = missing.get(place, 0) - len(messages)
            if missing[place] <= 0:
                del missing[place]
    consumer.close()
    Path(output).write_bytes(encode(records))


def main(action: str, bootstrap: str, name: str, *rest: str) -> None:
    """Do the action."""
    if action == "create":
        create(bootstrap, name, int(rest[0]))
    elif action == "produce":
        for lane in rest:
            produce(bootstrap, name, lane)
    else:
        consume(bootstrap, name, list(rest))


if __name__ == "__main__":
    main(*sys.argv[1:])
