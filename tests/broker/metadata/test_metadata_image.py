"""Images: what they say of brokers and topics, and what lies between two."""

from __future__ import annotations

from dataclasses import replace

from kcli.broker.metadata.metadata_image import (
    EMPTY_IMAGE,
    BrokerRegistration,
    Endpoint,
    MetadataDelta,
    MetadataImage,
    PartitionRegistration,
)
from tests.support.metadata import broker, image_of, topic_id, with_topic

ONE = with_topic(image_of(broker(1), broker(2)), "a", 1, [1, 2], [2, 1])


def test_a_whole_image_is_a_delta_from_nothing() -> None:
    delta = MetadataDelta.from_nothing(ONE)
    assert delta.created_topics == (ONE.topics["a"],)
    assert delta.changed_partitions == {topic_id(1): frozenset({0, 1})}
    assert delta.changed_brokers == {1, 2}


def test_an_empty_image_has_nothing() -> None:
    assert EMPTY_IMAGE.topic_config("a") == {}
    assert not EMPTY_IMAGE.broker_is_active(1)


def test_brokers_are_found_by_the_listener_they_have() -> None:
    elsewhere = replace(broker(1), endpoints=(Endpoint("OTHER", "host-1", 9093),))
    image = image_of(broker(3), broker(2, fenced=True), elsewhere, broker(4))

    def ids(*wanted: int) -> list[int]:
        found = image.brokers_with_listener("PLAINTEXT", wanted or None)
        assert all(endpoint.host == f"host-{each.node_id}" for each, endpoint in found)
        return [each.node_id for each, _ in found]

    assert ids() == [2, 3, 4]
    assert ids(4, 2, 1, 9) == [2, 4]
    assert list(image.reachable_brokers("PLAINTEXT")) == [3, 4]
    assert list(image.reachable_brokers("OTHER")) == [1]
    assert image.reachable_brokers("NONE") == {}


def test_a_replica_is_offline_with_its_broker_or_its_log_directory() -> None:
    good, bad = b"g" * 16, b"b" * 16
    brokers = {
        1: BrokerRegistration(1, 0, b"", directories=(good,), fenced=False),
        2: BrokerRegistration(2, 0, b"", directories=(good, b"o" * 16), fenced=False),
        3: BrokerRegistration(3, 0, b"", directories=(good,)),
    }
    image = MetadataImage(brokers=brokers)
    partition = PartitionRegistration((1, 2, 3, 4), (1, 2), directories=(good, bad, good, good))
    assert image.offline_replicas(partition, {1, 2}) == [2, 3, 4]
    unplaced = PartitionRegistration((1, 2, 3, 4), (1, 2))
    assert image.offline_replicas(unplaced, {1, 2}) == [3, 4]
