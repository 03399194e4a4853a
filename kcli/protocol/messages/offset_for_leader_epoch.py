"""OffsetForLeaderEpoch (key 23): find where a leader epoch ends in a partition's log (KIP-101).

Version 1 adds the epoch that was found, 2 the caller's own epoch for fencing (KIP-320), 3 the replica id,
which tells a consumer from a follower (KIP-392).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import i16, i32, i64, ignorable, message, string, struct, v


@struct
class OffsetForLeaderPartition:
    partition: i32
    current_leader_epoch: Annotated[i32, v("2+"), ignorable] = -1
    leader_epoch: i32


@struct
class OffsetForLeaderTopic:
    topic: string
    partitions: list[OffsetForLeaderPartition]


@message(key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    replica_id: Annotated[i32, v("3+"), ignorable] = -2
    topics: list[OffsetForLeaderTopic]


@struct
class EpochEndOffset:
    error_code: i16 = 0
    partition: i32
    leader_epoch: Annotated[i32, v("1+"), ignorable] = -1
    end_offset: i64 = -1


@struct
class OffsetForLeaderTopicResult:
    topic: string
    partitions: list[EpochEndOffset]


@message(key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    throttle_time_ms: Annotated[i32, v("2+"), ignorable] = 0
    topics: list[OffsetForLeaderTopicResult]
