"""ListOffsets (key 2): find offsets by timestamp.

Version 0 returns a list of segment base offsets instead of one offset (KIP-79). Version 2 adds isolation
(KIP-98), 4 leader epochs (KIP-320), 10 a time limit for tiered look-ups (KIP-1075). Special timestamps: from
7 -3, the latest record (KIP-734); from 8 -4, the earliest local offset (KIP-405); from 9 -5, the end of
tiered data (KIP-1005); from 11 -6, the earliest offset not tiered yet (KIP-1023).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import fresh, i8, i16, i32, i64, ignorable, message, string, struct, v

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
"""The special timestamps."""

FIRST_VERSIONS = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The first version that knows a special timestamp."""


@struct
class ListOffsetsPartition:
    partition_index: i32
    current_leader_epoch: Annotated[i32, v("4+"), ignorable] = -1
    timestamp: i64
    max_num_offsets: Annotated[i32, v("0")] = 1


@struct
class ListOffsetsTopic:
    name: string
    partitions: list[ListOffsetsPartition]


@message(key=2, versions="0-11", flexible="6+")
class ListOffsetsRequest:
    replica_id: i32
    isolation_level: Annotated[i8, v("2+")] = 0
    topics: list[ListOffsetsTopic]
    timeout_ms: Annotated[i32, v("10+"), ignorable] = 0


@struct
class ListOffsetsPartitionResponse:
    partition_index: i32
    error_code: i16 = 0
    old_style_offsets: Annotated[list[i64], v("0")] = fresh(list)
    timestamp: Annotated[i64, v("1+")] = -1
    offset: Annotated[i64, v("1+")] = -1
    leader_epoch: Annotated[i32, v("4+")] = -1


@struct
class ListOffsetsTopicResponse:
    name: string
    partitions: list[ListOffsetsPartitionResponse]


@message(key=2, versions="0-11", flexible="6+")
class ListOffsetsResponse:
    throttle_time_ms: Annotated[i32, v("2+"), ignorable] = 0
    topics: list[ListOffsetsTopicResponse]
