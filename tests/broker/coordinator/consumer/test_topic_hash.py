"""Hashes of topics and groups equal those of Apache Kafka 4.3.1."""

from __future__ import annotations

import json

import pytest

from kcli.broker.coordinator.consumer.topic_hash import TopicHashes, topic_hash, xxh3_64
from kcli.broker.metadata.metadata_image import BrokerRegistration, MetadataImage
from kcli.broker.metadata.registrations import PartitionRegistration, TopicImage
from tests.conftest import GOLDEN

VECTORS = json.loads((GOLDEN / "topic_hashes.json").read_text(encoding="utf-8"))


def pattern(size: int) -> bytes:
    return bytes((index * 131 + 7) & 0xFF for index in range(size))


@pytest.mark.parametrize(("size", "expected"), VECTORS["xxh3"], ids=lambda value: str(value))
def test_xxh3_is_that_of_hash4j(size: int, expected: int) -> None:
    assert xxh3_64(pattern(size)) == expected


def image(racks: dict[str, str | None], topics: list[TopicImage]) -> MetadataImage:
    brokers = {
        int(node_id): BrokerRegistration(node_id=int(node_id), epoch=1, incarnation=b"i" * 16, rack=rack)
        for node_id, rack in racks.items()
    }
    return MetadataImage(
        brokers=brokers,
        topics={topic.name: topic for topic in topics},
        topics_by_id={topic.topic_id: topic for topic in topics},
    )


def topic(vector: dict) -> TopicImage:
    partitions = tuple(
        PartitionRegistration(replicas=tuple(replicas), isr=tuple(replicas))
        for replicas in vector["replicas"]
    )
    return TopicImage(vector["name"], bytes.fromhex(vector["id"]), partitions)


TOPICS = [topic(vector) for vector in VECTORS["topics"]]


@pytest.mark.parametrize("vector", VECTORS["topics"], ids=lambda vector: vector["name"])
def test_the_hash_of_a_topic_is_kafkas(vector: dict) -> None:
    assert topic_hash(topic(vector), image(VECTORS["racks"], [])) == vector["hash"]


def test_the_hash_of_a_group_is_kafkas_and_topics_that_do_not_exist_do_not_count() -> None:
    hashes = TopicHashes()
    names = [each.name for each in TOPICS]
    assert hashes.of_group([*reversed(names), "none"], image(VECTORS["racks"], TOPICS)) == VECTORS["group"]
    assert hashes.of_group(["none"], image(VECTORS["racks"], TOPICS)) == 0
    assert hashes.of_group([], image(VECTORS["racks"], TOPICS)) == 0


def test_a_topic_that_changed_is_hashed_again() -> None:
    hashes = TopicHashes()
    small = TopicImage("t", b"t" * 16, (PartitionRegistration(replicas=(1,), isr=(1,)),))
    large = TopicImage("t", b"t" * 16, small.partitions * 2)
    before = hashes.of_group(["t"], image({}, [small]))
    assert hashes.of_group(["t"], image({}, [small])) == before
    assert hashes.of_group(["t"], image({}, [large])) != before
