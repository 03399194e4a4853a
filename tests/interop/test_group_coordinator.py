"""Groups of real clients, one at a time, and what is left of groups when the broker starts again."""

from __future__ import annotations

import asyncio
import importlib
import random
import warnings
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest

from kcli.protocol.messages.describe_groups import DescribeGroupsRequest
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.producing import create_topic
from tests.support.raw_client import RawClient
from tests.support.raw_member import RawMember
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

RECORDS = 100
PARTITIONS = 3
LONG_SESSION_MS = 300_000
"""So long that nobody is missed while a broker starts on a busy machine."""


def import_quietly(name: str) -> Any:
    """Import a client that uses what Python deprecates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(name)


def read_with_kafka_python(bootstrap: str, topic: str, group: str) -> list[bytes]:
    kafka = import_quietly("kafka")
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    # A leader whose metadata come while it assigns assigns nothing, and takes that for all there is.
    eventually(lambda: bool(consumer.partitions_for_topic(topic)), f"{topic} is known")
    consumer.subscribe([topic])
    values: list[bytes] = []

    def is_at_its_end() -> bool:
        for records in consumer.poll(timeout_ms=100).values():
            values.extend(record.value for record in records)
        owned = consumer.assignment()
        ends = consumer.end_offsets(owned) if len(owned) == PARTITIONS else {}
        return bool(ends) and all(consumer.position(each) >= end for each, end in ends.items())

    eventually(is_at_its_end, "everything is read", seen=lambda: values)
    consumer.commit()
    consumer.close()
    return values


def read_with_confluent(bootstrap: str, topic: str, group: str) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    ends: set[int] = set()
    while len(ends) < PARTITIONS:
        message = consumer.poll(60)
        assert message is not None
        if message.error():
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
            ends.add(message.partition())
        else:
            values.append(message.value())
    if values:
        consumer.commit(asynchronous=False)
    consumer.close()
    return values


def read_with_aiokafka(bootstrap: str, topic: str, group: str) -> list[bytes]:
    aiokafka = import_quietly("aiokafka")

    async def read() -> list[bytes]:
        consumer = aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        ends = await consumer.end_offsets(consumer.assignment())
        assert len(ends) == PARTITIONS
        values: list[bytes] = []
        while [each for each, end in ends.items() if await consumer.position(each) < end]:
            batch = await consumer.getmany(timeout_ms=100)
            values += [record.value for records in batch.values() for record in records]
        await consumer.commit()
        await consumer.stop()
        return values

    return asyncio.run(asyncio.wait_for(read(), 60))


READERS = [read_with_kafka_python, read_with_confluent, read_with_aiokafka]


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__.removeprefix("read_with_"))
def test_a_group_goes_on_where_it_committed(
    read: Callable[[str, str, str], list[bytes]], kcli_broker: KcliBroker
) -> None:
    bootstrap, name = kcli_broker.bootstrap, read.__name__
    create_topic(bootstrap, name, partitions=PARTITIONS)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})

    def produce(start: int) -> list[bytes]:
        values = [b"%d" % number for number in range(start, start + RECORDS)]
        for number, value in enumerate(values):
            producer.produce(name, value, partition=number % PARTITIONS)
        assert producer.flush(60) == 0
        return values

    first = produce(0)
    assert sorted(read(bootstrap, name, name)) == sorted(first)
    assert read(bootstrap, name, name) == []
    second = produce(RECORDS)
    assert sorted(read(bootstrap, name, name)) == sorted(second)
    with RawClient(bootstrap) as client:
        assert sum(RawMember(client, name).committed(name, PARTITIONS)) == 2 * RECORDS


def started(new_kcli_broker: Callable[..., KcliBroker]) -> KcliBroker:
    """Return a broker of this test's own that has the topic `t`."""
    broker = new_kcli_broker(settings={"num.partitions": str(PARTITIONS)}).start()
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    with RawClient(broker.bootstrap) as client:
        eventually(lambda: client.ask(request, 4).topics[0].error_code == 0, "the topic is there")
    return broker


@pytest.mark.parametrize("clean", [True, False], ids=["stop", "kill"])
def test_groups_outlive_their_broker(clean: bool, new_kcli_broker: Callable[..., KcliBroker]) -> None:
    broker = started(new_kcli_broker)
    with RawClient(broker.bootstrap) as client:
        members = [
            RawMember(client, f"group-{number}", session_timeout_ms=LONG_SESSION_MS) for number in range(20)
        ]
        for number, member in enumerate(members):
            member.join(b"assignment %d" % number)
            for round_number in range(3):
                offsets = dict.fromkeys(range(PARTITIONS), number + round_number)
                assert set(member.commit("t", offsets).values()) == {0}
        before = described(client, members)
    for _ in range(2):
        if clean:
            assert broker.stop() == 0
        else:
            broker.kill()
        broker.start()
        with RawClient(broker.bootstrap) as client:
            for number, member in enumerate(members):
                member.client = client
                assert member.committed("t", PARTITIONS) == [number + 2] * PARTITIONS
                assert member.heartbeat() == 0
            assert described(client, members) == before
            assert set(members[0].commit("t", {0: 2}).values()) == {0}


def described(client: RawClient, members: list[RawMember]) -> list[object]:
    """What is known of groups; equal text is equal knowledge."""
    groups = client.ask(DescribeGroupsRequest(groups=[member.group_id for member in members]), 5).groups
    assert all(group.group_state == "Stable" for group in groups)
    return [repr(group) for group in groups]


def test_no_committed_offset_goes_back_over_kills(new_kcli_broker: Callable[..., KcliBroker]) -> None:
    broker = started(new_kcli_broker)
    chance = random.Random(1)
    acknowledged = [-1] * PARTITIONS
    offset = 0
    for _ in range(6):
        with RawClient(broker.bootstrap) as client:
            member = RawMember(client, "group")
            member.find_coordinator()
            assert all(
                found >= known
                for found, known in zip(member.committed("t", PARTITIONS), acknowledged, strict=True)
            )
            for _ in range(chance.randrange(200)):
                index, offset = chance.randrange(PARTITIONS), offset + 1
                assert member.commit("t", {index: offset}) == {index: 0}
                acknowledged[index] = offset
            broker.kill()
        broker.start()
