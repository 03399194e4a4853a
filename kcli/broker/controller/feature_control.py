"""Features: the level at which the cluster uses each (KIP-584, KIP-1022).

A new cluster begins at the highest levels of this program. An existing one also enables features that it
never had, unless they change how leaders are elected, and keeps levels that were set. Only working features
are listed.

Eligible leader replicas (KIP-966) are safe only while `min.insync.replicas` stays the same for all nodes. So
while that feature is on, single brokers cannot set it, the cluster always has a value, and each new value, of
the cluster or of a topic, clears the eligible leaders recorded under the old one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from kcli.broker.controller.result import ControllerResult
from kcli.protocol.configs import ConfigResourceType
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.metadata_records import (
    METADATA_VERSION,
    NEWEST_METADATA_VERSION,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.protocol.internal.metadata_records import MetadataRecord

MIN_ISR = "min.insync.replicas"


def check_min_isr(records: Sequence[MetadataRecord]) -> None:
    """Raise `KafkaError` INVALID_CONFIG for a change that eligible leaders forbid."""
    for record in _changes(records):
        if record.resource_type != ConfigResourceType.BROKER:
            continue
        if record.resource_name and record.value is not None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"a broker cannot have a `{MIN_ISR}` of its own while the cluster keeps eligible leaders",
            )
        if not record.resource_name and record.value is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"the cluster's `{MIN_ISR}` cannot be deleted while it keeps eligible leaders",
            )


def elr_clearing_records(records: Sequence[MetadataRecord]) -> list[MetadataRecord]:
    """Return the records that clear eligible leaders, for records that change `min.insync.replicas`."""
    forgotten: list[MetadataRecord] = []
    for record in _changes(records):
        if record.resource_type == ConfigResourceType.TOPIC:
            forgotten.append(ClearElrRecord(topic_name=record.resource_name))
        elif not record.resource_name:
            forgotten.append(ClearElrRecord(topic_name=""))
    return forgotten


def elr_enabling_records(image: MetadataImage, min_isr: int) -> list[MetadataRecord]:
    """Return the records that prepare the configuration for the feature; `min_isr` is the nodes' default."""
    records: list[MetadataRecord] = []
    if MIN_ISR not in image.config(ConfigResourceType.BROKER, ""):
        records.append(_config("", str(min_isr)))
    for (type, name), values in image.configs.items():
        if type == ConfigResourceType.BROKER and name and MIN_ISR in values:
            records.append(_config(name, None))
    return records


def _changes(records: Sequence[MetadataRecord]) -> list[ConfigRecord]:
    return [each for each in records if isinstance(each, ConfigRecord) and each.name == MIN_ISR]


def _config(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=ConfigResourceType.BROKER, resource_name=broker, name=MIN_ISR, value=value
    )


GROUP_VERSION = "group.version"
ELIGIBLE_LEADER_REPLICAS_VERSION = "eligible.leader.replicas.version"
TRANSACTION_VERSION = "transaction.version"

SUPPORTED_FEATURES: Mapping[str, tuple[int, int]] = {
    # From 3.3-IV3, the first level without ZooKeeper, to 4.3-IV0.
    METADATA_VERSION: (7, NEWEST_METADATA_VERSION),
    # 1 enables groups whose coordinator assigns (KIP-848).
    GROUP_VERSION: (0, 1),
    # 1 enables eligible leader replicas (KIP-966).
    ELIGIBLE_LEADER_REPLICAS_VERSION: (0, 1),
    # 1 enables flexible records of transactions, 2 gives each transaction its own epoch (KIP-890).
    TRANSACTION_VERSION: (0, 2),
}
"""Lowest and highest level by name."""

UNSERVED_FEATURES: Mapping[str, str] = {
    "share.version": "share groups",
    "streams.version": "streams groups",
}
"""Features of Kafka 4.3 without APIs here, and what they are for; their levels stay as Kafka has set them."""

_WITH_NEW_RECORDS = frozenset({8, 11, 13, 14, 15, 17, 23, 30})
"""Levels of `metadata.version` with records that the level below does not know (class `MetadataVersion`)."""

_FIRST_WITH_ELIGIBLE_LEADERS = 23
"""The first level of `metadata.version` with records of eligible leaders, 4.0-IV1."""


class UpgradeType(IntEnum):
    """The allowed direction of a change, numbered as on the wire."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """A feature and its new level."""

    name: str
    level: int
    type: UpgradeType = UpgradeType.UPGRADE


def finalize_features(image: MetadataImage, *, min_isr: int = 1) -> ControllerResult[None]:
    """Decide the feature levels at the start of a controller epoch; `min_isr` as for `update_features`.

    `metadata.version` comes first in a log.
    """
    is_new = METADATA_VERSION not in image.features
    records: list[MetadataRecord] = []
    for name, (_, highest) in SUPPORTED_FEATURES.items():
        is_known = name in image.features or name in image.disabled_features
        if is_known or (name == ELIGIBLE_LEADER_REPLICAS_VERSION and not is_new):
            continue
        records.append(FeatureLevelRecord(name=name, feature_level=highest))
        if name == ELIGIBLE_LEADER_REPLICAS_VERSION:
            records.extend(elr_enabling_records(image, min_isr))
    return ControllerResult(tuple(records), None)


def update_features(
    image: MetadataImage, updates: Sequence[FeatureUpdate], *, min_isr: int = 1
) -> ControllerResult[None]:
    """Change levels, all or none; `min_isr` is the nodes' default of `min.insync.replicas`.

    If a feature is named twice, the last update counts.

    Raises `KafkaError` INVALID_UPDATE_VERSION for a level that a node does not support, that the kind of
    update does not allow, or that does not know existing records.
    """
    updates = list({update.name: update for update in updates}.values())
    levels = {**image.features, **{update.name: update.level for update in updates}}
    records: list[MetadataRecord] = []
    for update in updates:
        current = image.features.get(update.name, 0)
        wrong = _unsupported(image, update) or _wrong_way(update, current)
        if wrong is None and update.name == METADATA_VERSION and update.level < current:
            wrong = _refused_downgrade(update, current)
        if wrong is None and update.name == ELIGIBLE_LEADER_REPLICAS_VERSION and update.level > 0:
            if levels[METADATA_VERSION] < _FIRST_WITH_ELIGIBLE_LEADERS:
                wrong = f"it needs `{METADATA_VERSION}` {_FIRST_WITH_ELIGIBLE_LEADERS}"
            elif current == 0:
                records.extend(elr_enabling_records(image, min_isr))
        if wrong is not None:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION, f"`{update.name}` cannot be {update.level}: {wrong}"
            )
        if update.level != current:
            records.append(FeatureLevelRecord(name=update.name, feature_level=update.level))
    return ControllerResult(tuple(records), None)


def unserved_warning(image: MetadataImage, *, has_authorizer: bool = False) -> str | None:
    """Return a line that names what the cluster uses and kcli does not serve, None for nothing.

    Access control entries need an authorizer; without one they keep nobody out.
    """
    found = [
        f"{what} (`{name}` {image.features[name]})"
        for name, what in UNSERVED_FEATURES.items()
        if image.features.get(name)
    ]
    ending = ""
    if image.security:
        from kcli.protocol.internal import security_records  # Few clusters have any.

        entry = security_records.AccessControlEntryRecord
        idle = [each for each in image.security.values() if not (has_authorizer and isinstance(each, entry))]
        found += security_records.counted(idle)
        ending = "" if has_authorizer else ": every client gets in"
    if not found:
        return None
    return f"kept for Apache Kafka, but not served here: {', '.join(found)}{ending}"


def _unsupported(image: MetadataImage, update: FeatureUpdate) -> str | None:
    ranges = {"the controller": SUPPORTED_FEATURES.get(update.name, (0, 0))}
    for broker in image.brokers.values():
        supported = {name: (lowest, highest) for name, lowest, highest in broker.features}
        ranges[f"node {broker.node_id}"] = supported.get(update.name, (0, 0))
    for who, (lowest, highest) in ranges.items():
        if not lowest <= update.level <= highest:
            if highest == 0:
                return f"{who} does not support this feature"
            return f"{who} supports only {lowest} to {highest}"
    return None


def _wrong_way(update: FeatureUpdate, current: int) -> str | None:
    is_upgrade = update.type is UpgradeType.UPGRADE
    if update.level < current and is_upgrade:
        return f"it is {current}, and only a safe or unsafe downgrade may lower it"
    if update.level > current and not is_upgrade:
        return f"it is {current}, which a downgrade cannot raise"
    return None


def _refused_downgrade(update: FeatureUpdate, current: int) -> str | None:
    if _WITH_NEW_RECORDS.isdisjoint(range(update.level + 1, current + 1)):
        return None
    if update.type is UpgradeType.UNSAFE_DOWNGRADE:
        return "unsafe downgrades are not supported"
    return "it would lose metadata that the lower level does not know"
