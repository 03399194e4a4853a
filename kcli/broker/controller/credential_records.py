"""Which records and images hold credentials: then nobody but its owner may read the metadata log.

Credentials are those of SCRAM, and configurations of type password, which Kafka's log has as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.config.broker_definitions import find_broker_config
from kcli.protocol.configs import ConfigResourceType
from kcli.protocol.internal.metadata_records import ConfigRecord
from kcli.protocol.internal.security_records import UserScramCredentialRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.protocol.internal.metadata_records import MetadataRecord
    from kcli.protocol.internal.security_records import SecurityRecord


def hold_credentials(records: Iterable[MetadataRecord | SecurityRecord]) -> bool:
    """Return whether a record has a credential."""
    return any(
        _is_secret(record)
        if isinstance(record, ConfigRecord)
        else isinstance(record, UserScramCredentialRecord)
        for record in records
    )


def image_holds_credentials(image: MetadataImage) -> bool:
    """Return whether the records of an image would."""
    if hold_credentials(image.security.values()):
        return True
    return any(
        _is_password(name)
        for (kind, _resource), values in image.configs.items()
        if kind == ConfigResourceType.BROKER
        for name in values
    )


def _is_secret(record: ConfigRecord) -> bool:
    if record.resource_type != ConfigResourceType.BROKER or record.value is None:
        return False
    return _is_password(record.name)


def _is_password(name: str) -> bool:
    row = find_broker_config(name)
    return row is not None and row.is_sensitive
