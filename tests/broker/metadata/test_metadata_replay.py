"""What each record does to an image, and records that cannot be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kcli.broker.metadata.metadata_image import LeaderRecoveryState, MetadataDelta, PartitionRegistration
from kcli.broker.metadata.metadata_replay import InvalidMetadata, apply
from kcli.protocol.internal.metadata_records import (
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from kcli.protocol.internal.security_records import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from tests.support.metadata import broker, directory_of, image_of, topic_id, with_topic

ONE = with_topic(image_of(broker(1), broker(2)), "a", 1, [1, 2], [2, 1])


def entry(number: int, principal: str = "User:a") -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=number.to_bytes(16, "big"),
        resource_type=2,
        resource_name="a",
        pattern_type=3,
        principal=principal,
        host="*",
        operation=3,
        permission_type=3,
    )


def credential(name: str, mechanism: int, iterations: int = 4096) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=name, mechanism=mechanism, salt=b"", stored_key=b"", server_key=b"", iterations=iterations
    )


def token(id: str, expiration: int) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner="User:a",
        requester="User:a",
        renewers=[],
        issue_timestamp=1,
        max_timestamp=9,
        expiration_timestamp=expiration,
        token_id=id,
    )


def test_records_of_security_are_kept_until_they_are_removed_or_replaced() -> None:
    first = [entry(1), entry(2), credential("u", 1), credential("u", 2), token("t", 5), token("s", 5)]
    image, delta = apply(ONE, first)
    assert list(image.security.values()) == first
    assert delta == MetadataDelta(changed_security=frozenset(image.security))
    after, delta = apply(
        image,
        [
            RemoveAccessControlEntryRecord(id=entry(1).id),
            credential("u", 1, iterations=8192),
            RemoveUserScramCredentialRecord(name="u", mechanism=2),
            token("t", 7),
            RemoveDelegationTokenRecord(token_id="s"),
            RemoveDelegationTokenRecord(token_id="never there"),
            ZkMigrationStateRecord(zk_migration_state=0),
        ],
    )
    assert list(after.security.values()) == [
        entry(2),
        credential("u", 1, iterations=8192),
        token("t", 7),
        ZkMigrationStateRecord(zk_migration_state=0),
    ]
    assert delta.changed_security == {
        (AccessControlEntryRecord, entry(1).id),
        (UserScramCredentialRecord, "u", 1),
        (UserScramCredentialRecord, "u", 2),
        (DelegationTokenRecord, "t"),
        (DelegationTokenRecord, "s"),
        (ZkMigrationStateRecord,),
    }
    assert apply(after, [NoOpRecord()])[0].security is after.security


def test_what_does_not_change_is_shared() -> None:
    after, delta = apply(ONE, [ConfigRecord(resource_type=2, resource_name="a", name="x", value="1")])
    assert after.topics is ONE.topics
    assert after.brokers is ONE.brokers
    assert (after.offset, ONE.offset) == (103, 102)
    assert delta == MetadataDelta(changed_configs=frozenset({(2, "a")}))


def test_an_image_is_not_changed_by_what_follows_it() -> None:
    before = dict(ONE.topics), dict(ONE.brokers), dict(ONE.configs)
    apply(ONE, [RemoveTopicRecord(topic_id=topic_id(1)), UnregisterBrokerRecord(broker_id=1, broker_epoch=1)])
    assert (dict(ONE.topics), dict(ONE.brokers), dict(ONE.configs)) == before


def test_nothing_that_anyone_sees() -> None:
    after, delta = apply(ONE, [NoOpRecord()])
    assert delta.is_empty
    assert after.offset == ONE.offset + 1


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (PartitionChangeRecord(topic_id=topic_id(1), isr=[1]), {"isr": (1,)}),
        (PartitionChangeRecord(topic_id=topic_id(1), leader=2), {"leader": 2, "leader_epoch": 1}),
        # Stating the leader again raises its epoch.
        (PartitionChangeRecord(topic_id=topic_id(1), leader=1), {"leader_epoch": 1}),
        (
            PartitionChangeRecord(
                topic_id=topic_id(1),
                replicas=[3, 1, 2],
                adding_replicas=[3],
                removing_replicas=[2],
                directories=[directory_of(3), directory_of(1), directory_of(2)],
            ),
            {
                "replicas": (3, 1, 2),
                "adding": (3,),
                "removing": (2,),
                "directories": (directory_of(3), directory_of(1), directory_of(2)),
            },
        ),
        (
            PartitionChangeRecord(
                topic_id=topic_id(1),
                leader_recovery_state=1,
                eligible_leader_replicas=[2],
                last_known_elr=[1],
            ),
            {"recovery_state": LeaderRecoveryState.RECOVERING, "elr": (2,), "last_known_elr": (1,)},
        ),
        (PartitionChangeRecord(topic_id=topic_id(1)), {}),
    ],
)
def test_a_change_replaces_what_it_names(change: PartitionChangeRecord, expected: dict[str, Any]) -> None:
    change.partition_id = 0
    after, delta = apply(ONE, [change])
    before = ONE.topics["a"].partitions[0]
    partition = after.topics["a"].partitions[0]
    assert partition == replace(before, partition_epoch=before.partition_epoch + 1, **expected)
    assert after.topics["a"].partitions[1] is ONE.topics["a"].partitions[1]
    assert delta.changed_partitions == {topic_id(1): frozenset({0})}


def test_a_partition_is_stated_as_a_whole_by_its_record() -> None:
    partition = PartitionRegistration(
        replicas=(1, 2),
        isr=(1,),
        leader=1,
        leader_epoch=3,
        partition_epoch=4,
        removing=(2,),
        adding=(1,),
        directories=(directory_of(1), directory_of(2)),
        recovery_state=LeaderRecoveryState.RECOVERING,
        elr=(2,),
        last_known_elr=(1,),
    )
    assert PartitionRegistration.from_record(partition.to_record(topic_id(1), 0)) == partition


def test_brokers() -> None:
    fenced, delta = apply(ONE, [FenceBrokerRecord(id=1, epoch=100)])
    assert not fenced.broker_is_active(1)
    assert delta.changed_brokers == {1}
    back, _ = apply(fenced, [UnfenceBrokerRecord(id=1, epoch=100)])
    assert back.broker_is_active(1)
    leaving = BrokerRegistrationChangeRecord(
        broker_id=1, broker_epoch=100, in_controlled_shutdown=1, log_dirs=[directory_of(9)]
    )
    image, _ = apply(back, [leaving])
    assert not image.broker_is_active(1)
    assert image.brokers[1].directories == (directory_of(9),)
    gone, delta = apply(image, [UnregisterBrokerRecord(broker_id=1, broker_epoch=100)])
    assert set(gone.brokers) == {2}
    assert delta.changed_brokers == {1}


def test_a_topic_deleted_and_created_again_in_one_batch_is_another_one() -> None:
    records: list[MetadataRecord] = [
        RemoveTopicRecord(topic_id=topic_id(1)),
        TopicRecord(name="a", topic_id=topic_id(2)),
        PartitionRecord(partition_id=0, topic_id=topic_id(2), replicas=[1], isr=[1], leader=1),
    ]
    after, delta = apply(ONE, records)
    assert [topic.topic_id for topic in delta.deleted_topics] == [topic_id(1)]
    assert [topic.topic_id for topic in delta.created_topics] == [topic_id(2)]
    assert set(after.topics_by_id) == {topic_id(2)}
    assert after.topics["a"].topic_id == topic_id(2)


def test_the_rest() -> None:
    records: list[MetadataRecord] = [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="group.version", feature_level=0),
        ProducerIdsRecord(broker_id=1, next_producer_id=2000),
        ConfigRecord(resource_type=4, resource_name="", name="x", value="1"),
        ConfigRecord(resource_type=4, resource_name="", name="x", value=None),
    ]
    after, delta = apply(ONE, records)
    assert after.features == {"metadata.version": 30}
    assert after.next_producer_id == 2000
    assert after.configs == {}
    assert delta == MetadataDelta(changed_features=frozenset({"metadata.version"}))


@pytest.mark.parametrize(("name", "left"), [("a", ()), ("", ()), ("b", (2,))])
def test_eligible_leader_replicas_are_forgotten_by_topic(name: str, left: tuple[int, ...]) -> None:
    change = PartitionChangeRecord(
        partition_id=0, topic_id=topic_id(1), eligible_leader_replicas=[2], last_known_elr=[1]
    )
    image, _ = apply(apply(ONE, [change])[0], [ClearElrRecord(topic_name=name)])
    assert image.topics["a"].partitions[0].elr == left


@pytest.mark.parametrize(
    "record",
    [
        RemoveTopicRecord(topic_id=topic_id(9)),
        PartitionRecord(partition_id=0, topic_id=topic_id(9)),
        PartitionRecord(partition_id=5, topic_id=topic_id(1)),
        PartitionChangeRecord(partition_id=2, topic_id=topic_id(1)),
        TopicRecord(name="b", topic_id=topic_id(2)),
        FenceBrokerRecord(id=9, epoch=1),
        BrokerRegistrationChangeRecord(broker_id=9, broker_epoch=1),
        EndTransactionRecord(),
    ],
)
def test_records_that_cannot_follow(record: MetadataRecord) -> None:
    with pytest.raises(InvalidMetadata):
        apply(ONE, [record])
