"""The interop client built on confluent-kafka (librdkafka).

create  BOOTSTRAP TOPIC PARTITIONS
produce BOOTSTRAP TOPIC PARTITION:CODEC:ACKS:IDEMPOTENT:FILE ...
consume BOOTSTRAP OUTPUT TOPIC:PARTITION:COUNT ...
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.records import TestRecord, decode, encode

DEADLINE_SECONDS = 90.0


def create(bootstrap: str, topic: str, partitions: int) -> None:
    """Create the topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(DEADLINE_SECONDS)


def produce(bootstrap: str, topic: str, lane: str) -> None:
    """Produce one lane's file."""
    partition, codec, acks, idempotent, path = lane.split(":", 4)
    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "compression.type": codec,
        "acks": acks,
        "enable.idempotence": idempotent == "1",
        "linger.ms": 5,
    }
    failures: list[object] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(config)
    for record in decode(Path(path).read_bytes()):
        stamp = {} if record.timestamp < 0 else {"timestamp": record.timestamp}
        producer.produce(
            topic,
            record.value,
            record.key,
            int(partition),
            on_delivery=delivered,
            headers=list(record.headers),
            **stamp,
        )
        producer.poll(0)
    left = producer.flush(DEADLINE_SECONDS)
    if failures or left:
        raise SystemExit(f"{left} not delivered, first error: {failures[:1]}")


def consume(bootstrap: str, output: str, wanted: list[str]) -> None:
    """Read every wanted partition to its count."""
    slots: dict[tuple[str, int], int] = {}
    missing: dict[tuple[str, int], int] = {}
    for slot, argument in enumerate(wanted):
        topic, partition, count = argument.split(":")
        slots[topic, int(partition)] = slot
        missing[topic, int(partition)] = int(count)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in slots])
    records: list[TestRecord] = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while missing:
        if time.monotonic() > deadline:
            raise SystemExit(f"records still missing: {missing}")
        for message in consumer.consume(5000, 0.5):
            if message.error() is not None:
                raise SystemExit(str(message.error()))
            place = (message.topic(), message.partition())
            headers = tuple(message.headers() or ())
            _, timestamp = message.timestamp()
            records.append(
                TestRecord(slots[place], message.offset(), timestamp, message.key(), message.value(), headers)
            )
            if place in missing:
                missing[place] -= 1
                if missing[place] == 0:
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
