"""Client quotas: validation, and the records that set them (class `ClientQuotaControlManager`).

All quotas of an entity change together or not at all. Quotas that Kafka knows and this broker does not
enforce are refused: of request time, of metadata changes, of new connections.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.broker.controller.result import ControllerResult, check_batch_size
from kcli.broker.metadata.metadata_image import BYTE_RATES, CLIENT_ID, IP, NOTHING, USER, quota_entity
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.metadata_records import ClientQuotaRecord, EntityData

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.protocol.internal.metadata_records import MetadataRecord

NOT_ENFORCED = ("request_percentage", "controller_mutation_rate")
"""Quotas of users and clients that Kafka knows and this broker does not enforce."""
NOT_ENFORCED_BY_ADDRESS = ("connection_creation_rate",)

_LARGEST = 2.0**63
"""The double of the largest 64-bit number."""
_FRACTION = 1e-6


@dataclass(frozen=True, slots=True)
class QuotaAlteration:
    """A change to one entity, given by (type, name) pairs, and its quotas by key. None removes a quota."""

    entity: Sequence[tuple[str, str | None]]
    operations: Sequence[tuple[str, float | None]]


def alter_client_quotas(
    image: MetadataImage, alterations: Sequence[QuotaAlteration]
) -> ControllerResult[list[KafkaError | None]]:
    """Set and remove quotas; the response has an error or None for each alteration, in order.

    If a request names an entity twice, neither change is applied. Kafka applies the first and returns an
    error.
    """
    entities = [tuple(sorted(each.entity, key=lambda part: (part[0], part[1] or ""))) for each in alterations]
    counts = Counter(entities)
    records: list[MetadataRecord] = []
    outcomes: list[KafkaError | None] = []
    for alteration, entity in zip(alterations, entities, strict=True):
        try:
            if counts[entity] > 1:
                raise _invalid("an entity is named twice")
            own = _alter(image, alteration)
        except KafkaError as error:
            outcomes.append(error.detached())
            continue
        records.extend(own)
        outcomes.append(None)
    check_batch_size(len(records))
    return ControllerResult(tuple(records), outcomes)


def _alter(image: MetadataImage, alteration: QuotaAlteration) -> list[MetadataRecord]:
    _check_entity(alteration.entity)
    current = image.client_quotas.get(quota_entity(dict(alteration.entity)), NOTHING)
    keys = [key for key, _ in alteration.operations]
    if len(set(keys)) != len(keys):
        raise _invalid("a quota is named twice")
    records: list[MetadataRecord] = []
    for key, value in alteration.operations:
        if value is not None:
            _check_value(key, value, is_address=alteration.entity[0][0] == IP)
        if current.get(key) != value:
            # Each record gets an entity of its own, because records can be changed.
            parts = [EntityData(entity_type=type, entity_name=name) for type, name in alteration.entity]
            records.append(ClientQuotaRecord(entity=parts, key=key, value=value or 0.0, remove=value is None))
    return records


def _check_entity(entity: Sequence[tuple[str, str | None]]) -> None:
    types = [type for type, _ in entity]
    if not types:
        raise _invalid("a quota is for a user, a client or an address")
    for type, name in entity:
        if type not in (USER, CLIENT_ID, IP):
            raise _invalid(f"there are no quotas for entities of type `{type}`")
        if types.count(type) > 1:
            raise _invalid(f"an entity has two parts of type `{type}`")
        if name == "":
            raise _invalid(f"the name of a `{type}` is empty")
    if IP in types and len(types) > 1:
        raise _invalid("the quota of an address cannot be for a user or a client, too")
    if types == [IP] and entity[0][1] is not None and not _is_address(entity[0][1]):
        raise _invalid(f"not an IP address: {entity[0][1]}")


def _is_address(text: str) -> bool:
    # Imported on first use: quotas of addresses are rare.
    from ipaddress import ip_address

    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _check_value(key: str, value: float, *, is_address: bool) -> None:
    known = NOT_ENFORCED_BY_ADDRESS if is_address else (*BYTE_RATES, *NOT_ENFORCED)
    if key not in known:
        raise _invalid(f"there is no quota `{key}` of {'addresses' if is_address else 'users and clients'}")
    if key not in BYTE_RATES:
        raise _invalid(f"`{key}` is not enforced by this broker, so it cannot be set")
    if not value > 0:
        raise _invalid(f"`{key}` must be greater than 0")
    if value > _LARGEST:
        raise _invalid(f"`{key}` is too large for a number of 64 bits")
    if value % 1.0 > _FRACTION:
        raise _invalid(f"`{key}` must be a whole number")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
