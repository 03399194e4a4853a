"""kcli's client copies a topic in transactions with its group's offsets, with Apache Kafka and with kcli.

librdkafka judges what was written, and Kafka's own rules whether a member may commit.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import confluent_kafka
import pytest
import trio

from kcli.client import admin
from kcli.client.admin import CommittedOffset
from kcli.client.client import Client, connect
from kcli.client.config import ConsumerConfig, ProducerConfig
from kcli.client.consumer.consumer import Consumer
from kcli.client.groups.classic_membership import GroupMetadata
from kcli.client.producer.producer import Producer
from kcli.client.producer.transaction_states import TransactionState
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.topics import TopicPartition
from tests.support.producing import create_topic, delete_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.interop.conftest import AnyBroker

pytestmark = pytest.mark.interop

RECORDS = 200
SECONDS = 30


@pytest.fixture
def topics(broker: AnyBroker) -> Iterator[tuple[str, str]]:
    """A topic with records, and an empty one."""
    source, target = (f"copier-{uuid.uuid4().hex[:8]}" for _ in range(2))
    create_topic(broker.bootstrap, source, 2)
    create_topic(broker.bootstrap, target, 3)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(RECORDS):
        producer.produce(source, str(number).encode(), partition=number % 2)
    producer.flush(SECONDS)
    yield source, target
    delete_topic(broker.bootstrap, source)
    delete_topic(broker.bootstrap, target)


class Crash(Exception):
    """What ends a copier between two transactions, or in one."""


async def copy(client: Client, source: str, target: str, *, protocol: str, crash_at: int | None) -> None:
    """Copy what the group has not copied yet; at a crash, abort the transaction that is open."""
    config = ConsumerConfig(
        group_id=source,
        group_protocol=protocol,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=20,
        isolation_level="read_committed",
    )
    producing = ProducerConfig(transactional_id=source)
    async with Producer(client, producing) as producer, Consumer(client, config) as consumer:
        await producer.init_transactions()
        consumer.subscribe([source])
        copied = total(await committed(client, source))
        while copied < RECORDS:
            async with producer.transaction():
                offsets: dict[TopicPartition, CommittedOffset] = {}
                for fetched in await consumer.poll(timeout_ms=1000):
                    for record in fetched.records:
                        await producer.send(target, record.value)
                    offsets[fetched.partition] = CommittedOffset(fetched.records[-1].offset + 1)
                    copied += len(fetched.records)
                await producer.send_offsets(offsets, consumer.group_metadata)
                if crash_at is not None and copied >= crash_at:
                    raise Crash


async def committed(client: Client, group: str) -> dict[TopicPartition, CommittedOffset]:
    """Return a group's offsets in the topic of its name, once no transaction has any to decide.

    A commit is answered before its markers are written. Apache Kafka tells of an offset that is the first one
    of its partition, and still waits for a marker, only where the request names the partition.
    """
    partitions = [TopicPartition(group, partition) for partition in range(2)]
    with trio.fail_after(SECONDS):
        while True:
            found = (await admin.list_group_offsets(client, {group: partitions}, require_stable=True))[group]
            if isinstance(found, KafkaError):
                raise found
            errors = [value for value in found.values() if isinstance(value, KafkaError)]
            if not errors:
                return {key: value for key, value in found.items() if isinstance(value, CommittedOffset)}
            assert {error.code for error in errors} == {ErrorCode.UNSTABLE_OFFSET_COMMIT}


def total(offsets: dict[TopicPartition, CommittedOffset]) -> int:
    """Return how many records lie before the offsets of both partitions."""
    return sum(each.offset for each in offsets.values())


def read_committed(bootstrap: str, topic: str) -> list[bytes]:
    """Return the values that librdkafka reads of a topic, partition by partition."""
    values: list[bytes] = []
    settings = {"bootstrap.servers": bootstrap, "group.id": f"judge-{topic}", "enable.partition.eof": True}
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0) for partition in range(3)])
    ended = set()
    while len(ended) < 3:
        message = consumer.poll(0.2)
        if message is not None and message.error() is not None:
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            ended.add(message.partition())
        elif message is not None:
            values.append(message.value())
    consumer.close()
    return values


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_copier_that_crashes_copies_each_record_once(
    protocol: str, broker: AnyBroker, topics: tuple[str, str]
) -> None:
    source, target = topics
    with trio.fail_after(SECONDS):
        async with connect(broker.bootstrap) as client:
            for crash_at in (30, 110):
                with pytest.raises(Crash):
                    await copy(client, source, target, protocol=protocol, crash_at=crash_at)
                assert 0 < total(await committed(client, source)) < crash_at
            await copy(client, source, target, protocol=protocol, crash_at=None)
            assert total(await committed(client, source)) == RECORDS
    copied = await trio.to_thread.run_sync(read_committed, broker.bootstrap, target)
    assert sorted(copied, key=int) == [str(number).encode() for number in range(RECORDS)]


async def test_a_member_that_the_group_does_not_know_leaves_the_abort(
    broker: AnyBroker, topics: tuple[str, str]
) -> None:
    source, target = topics
    stranger = GroupMetadata(source, 3, "nobody", None)
    async with connect(broker.bootstrap) as client:
        async with Producer(client, ProducerConfig(transactional_id=source)) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send(target, b"value")
            with pytest.raises(KafkaError) as raised:
                await producer.send_offsets({TopicPartition(source, 0): CommittedOffset(1)}, stranger)
            assert raised.value.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
            assert producer.transactions.state is TransactionState.ABORTABLE
            with pytest.raises(KafkaError):
                await producer.commit_transaction()
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send(target, b"next")
        assert await committed(client, source) == {}
    assert await trio.to_thread.run_sync(read_committed, broker.bootstrap, target) == [b"next"]
