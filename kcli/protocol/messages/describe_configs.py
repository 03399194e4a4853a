"""DescribeConfigs (key 32): describe the configuration of topics, brokers and other resources (KIP-133).

Version 0 only says whether a value is the default; version 1 adds the source and synonyms (KIP-226), 3 types
and documentation (KIP-569).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import (
    boolean,
    fresh,
    i8,
    i16,
    i32,
    ignorable,
    message,
    string,
    struct,
    v,
)


@struct
class DescribeConfigsResource:
    resource_type: i8
    resource_name: string
    configuration_keys: list[string] | None


@message(key=32, versions="0-4", flexible="4+")
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource]
    include_synonyms: Annotated[boolean, v("1+")] = False
    include_documentation: Annotated[boolean, v("3+")] = False


@struct
class DescribeConfigsSynonym:
    name: string
    value: string | None
    source: i8


@struct
class DescribeConfigsResourceResult:
    name: string
    value: string | None
    read_only: boolean
    is_default: Annotated[boolean, v("0")] = False
    config_source: Annotated[i8, v("1+"), ignorable] = -1
    is_sensitive: boolean
    synonyms: Annotated[list[DescribeConfigsSynonym], v("1+"), ignorable] = fresh(list)
    config_type: Annotated[i8, v("3+"), ignorable] = 0
    documentation: Annotated[string | None, v("3+"), ignorable] = None


@struct
class DescribeConfigsResult:
    error_code: i16 = 0
    error_message: string | None
    resource_type: i8
    resource_name: string
    configs: list[DescribeConfigsResourceResult]


@message(key=32, versions="0-4", flexible="4+")
class DescribeConfigsResponse:
    throttle_time_ms: i32 = 0
    results: list[DescribeConfigsResult]
