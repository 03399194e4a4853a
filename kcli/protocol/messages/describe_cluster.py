"""DescribeCluster (key 60): describe cluster id, controller and brokers (KIP-700).

Version 1 can ask for brokers or controllers (KIP-919), 2 can include fenced brokers (KIP-1073).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import boolean, i8, i16, i32, message, string, struct, v


@message(key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest:
    include_cluster_authorized_operations: boolean
    endpoint_type: Annotated[i8, v("1+")] = 1
    include_fenced_brokers: Annotated[boolean, v("2+")] = False


@struct
class DescribeClusterBroker:
    broker_id: i32
    host: string
    port: i32
    rack: string | None = None
    is_fenced: Annotated[boolean, v("2+")] = False


@message(key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: string | None = None
    endpoint_type: Annotated[i8, v("1+")] = 1
    cluster_id: string
    controller_id: i32 = -1
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: i32 = -2147483648
