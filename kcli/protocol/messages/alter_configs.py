"""AlterConfigs (key 33): replace the whole configuration of resources (KIP-133).

IncrementalAlterConfigs changes single configurations instead.
"""

from __future__ import annotations

from kcli.protocol.schema.declaration import boolean, i8, i16, i32, message, string, struct


@struct
class AlterableConfig:
    name: string
    value: string | None


@struct
class AlterConfigsResource:
    resource_type: i8
    resource_name: string
    configs: list[AlterableConfig]


@message(key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest:
    resources: list[AlterConfigsResource]
    validate_only: boolean


@struct
class AlterConfigsResourceResponse:
    error_code: i16 = 0
    error_message: string | None
    resource_type: i8
    resource_name: string


@message(key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse:
    throttle_time_ms: i32 = 0
    responses: list[AlterConfigsResourceResponse]
