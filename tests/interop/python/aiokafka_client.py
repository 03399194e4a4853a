"""The interop client built on aiokafka."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.support.client_program import DEADLINE_SECONDS, Lane, Wanted, run_client
from tests.support.records import TestRecord


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


async def produce(bootstrap: str, topic: str, lane: Lane) -> None:
    """Produce one lane's records."""
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if lane.codec == "none" else lane.codec,
        acks="all" if lane.acks == "all" else int(lane.acks),
        enable_idempotence=lane.is_idempotent,
        linger_ms=5,
    )
    await producer.start()
    try:
        sent = [
            await producer.send(
                topic,
                value=record.value,
                key=record.key,
                partition=lane.partition,
                headers=list(record.headers),
                timestamp_ms=None if record.timestamp < 0 else record.timestamp,
            )
            for record in lane.records
        ]
        await producer.flush()
        await asyncio.gather(*sent)
    finally:
        await producer.stop()


async def consume(bootstrap: str, wanted: Wanted) -> list[TestRecord]:
    """Read every wanted partition to its count."""
    places = [TopicPartition(*place) for place in wanted.slots]
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False)
    await consumer.start()
    records: list[TestRecord] = []
    try:
        consumer.assign(places)
        for place in places:
            consumer.seek(place, 0)
        while wanted.missing:
            for place, messages in (await consumer.getmany(timeout_ms=500)).items():
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
    finally:
        await consumer.stop()
    return records


if __name__ == "__main__":
    run_client(
        create=lambda *given: asyncio.run(create(*given)),
        produce=lambda *given: asyncio.run(asyncio.wait_for(produce(*given), DEADLINE_SECONDS)),
        consume=lambda *given: asyncio.run(asyncio.wait_for(consume(*given), DEADLINE_SECONDS)),
    )
