"""ListConfigResources (key 74): list the resources that have configuration.

Version 0 lists client metrics resources only (KIP-714), version 1 any type (KIP-1142).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import fresh, i8, i16, i32, ignorable, message, string, struct, v


@message(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    resource_types: Annotated[list[i8], v("1+")] = fresh(list)


@struct
class ConfigResource:
    resource_name: string
    resource_type: Annotated[i8, v("1+"), ignorable] = 16


@message(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    config_resources: list[ConfigResource]
