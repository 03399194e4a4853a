"""OffsetFetch (key 9): return the committed offsets of groups, -1 for partitions without one.

From version 2 null asks for all topics, and an error of the group has its own field. 5 adds leader epochs
(KIP-320), 7 requests for stable offsets only (KIP-447), 8 several groups (KIP-709). From 9 members of the
consumer protocol may use it; from 10 topics have ids instead of names (KIP-848). Apache Kafka 4.0 dropped
version 0.
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import (
    boolean,
    fresh,
    i16,
    i32,
    i64,
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
class OffsetFetchRequestTopic:
    name: Annotated[string, v("0-7")]
    partition_indexes: Annotated[list[i32], v("0-7")]


@struct
class OffsetFetchRequestTopics:
    name: Annotated[string, v("8-9"), ignorable] = ""
    topic_id: Annotated[uuid, v("10+"), ignorable] = ZERO_UUID
    partition_indexes: Annotated[list[i32], v("8+")]


@struct
class OffsetFetchRequestGroup:
    group_id: Annotated[string, v("8+")]
    member_id: Annotated[string | None, v("9+"), ignorable] = None
    member_epoch: Annotated[i32, v("9+"), ignorable] = -1
    topics: Annotated[list[OffsetFetchRequestTopics] | None, v("8+")]


@message(key=9, versions="0-10", flexible="6+")
class OffsetFetchRequest:
    group_id: Annotated[string, v("0-7")] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, v("0-7"), nullable("2-7")] = fresh(list)
    groups: Annotated[list[OffsetFetchRequestGroup], v("8+")] = fresh(list)
    require_stable: Annotated[boolean, v("7+")] = False


@struct
class OffsetFetchResponsePartition:
    partition_index: Annotated[i32, v("0-7")]
    committed_offset: Annotated[i64, v("0-7")]
    committed_leader_epoch: Annotated[i32, v("5-7"), ignorable] = -1
    metadata: Annotated[string | None, v("0-7")]
    error_code: Annotated[i16, v("0-7")] = 0


@struct
class OffsetFetchResponseTopic:
    name: Annotated[string, v("0-7")]
    partitions: Annotated[list[OffsetFetchResponsePartition], v("0-7")]


@struct
class OffsetFetchResponsePartitions:
    partition_index: Annotated[i32, v("8+")]
    committed_offset: Annotated[i64, v("8+")]
    committed_leader_epoch: Annotated[i32, v("8+"), ignorable] = -1
    metadata: Annotated[string | None, v("8+")]
    error_code: Annotated[i16, v("8+")] = 0


@struct
class OffsetFetchResponseTopics:
    name: Annotated[string, v("8-9"), ignorable] = ""
    topic_id: Annotated[uuid, v("10+"), ignorable] = ZERO_UUID
    partitions: Annotated[list[OffsetFetchResponsePartitions], v("8+")]


@struct
class OffsetFetchResponseGroup:
    group_id: Annotated[string, v("8+")]
    topics: Annotated[list[OffsetFetchResponseTopics], v("8+")]
    error_code: Annotated[i16, v("8+")] = 0


@message(key=9, versions="0-10", flexible="6+")
class OffsetFetchResponse:
    throttle_time_ms: Annotated[i32, v("3+"), ignorable] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], v("0-7")] = fresh(list)
    error_code: Annotated[i16, v("2-7"), ignorable] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], v("8+")] = fresh(list)
