"""Brokers come and go: registrations, epochs, and what becomes of their partitions."""

from __future__ import annotations

import pytest

from kcli.broker.controller.cluster_control import (
    BrokerRegistrationRequest,
    fence_broker,
    register_broker,
    unfence_broker,
)
from kcli.broker.controller.partition_change import PartitionDecisions
from kcli.broker.controller.result import ControllerResult
from kcli.broker.metadata.metadata_image import Endpoint, MetadataImage
from kcli.broker.metadata.metadata_replay import apply
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from tests.support.metadata import broker, directory_of, image_of, topic_id, with_topic

FEATURES = {"metadata.version": (7, 30)}
REBORN = b"another incarnat"


def register(image: MetadataImage, node_id: int, incarnation: bytes = REBORN) -> ControllerResult[int]:
    return register_broker(
        PartitionDecisions(image),
        BrokerRegistrationRequest(
            node_id=node_id,
            incarnation=incarnation,
            endpoints=[Endpoint("PLAINTEXT", "localhost", 9092)],
            directories=[directory_of(node_id)],
            rack="r1",
        ),
        features=FEATURES,
    )


def leaders(image: MetadataImage) -> list[tuple[int, int]]:
    """Return leader and leader epoch of every partition."""
    return [(each.leader, each.leader_epoch) for topic in image.topics.values() for each in topic.partitions]


def test_a_registration_is_fenced_and_its_epoch_is_its_offset() -> None:
    result = register(image_of(), 1)
    assert result.records == (
        RegisterBrokerRecord(
            broker_id=1,
            incarnation_id=REBORN,
            broker_epoch=100,
            end_points=[BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9092, security_protocol=0)],
            features=[
                BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30)
            ],
            rack="r1",
            fenced=True,
            log_dirs=[directory_of(1)],
        ),
    )
    image, delta = apply(image_of(), result.records)
    assert image.offset == result.response == image.brokers[1].epoch == 100
    assert not image.broker_is_active(1)
    assert delta.changed_brokers == {1}


def test_a_restart_takes_leadership_away_and_gives_it_back_in_a_higher_epoch() -> None:
    before = with_topic(image_of(broker(1)), "a", 1, [1], [1])
    result = register(before, 1)
    down, _ = apply(before, result.records)
    assert leaders(down) == [(-1, 1), (-1, 1)]
    assert [each.isr for each in down.topics["a"].partitions] == [(1,), (1,)]
    assert down.brokers[1].epoch == result.response == down.offset
    up, delta = apply(
        down, unfence_broker(PartitionDecisions(down), node_id=1, epoch=result.response).records
    )
    assert leaders(up) == [(1, 2), (1, 2)]
    assert delta.changed_partitions == {topic_id(1): frozenset({0, 1})}


def test_registering_the_same_incarnation_again_moves_nothing() -> None:
    before = with_topic(image_of(broker(1)), "a", 1, [1])
    result = register(before, 1, before.brokers[1].incarnation)
    assert [type(record) for record in result.records] == [RegisterBrokerRecord]


def test_fencing_moves_leadership_to_who_is_in_sync() -> None:
    before = with_topic(image_of(broker(1), broker(2)), "a", 1, [1, 2], [2, 1], [1])
    result = fence_broker(PartitionDecisions(before), node_id=1, epoch=100)
    assert result.records == (
        PartitionChangeRecord(topic_id=topic_id(1), partition_id=0, isr=[2], leader=2),
        PartitionChangeRecord(topic_id=topic_id(1), partition_id=1, isr=[2]),
        PartitionChangeRecord(topic_id=topic_id(1), partition_id=2, leader=-1),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=100, fenced=1),
    )
    after, _ = apply(before, result.records)
    assert leaders(after) == [(2, 1), (2, 0), (-1, 1)]
    assert not after.broker_is_active(1)


def test_fencing_and_unfencing_twice_does_nothing() -> None:
    image = image_of(broker(1), broker(2, fenced=True))
    assert unfence_broker(PartitionDecisions(image), node_id=1, epoch=100).records == ()
    assert fence_broker(PartitionDecisions(image), node_id=2, epoch=200).records == ()


def test_a_broker_that_was_not_in_sync_is_not_elected_when_it_returns() -> None:
    before = with_topic(image_of(broker(1), broker(2)), "a", 1, [1, 2])
    image, _ = apply(before, fence_broker(PartitionDecisions(before), node_id=2, epoch=200).records)
    image, _ = apply(image, fence_broker(PartitionDecisions(image), node_id=1, epoch=100).records)
    image, _ = apply(image, unfence_broker(PartitionDecisions(image), node_id=2, epoch=200).records)
    assert leaders(image) == [(-1, 1)]
    image, _ = apply(image, unfence_broker(PartitionDecisions(image), node_id=1, epoch=100).records)
    assert leaders(image) == [(1, 2)]


@pytest.mark.parametrize(
    ("node_id", "epoch", "code"),
    [(2, 100, ErrorCode.BROKER_ID_NOT_REGISTERED), (1, 99, ErrorCode.STALE_BROKER_EPOCH)],
)
def test_who_is_not_registered_or_quotes_an_old_epoch_is_refused(
    node_id: int, epoch: int, code: ErrorCode
) -> None:
    for decide in (fence_broker, unfence_broker):
        with pytest.raises(KafkaError) as caught:
            decide(PartitionDecisions(image_of(broker(1))), node_id=node_id, epoch=epoch)
        assert caught.value.code is code


def test_a_node_need_not_support_features_without_apis_here() -> None:
    features = {"metadata.version": 30, "share.version": 1, "streams.version": 1}
    image = MetadataImage(features=features)
    after, _ = apply(image, register(image, 1).records)
    assert after.features == features


def test_a_node_must_support_what_the_cluster_works_at() -> None:
    image = MetadataImage(features={"metadata.version": 31})
    with pytest.raises(KafkaError, match=r"does not support the cluster's `metadata.version` level 31"):
        register(image, 1)
