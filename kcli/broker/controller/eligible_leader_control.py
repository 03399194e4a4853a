"""Eligible leader replicas and `min.insync.replicas`: what keeps the one true to the other (KIP-966).

Eligible leaders are safe to elect only as long as `min.insync.replicas` means the same to everyone and stays
what it was. So while the feature is on, single brokers have no value of their own, the cluster always has
one, and a new value, of the cluster or of a topic, clears the eligible leaders that were recorded under the
old one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.configs import ConfigResourceType
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.metadata_records import ClearElrRecord, ConfigRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.broker.metadata_image import MetadataImage
    from kcli.protocol.internal.metadata_records import MetadataRecord

MIN_ISR = "min.insync.replicas"


def check_min_isr(records: Sequence[MetadataRecord]) -> None:
    """Raise `KafkaError` INVALID_CONFIG for a change that the feature forbids while it is on."""
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


def forgetting(records: Sequence[MetadataRecord]) -> list[MetadataRecord]:
    """Return the records that clear the eligible leaders recorded under values that these records change."""
    forgotten: list[MetadataRecord] = []
    for record in _changes(records):
        if record.resource_type == ConfigResourceType.TOPIC:
            forgotten.append(ClearElrRecord(topic_name=record.resource_name))
        elif not record.resource_name:
            forgotten.append(ClearElrRecord(topic_name=""))
    return forgotten


def switching_on(image: MetadataImage, min_isr: int) -> list[MetadataRecord]:
    """Return what makes the configuration fit for the feature; `min_isr` is what nodes start with."""
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
