"""The interop client built on aiokafka.

create  BOOTSTRAP TOPIC PARTITIONS
produce BOOTSTRAP TOPIC PARTITION:CODEC:ACKS:IDEMPOTENT:FILE ...
consume BOOTSTRAP OUTPUT TOPIC:PARTITION:COUNT ...
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.support.records import TestRecord, decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterable

DEADLINE_SECONDS = 90.0


async def create(bootstrap: str, topic: str, partitions: int) -> None:
    """Create the topic."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        response = await admin.create_topics([NewTopic(topic, partitions, 1)])
        code = response.topic_errors[0][1]
        if code != 0:
            raise SystemExit(f"create {topic}: error {code}")
    finally:
        await admin.close()


async def produce(bootstrap: str, topic: str, lane: str, records: Iterable[TestRecord]) -> None:
    """Produce one lane's records."""
    partition, codec, acks, idempotent, _ = lane.split(":", 4)
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        acks="all" if acks == "all" else int(acks),
        enable_idempotence=idempotent == "1",
        linger_ms=5,
    )
    await producer.start()
    try:
        sent = [
            await producer.send(
                topic,
                value=record.value,
                key=record.key,
                partition=int(partition),
                headers=list(record.headers),
                timestamp_ms=None if record.timestamp < 0 else record.timestamp,
            )
            for record in records
        ]
        await producer.flush()
        await asyncio.gather(*sent)
    finally:
        await producer.stop()


async def consume(bootstrap: str, wanted: list[str]) -> list[TestRecord]:
    """Read every wanted partition to its count."""
    slots: dict[TopicPartition, int] = {}
    missing: dict[TopicPartition, int] = {}
    for slot, argument in enumerate(wanted):
        topic, partition, count = argument.split(":")
        slots[TopicPartition(topic, int(partition))] = slot
        missing[TopicPartition(topic, int(partition))] = int(count)
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False)
    await consumer.start()
    records: list[TestRecord] = []
    try:
        consumer.assign(list(slots))
        for place in slots:
            consumer.seek(place, 0)
        while missing:
            for place, messages in (await consumer.getmany(timeout_ms=500)).items():
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
    finally:
        await consumer.stop()
    return records


def main(action: str, bootstrap: str, name: str, *rest: str) -> None:
    """Do the action."""
    if action == "create":
        asyncio.run(create(bootstrap, name, int(rest[0])))
    elif action == "produce":
        for lane in rest:
            given = decode(Path(lane.split(":", 4)[4]).read_bytes())
            asyncio.run(asyncio.wait_for(produce(bootstrap, name, lane, given), DEADLINE_SECONDS))
    else:
        records = asyncio.run(asyncio.wait_for(consume(bootstrap, list(rest)), DEADLINE_SECONDS))
        Path(name).write_bytes(encode(records))


if __name__ == "__main__":
    main(*sys.argv[1:])
