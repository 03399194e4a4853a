"""IncrementalAlterConfigs (key 44): set, delete, append to or subtract from configurations (KIP-339)."""

from __future__ import annotations

from kcli.protocol.schema.declaration import boolean, i8, i16, i32, message, string, struct


@struct
class AlterableConfig:
    name: string
    config_operation: i8
    value: string | None


@struct
class AlterConfigsResource:
    resource_type: i8
    resource_name: string
    configs: list[AlterableConfig]


@message(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    resources: list[AlterConfigsResource]
    validate_only: boolean


@struct
class AlterConfigsResourceResponse:
    error_code: i16 = 0
    error_message: string | None
    resource_type: i8
    resource_name: string


@message(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    throttle_time_ms: i32 = 0
    responses: list[AlterConfigsResourceResponse]
