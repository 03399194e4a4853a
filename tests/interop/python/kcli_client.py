"""The interop client built on kcli's own client.

create  BOOTSTRAP TOPIC PARTITIONS
produce BOOTSTRAP TOPIC PARTITION:CODEC:ACKS:IDEMPOTENT:FILE ...
consume BOOTSTRAP OUTPUT TOPIC:PARTITION:COUNT ...
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from kcli.client import admin
from kcli.client.client import connect
from kcli.client.config import ConsumerConfig, ProducerConfig
from kcli.client.consumer import Consumer
from kcli.client.metadata import TopicPartition
from kcli.client.producer import Producer
from kcli.protocol.error_codes import KafkaError
from tests.support.records import TestRecord, decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterable

DEADLINE_SECONDS = 90.0


async def create(bootstrap: str, topic: str, partitions: int) -> None:
    """Create the topic."""
    async with connect(bootstrap) as client:
        created = (await admin.create_topics(client, [admin.NewTopic(topic, partitions, 1)]))[topic]
        if isinstance(created, KafkaError):
            raise created


async def produce(bootstrap: str, topic: str, lane: str, records: Iterable[TestRecord]) -> None:
    """Produce one lane's records."""
    partition, codec, acks, idempotent, _ = lane.split(":", 4)
    config = ProducerConfig(compression_type=codec, acks=acks, enable_idempotence=idempotent == "1")
    with trio.fail_after(DEADLINE_SECONDS):
        async with connect(bootstrap) as client, Producer(client, config) as producer:
            sent = [
                await producer.send(
                    topic,
                    record.value,
                    record.key,
                    partition=int(partition),
                    headers=record.headers,
                    timestamp=record.timestamp,
                )
                for record in records
            ]
            await producer.flush()
    for delivery in sent:
        if delivery.error is not None:
            raise delivery.error


async def consume(bootstrap: str, wanted: list[str]) -> list[TestRecord]:
    """Read every wanted partition to its count."""
    slots: dict[TopicPartition, int] = {}
    missing: dict[TopicPartition, int] = {}
    for slot, argument in enumerate(wanted):
        topic, partition, count = argument.split(":")
        slots[TopicPartition(topic, int(partition))] = slot
        missing[TopicPartition(topic, int(partition))] = int(count)
    records: list[TestRecord] = []
    with trio.fail_after(DEADLINE_SECONDS):
        async with connect(bootstrap) as client, Consumer(client, ConsumerConfig()) as consumer:
            consumer.assign(slots)
            for place in slots:
                consumer.seek(place, 0)
            while missing:
                for fetched in await consumer.poll():
                    slot = slots[fetched.partition]
                    records += [
                        TestRecord(slot, each.offset, each.timestamp, each.key, each.value, each.headers)
                        for each in fetched.records
                    ]
                    missing[fetched.partition] = missing.get(fetched.partition, 0) - len(fetched.records)
                    if missing[fetched.partition] <= 0:
                        del missing[fetched.partition]
    return records


def main(action: str, bootstrap: str, name: str, *rest: str) -> None:
    """Do the action."""
    if action == "create":
        trio.run(create, bootstrap, name, int(rest[0]))
    elif action == "produce":
        for lane in rest:
            given = decode(Path(lane.split(":", 4)[4]).read_bytes())
            trio.run(produce, bootstrap, name, lane, given)
    else:
        Path(name).write_bytes(encode(trio.run(consume, bootstrap, list(rest))))


if __name__ == "__main__":
    main(*sys.argv[1:])
