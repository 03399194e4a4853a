"""The interop client built on kcli's own client."""

from __future__ import annotations

from functools import partial

import trio

from kcli.client import admin
from kcli.client.client import connect
from kcli.client.config import ConsumerConfig, ProducerConfig
from kcli.client.consumer.consumer import Consumer
from kcli.client.producer.producer import Producer
from kcli.protocol.error_codes import KafkaError
from kcli.protocol.topics import TopicPartition
from tests.support.client_program import DEADLINE_SECONDS, Lane, Wanted, run_client
from tests.support.records import TestRecord


async def create(bootstrap: str, topic: str, partitions: int) -> None:
    """Create the topic."""
    async with connect(bootstrap) as client:
        created = (await admin.create_topics(client, [admin.NewTopic(topic, partitions, 1)]))[topic]
        if isinstance(created, KafkaError):
            raise created


async def produce(bootstrap: str, topic: str, lane: Lane) -> None:
    """Produce one lane's records."""
    config = ProducerConfig(
        compression_type=lane.codec, acks=lane.acks, enable_idempotence=lane.is_idempotent
    )
    with trio.fail_after(DEADLINE_SECONDS):
        async with connect(bootstrap) as client, Producer(client, config) as producer:
            sent = [
                await producer.send(
                    topic,
                    record.value,
                    record.key,
                    partition=lane.partition,
                    headers=record.headers,
                    timestamp=record.timestamp,
                )
                for record in lane.records
            ]
            await producer.flush()
    for delivery in sent:
        if delivery.error is not None:
            raise delivery.error


async def consume(bootstrap: str, wanted: Wanted) -> list[TestRecord]:
    """Read every wanted partition to its count."""
    places = [TopicPartition(*place) for place in wanted.slots]
    records: list[TestRecord] = []
    with trio.fail_after(DEADLINE_SECONDS):
        async with connect(bootstrap) as client, Consumer(client, ConsumerConfig()) as consumer:
            consumer.assign(places)
            for place in places:
                consumer.seek(place, 0)
            while wanted.missing:
                for fetched in await consumer.poll():
                    slot = wanted.slots[fetched.partition]
                    records += [
                        TestRecord(slot, each.offset, each.timestamp, each.key, each.value, each.headers)
                        for each in fetched.records
                    ]
                    wanted.arrived(fetched.partition, len(fetched.records))
    return records


if __name__ == "__main__":
    run_client(
        create=partial(trio.run, create),
        produce=partial(trio.run, produce),
        consume=partial(trio.run, consume),
    )
