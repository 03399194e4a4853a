"""Admin calls about quotas of users and clients (KIP-546)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.client.admin.driver import check, error_of, retry_items
from kcli.client.network.metadata import ANY, CONTROLLER
from kcli.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from kcli.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kcli.client.client import Client
    from kcli.protocol.error_codes import KafkaError
    from kcli.protocol.messages.describe_client_quotas import QuotaMatch

QuotaParts = tuple[tuple[str, str | None], ...]
"""The entity of a quota: types, `user` or `client-id`, and names; None is the default of a type."""


class QuotaFilter(NamedTuple):
    """One part of a filter; the name is None unless the match is EXACT."""

    type: str
    match: QuotaMatch
    name: str | None = None


class EntityQuotas(NamedTuple):
    """An entity and its quotas by name."""

    parts: QuotaParts
    quotas: Mapping[str, float]


async def describe_client_quotas(
    client: Client, wanted: Sequence[QuotaFilter], *, strict: bool = True, timeout_ms: int | None = None
) -> list[EntityQuotas]:
    """Return the entities that have all of these parts, and with `strict` no others."""
    request = DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=each.type, match_type=each.match, match=each.name) for each in wanted
        ],
        strict=strict,
    )
    response: DescribeClientQuotasResponse = await client.request(ANY, request, timeout_ms=timeout_ms)
    check(response.error_code, response.error_message)
    return [
        EntityQuotas(
            tuple((part.entity_type, part.entity_name) for part in entry.entity),
            {each.key: each.value for each in entry.values},
        )
        for entry in response.entries or ()
    ]


async def alter_client_quotas(
    client: Client,
    parts: QuotaParts,
    quotas: Mapping[str, float | None],
    *,
    validate_only: bool = False,
    timeout_ms: int | None = None,
) -> KafkaError | None:
    """Set quotas of an entity, remove those with value None, all or none; or only check the request."""
    request = AlterClientQuotasRequest(
        entries=[
            EntryData(
                entity=[EntityData(entity_type=type, entity_name=name) for type, name in parts],
                ops=[
                    OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()
                ],
            )
        ],
        validate_only=validate_only,
    )

    async def attempt(pending: list[QuotaParts], left_ms: int) -> dict[QuotaParts, KafkaError | None]:
        response: AlterClientQuotasResponse = await client.request(CONTROLLER, request, timeout_ms=left_ms)
        (entry,) = response.entries
        return {parts: error_of(entry.error_code, entry.error_message)}

    return (await retry_items(client, [parts], timeout_ms=timeout_ms, attempt=attempt))[parts]
