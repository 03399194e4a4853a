"""Features: what a cluster begins with, and which way a level may go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcli.broker.controller.feature_control import (
    MIN_ISR,
    SUPPORTED_FEATURES,
    FeatureUpdate,
    UpgradeType,
    finalize_features,
    unserved_warning,
    update_features,
)
from kcli.broker.metadata.metadata_image import EMPTY_IMAGE, MetadataImage
from kcli.broker.metadata.metadata_replay import apply
from kcli.broker.metadata.metadata_snapshot import image_records
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.metadata_records import ConfigRecord, FeatureLevelRecord
from kcli.protocol.internal.security_records import AccessControlEntryRecord, UserScramCredentialRecord
from tests.support.metadata import broker, image_of

UP, DOWN, FORCED = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE
ALL = tuple((name, lowest, highest) for name, (lowest, highest) in SUPPORTED_FEATURES.items())


def cluster(**levels: int) -> MetadataImage:
    features = {name.replace("_", "."): level for name, level in levels.items()}
    return replace(image_of(replace(broker(1), features=ALL)), features=features)


def test_a_new_cluster_begins_at_the_highest_levels_and_metadata_version_comes_first() -> None:
    records = finalize_features(EMPTY_IMAGE).records
    levels = [(each.name, each.feature_level) for each in records if isinstance(each, FeatureLevelRecord)]
    assert levels == [(name, highest) for name, (_, highest) in SUPPORTED_FEATURES.items()]
    assert levels[0] == ("metadata.version", 30)


def test_a_level_that_somebody_has_set_is_kept_over_terms_and_snapshots() -> None:
    image, _ = apply(EMPTY_IMAGE, finalize_features(EMPTY_IMAGE).records)
    lowered, _ = apply(image, update_features(image, [FeatureUpdate("group.version", 0, DOWN)]).records)
    assert "group.version" not in lowered.features
    assert finalize_features(lowered).records == ()
    restored, _ = apply(EMPTY_IMAGE, image_records(lowered))
    assert restored.disabled_features == lowered.disabled_features == {"group.version"}
    raised, _ = apply(lowered, update_features(lowered, [FeatureUpdate("group.version", 1, UP)]).records)
    assert (raised.features["group.version"], raised.disabled_features) == (1, frozenset())


def test_one_line_names_what_is_kept_and_not_served() -> None:
    assert unserved_warning(cluster(metadata_version=30, share_version=0)) is None
    image = cluster(
        metadata_version=30, group_version=1, transaction_version=1, share_version=1, streams_version=1
    )
    line = (
        "kept for Apache Kafka, but not served here: share groups (`share.version` 1), "
        "streams groups (`streams.version` 1)"
    )
    assert unserved_warning(image) == line
    assert finalize_features(image).records == ()
    credentials = [
        UserScramCredentialRecord(
            name=name, mechanism=1, salt=b"", stored_key=b"", server_key=b"", iterations=4096
        )
        for name in ("a", "b")
    ]
    with_users, _ = apply(image, credentials)
    assert unserved_warning(with_users) == f"{line}, 2 SCRAM credentials: every client gets in"


def test_access_control_entries_are_not_served_without_an_authorizer() -> None:
    entry = AccessControlEntryRecord(
        id=bytes(16), resource_type=2, resource_name="t", pattern_type=3, principal="User:a", host="*",
        operation=3, permission_type=3,
    )  # fmt: skip
    image, _ = apply(cluster(metadata_version=30), [entry])
    kept = "kept for Apache Kafka, but not served here: 1 access control entry: every client gets in"
    assert unserved_warning(image) == kept
    assert unserved_warning(image, has_authorizer=True) is None


@pytest.mark.parametrize(
    ("current", "name", "level", "type", "reason"),
    [
        (30, "metadata.version", 30, UP, None),
        (20, "metadata.version", 30, UP, None),
        (22, "metadata.version", 18, DOWN, None),
        (30, "metadata.version", 31, UP, "the controller supports only 7 to 30"),
        (30, "metadata.version", 6, FORCED, "the controller supports only 7 to 30"),
        (30, "metadata.version", 29, UP, "it is 30, and only a safe or unsafe downgrade may lower it"),
        (20, "metadata.version", 21, DOWN, "it is 20, which a downgrade cannot raise"),
        (30, "metadata.version", 29, DOWN, "it would lose metadata that the lower level does not know"),
        (30, "metadata.version", 29, FORCED, "unsafe downgrades are not supported"),
        (30, "group.version", -1, DOWN, "the controller supports only 0 to 1"),
        (30, "group.version", 0, UP, "it is 1, and only a safe or unsafe downgrade may lower it"),
        (30, "group.version", 0, FORCED, None),
        (30, "share.version", 1, UP, "the controller does not support this feature"),
    ],
)
def test_an_update(current: int, name: str, level: int, type: UpgradeType, reason: str | None) -> None:
    image = cluster(metadata_version=current, group_version=1)
    updates = [FeatureUpdate(name, level, type)]
    if reason is None:
        after, _ = apply(image, update_features(image, updates).records)
        assert after.features.get(name, 0) == level
        return
    with pytest.raises(KafkaError) as caught:
        update_features(image, updates)
    assert caught.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert caught.value.message == f"`{name}` cannot be {level}: {reason}"


def test_a_cluster_that_exists_gets_new_features_but_none_that_changes_elections() -> None:
    image = cluster(metadata_version=30)
    after, _ = apply(image, finalize_features(image).records)
    assert after.features == {"metadata.version": 30, "group.version": 1, "transaction.version": 2}


def test_eligible_leaders_need_a_minimum_that_is_everyone_s() -> None:
    before, _ = apply(
        cluster(metadata_version=30),
        [
            ConfigRecord(resource_type=4, resource_name="1", name=MIN_ISR, value="3"),
            ConfigRecord(resource_type=4, resource_name="1", name="log.retention.ms", value="3"),
        ],
    )
    wanted = [FeatureUpdate("eligible.leader.replicas.version", 1)]
    after, _ = apply(before, update_features(before, wanted, min_isr=2).records)
    assert after.features["eligible.leader.replicas.version"] == 1
    assert after.configs == {(4, "1"): {"log.retention.ms": "3"}, (4, ""): {MIN_ISR: "2"}}
    old = cluster(metadata_version=22)
    with pytest.raises(KafkaError, match=r"it needs `metadata.version` 23"):
        update_features(old, wanted)
    both = [FeatureUpdate("metadata.version", 23), *wanted]
    assert apply(old, update_features(old, both).records)[0].features["metadata.version"] == 23


def test_all_levels_change_or_none() -> None:
    image = cluster(metadata_version=20, group_version=1)
    wanted = [FeatureUpdate("metadata.version", 30), FeatureUpdate("group.version", 2)]
    with pytest.raises(KafkaError):
        update_features(image, wanted)
    assert len(update_features(image, wanted[:1]).records) == 1


def test_every_registered_node_must_support_a_level() -> None:
    old = replace(broker(2), features=(("metadata.version", 7, 21),))
    image = replace(image_of(replace(broker(1), features=ALL), old), features={"metadata.version": 20})
    with pytest.raises(KafkaError, match="node 2 supports only 7 to 21"):
        update_features(image, [FeatureUpdate("metadata.version", 22)])
    with pytest.raises(KafkaError, match="node 2 does not support this feature"):
        update_features(image, [FeatureUpdate("group.version", 1)])
