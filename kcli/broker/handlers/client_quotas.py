"""DescribeClientQuotas, AlterClientQuotas: the quotas of users and clients (KIP-546).

* A filter has at most one component of each type: an exact name, the default, or any. Entities may have other
  types besides those of the filter, unless it is strict; a filter without components finds all entities.
* An unknown entity type is UNSUPPORTED_VERSION in a filter and INVALID_REQUEST in an alteration.
* Quotas of Kafka that this broker does not enforce are refused; `client_quota_control` lists them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.controller.client_quota_control import QuotaAlteration
from kcli.broker.metadata.metadata_image import CLIENT_ID, IP, USER
from kcli.broker.network.authorization import authorize_cluster
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.alter_client_quotas import AlterClientQuotasResponse, AlteredEntryData
from kcli.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    QuotaMatch,
    ValueData,
)
from kcli.security.acl import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.broker.network.request_context import RequestContext
    from kcli.protocol.messages import alter_client_quotas as altering
    from kcli.protocol.messages import describe_client_quotas as describing

_TYPES = (USER, CLIENT_ID, IP)
_ANY = object()


def describe_client_quotas(
    request: describing.DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse:
    """Return the entities that a filter finds, and their quotas."""
    authorize_cluster(context, Operation.DESCRIBE_CONFIGS)
    wanted = _checked_filter(request.components)
    return DescribeClientQuotasResponse(
        entries=[
            EntryData(
                entity=[EntityData(entity_type=type, entity_name=name) for type, name in entity],
                values=[ValueData(key=key, value=value) for key, value in values.items()],
            )
            for entity, values in context.node.image.client_quotas.items()
            if _is_found(dict(entity), wanted, is_strict=request.strict)
        ]
    )


def failed_describe_client_quotas(
    request: describing.DescribeClientQuotasRequest, error: KafkaError
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)


def alter_client_quotas(
    request: altering.AlterClientQuotasRequest, context: RequestContext
) -> AlterClientQuotasResponse:
    """Set and remove quotas; the changes of one entity are applied together or not at all."""
    authorize_cluster(context, Operation.ALTER_CONFIGS)
    outcomes = context.node.controller.alter_client_quotas(
        [
            QuotaAlteration(
                [(part.entity_type, part.entity_name) for part in entry.entity],
                [(each.key, None if each.remove else each.value) for each in entry.ops],
            )
            for entry in request.entries
        ],
        validate_only=request.validate_only,
    )
    return AlterClientQuotasResponse(
        entries=[
            AlteredEntryData(
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
                entity=entry.entity,
            )
            for entry, error in zip(request.entries, outcomes, strict=True)
        ]
    )


def _checked_filter(components: Sequence[describing.ComponentData]) -> dict[str, object]:
    """Return the name, None or `_ANY` to look for, by type."""
    wanted: dict[str, object] = {}
    for each in components:
        type = each.entity_type
        if not type:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the type of an entity is empty")
        if type in wanted:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"a filter has two parts of type `{type}`")
        if type not in _TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"there are no entities of type `{type}`")
        if each.match_type == QuotaMatch.EXACT and each.match is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"an exact match of a `{type}` has no name")
        if each.match_type != QuotaMatch.EXACT and each.match is not None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"only an exact match of a `{type}` has a name")
        match each.match_type:
            case QuotaMatch.EXACT | QuotaMatch.DEFAULT:
                wanted[type] = each.match
            case QuotaMatch.ANY:
                wanted[type] = _ANY
            case _:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown type of match: {each.match_type}")
    if IP in wanted and len(wanted) > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "an address is not sought with a user or a client")
    return wanted


def _is_found(entity: dict[str, str | None], wanted: dict[str, object], *, is_strict: bool) -> bool:
    if is_strict and len(entity) != len(wanted):
        return False
    return all(type in entity and (match is _ANY or entity[type] == match) for type, match in wanted.items())
