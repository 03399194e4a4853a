"""AlterClientQuotas (key 49): set and remove quotas of users, clients and addresses (KIP-546)."""

from __future__ import annotations

from kcli.protocol.schema.declaration import boolean, f64, i16, i32, message, string, struct


@struct
class EntityData:
    entity_type: string
    entity_name: string | None


@struct
class OpData:
    key: string
    value: f64
    remove: boolean


@struct
class EntryData:
    entity: list[EntityData]
    ops: list[OpData]


@message(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    entries: list[EntryData]
    validate_only: boolean


@struct
class AlteredEntryData:
    error_code: i16 = 0
    error_message: string | None
    entity: list[EntityData]


@message(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    throttle_time_ms: i32 = 0
    entries: list[AlteredEntryData]
