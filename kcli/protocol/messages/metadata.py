"""Metadata (key 3): describe brokers, controller, topics and the leaders of their partitions.

Version 0 reads an empty list of topics as all topics; from version 1 null means all and empty none. Version 1
adds racks, the controller and internal topics, 2 the cluster id, 4 whether topics may be created, 5 offline
replicas (KIP-112), 7 leader epochs (KIP-320), 8 authorized operations (KIP-430), those of the cluster only up
to 10 (KIP-700), 10 topic ids (KIP-516), 12 requests by topic id, 13 an error for the whole response
(KIP-1102).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import (
    boolean,
    fresh,
    i16,
    i32,
    ignorable,
    message,
    nullable,
    string,
    struct,
    uuid,
    v,
)
from kcli.protocol.uuids import ZERO_UUID


@struct
class MetadataRequestTopic:
    topic_id: Annotated[uuid, v("10+"), ignorable] = ZERO_UUID
    name: Annotated[string | None, nullable("10+")]


@message(key=3, versions="0-13", flexible="9+")
class MetadataRequest:
    topics: Annotated[list[MetadataRequestTopic] | None, nullable("1+")]
    allow_auto_topic_creation: Annotated[boolean, v("4+")] = True
    include_cluster_authorized_operations: Annotated[boolean, v("8-10")] = False
    include_topic_authorized_operations: Annotated[boolean, v("8+")] = False


@struct
class MetadataResponseBroker:
    node_id: i32
    host: string
    port: i32
    rack: Annotated[string | None, v("1+"), ignorable] = None


@struct
class MetadataResponsePartition:
    error_code: i16 = 0
    partition_index: i32
    leader_id: i32
    leader_epoch: Annotated[i32, v("7+"), ignorable] = -1
    replica_nodes: list[i32]
    isr_nodes: list[i32]
    offline_replicas: Annotated[list[i32], v("5+"), ignorable] = fresh(list)


@struct
class MetadataResponseTopic:
    error_code: i16 = 0
    name: Annotated[string | None, nullable("12+")]
    topic_id: Annotated[uuid, v("10+"), ignorable] = ZERO_UUID
    is_internal: Annotated[boolean, v("1+"), ignorable] = False
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: Annotated[i32, v("8+")] = -2147483648


@message(key=3, versions="0-13", flexible="9+")
class MetadataResponse:
    throttle_time_ms: Annotated[i32, v("3+"), ignorable] = 0
    brokers: list[MetadataResponseBroker]
    cluster_id: Annotated[string | None, v("2+"), ignorable] = None
    controller_id: Annotated[i32, v("1+"), ignorable] = -1
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: Annotated[i32, v("8-10")] = -2147483648
    error_code: Annotated[i16, v("13+"), ignorable] = 0
