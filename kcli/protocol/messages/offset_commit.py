"""OffsetCommit (key 8): commit offsets of a group.

Version 1 adds the member and its generation, 2 to 4 a retention time, 6 leader epochs (KIP-320), 7 static
members (KIP-345). From 9 members of the consumer protocol may use it, with their epoch as the generation;
from 10 topics have ids instead of names (KIP-848). Apache Kafka 4.0 dropped versions 0 and 1.
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import i16, i32, i64, ignorable, message, string, struct, uuid, v
from kcli.protocol.uuids import ZERO_UUID


@struct
class OffsetCommitRequestPartition:
    partition_index: i32
    committed_offset: i64
    committed_leader_epoch: Annotated[i32, v("6+"), ignorable] = -1
    commit_timestamp: Annotated[i64, v("1")] = -1
    committed_metadata: string | None


@struct
class OffsetCommitRequestTopic:
    name: Annotated[string, v("0-9"), ignorable] = ""
    topic_id: Annotated[uuid, v("10+"), ignorable] = ZERO_UUID
    partitions: list[OffsetCommitRequestPartition]


@message(key=8, versions="0-10", flexible="8+")
class OffsetCommitRequest:
    group_id: string
    generation_id_or_member_epoch: Annotated[i32, v("1+"), ignorable] = -1
    member_id: Annotated[string, v("1+"), ignorable] = ""
    group_instance_id: Annotated[string | None, v("7+")] = None
    retention_time_ms: Annotated[i64, v("2-4"), ignorable] = -1
    topics: list[OffsetCommitRequestTopic]


@struct
class OffsetCommitResponsePartition:
    partition_index: i32
    error_code: i16 = 0


@struct
class OffsetCommitResponseTopic:
    name: Annotated[string, v("0-9"), ignorable] = ""
    topic_id: Annotated[uuid, v("10+"), ignorable] = ZERO_UUID
    partitions: list[OffsetCommitResponsePartition]


@message(key=8, versions="0-10", flexible="8+")
class OffsetCommitResponse:
    throttle_time_ms: Annotated[i32, v("3+"), ignorable] = 0
    topics: list[OffsetCommitResponseTopic]
