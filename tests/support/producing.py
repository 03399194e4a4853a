"""Producing and reading through confluent-kafka, for tests that are about the broker and not the client."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.support.records import TestRecord
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DEADLINE_SECONDS = 60.0
NOT_YET = (
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
)
"""What a broker says that has just started, or has not heard of a topic yet."""

PATIENT_PRODUCER: dict[str, object] = {
    "enable.idempotence": True,
    "message.timeout.ms": 120_000,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "log_level": 0,
}
"""librdkafka's settings for a producer whose brokers come and go: no record is given up, none comes twice."""


def create_topic(
    bootstrap: str, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None
) -> None:
    """Create a topic and wait until its leaders know that they lead.

    A broker's metadata name a leader before it is one. One that refuses an idempotent producer's first batch
    therefore, and takes the second, leaves the producer trying the first until its delivery times out.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = NewTopic(topic, partitions, 1, config=dict(config or {}))
    admin.create_topics([wanted])[topic].result(DEADLINE_SECONDS)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (_has_leaders(admin, topic, partitions) and _leaders_answer(admin, topic, partitions)):
        assert time.monotonic() < deadline, f"{topic} has no leaders"


def _has_leaders(admin: AdminClient, topic: str, partitions: int) -> bool:
    # All topics are asked for, lest the broker create this one on its own terms.
    found = admin.list_topics(timeout=DEADLINE_SECONDS).topics.get(topic)
    if found is None or len(found.partitions) < partitions:
        return False
    return all(partition.leader >= 0 for partition in found.partitions.values())


def _leaders_answer(admin: AdminClient, topic: str, partitions: int) -> bool:
    wanted = {TopicPartition(topic, index): OffsetSpec.latest() for index in range(partitions)}
    try:
        for answer in admin.list_offsets(wanted).values():
            answer.result(DEADLINE_SECONDS)
    except KafkaException as error:
        if error.args[0].code() in NOT_YET:
            return False
        raise
    return True


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete a topic and wait until it is gone, lest its successor be taken for it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(DEADLINE_SECONDS)
    eventually(lambda: topic not in admin.list_topics(timeout=DEADLINE_SECONDS).topics, f"{topic} is gone")


def produce(
    bootstrap: str,
    topic: str,
    records: Iterable[TestRecord],
    config: Mapping[str, object] | None = None,
) -> None:
    """Produce every record to the partition that its slot names; raises when one was not acknowledged."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **(config or {})})
    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            record.slot,
            on_delivery=delivered,
            timestamp=max(0, record.timestamp),
            headers=list(record.headers),
        )
        producer.poll(0)
    left = producer.flush(DEADLINE_SECONDS)
    if failures:
        raise KafkaException(failures[0])
    assert left == 0, f"{left} records without an answer"


def end_offsets(bootstrap: str, topic: str) -> dict[int, tuple[int, int]]:
    """Per partition the first offset and the end offset."""
    consumer = _consumer(bootstrap)
    try:
        partitions = consumer.list_topics(topic, DEADLINE_SECONDS).topics[topic].partitions
        return {number: _watermarks(consumer, TopicPartition(topic, number)) for number in sorted(partitions)}
    finally:
        consumer.close()


def read_partition(
    bootstrap: str, topic: str, partition: int, start: int | None = None, end: int | None = None
) -> list[TestRecord]:
    """The records of a partition from its start, or `start`, to its end, or before `end`."""
    consumer = _consumer(bootstrap)
    try:
        low, high = _watermarks(consumer, TopicPartition(topic, partition))
        position = low if start is None else start
        stop = high if end is None else end
        consumer.assign([TopicPartition(topic, partition, position)])
        records: list[TestRecord] = []
        deadline = time.monotonic() + DEADLINE_SECONDS
        while position < stop:
            assert time.monotonic() < deadline, f"{topic}-{partition}: stuck at {position} of {stop}"
            for message in consumer.consume(10_000, 0.2):
                error = message.error()
                if error is not None and error.code() in NOT_YET:
                    continue
                if error is not None:
                    raise KafkaException(error)
                _, timestamp = message.timestamp()
                offset = message.offset()
                headers = tuple(message.headers() or ())
                position = offset + 1
                if offset < stop:
                    records.append(
                        TestRecord(partition, offset, timestamp, message.key(), message.value(), headers)
                    )
        return records
    finally:
        consumer.close()


def _watermarks(consumer: Consumer, partition: TopicPartition) -> tuple[int, int]:
    """The first offset and the end offset; a broker that has just started may not lead yet."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        try:
            low, high = consumer.get_watermark_offsets(partition, DEADLINE_SECONDS)
        except KafkaException as error:
            is_early = error.args[0].retriable() or error.args[0].code() in NOT_YET
            if not is_early or time.monotonic() > deadline:
                raise
        else:
            return low, high


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
            "auto.offset.reset": "error",
            "check.crcs": True,
        }
    )
