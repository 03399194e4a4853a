"""DescribeClientQuotas (key 48): describe the quotas of users, clients and addresses (KIP-546)."""

from __future__ import annotations

from enum import IntEnum

from kcli.protocol.schema.declaration import boolean, f64, i8, i16, i32, message, string, struct


@struct
class ComponentData:
    entity_type: string
    match_type: i8
    match: string | None


@message(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    components: list[ComponentData]
    strict: boolean


@struct
class EntityData:
    entity_type: string
    entity_name: string | None


@struct
class ValueData:
    key: string
    value: f64


@struct
class EntryData:
    entity: list[EntityData]
    values: list[ValueData]


@message(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: string | None = None
    entries: list[EntryData] | None


class QuotaMatch(IntEnum):
    """What a filter matches in one part of an entity: a name, the default, or any name and the default."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2
