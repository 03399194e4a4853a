"""Fetch (key 1): read record batches of partitions, for consumers and for followers.

Version 3 adds a limit for the whole response (KIP-74), 4 transactional isolation (KIP-98), 5 the log start
offset (KIP-107), 7 incremental sessions (KIP-227), 9 leader epochs (KIP-320), 10 zstd (KIP-110), 11 fetching
from the closest replica (KIP-392), 12 diverging epochs (KIP-595). From 13 topics have ids instead of names
(KIP-516). 15 moves the replica into a tag (KIP-903), 16 adds the new leader (KIP-951), 17 the follower's
directory (KIP-853), 18 its high watermark (KIP-1166).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import (
    fresh,
    i8,
    i16,
    i32,
    i64,
    ignorable,
    message,
    records_,
    string,
    struct,
    tag,
    uuid,
    v,
)
from kcli.protocol.uuids import ZERO_UUID


@struct
class ReplicaState:
    replica_id: i32 = -1
    replica_epoch: i64 = -1


@struct
class FetchPartition:
    partition: i32
    current_leader_epoch: Annotated[i32, v("9+"), ignorable] = -1
    fetch_offset: i64
    last_fetched_epoch: Annotated[i32, v("12+")] = -1
    log_start_offset: Annotated[i64, v("5+"), ignorable] = -1
    partition_max_bytes: i32
    replica_directory_id: Annotated[uuid, v("17+"), tag(0), ignorable] = ZERO_UUID
    high_watermark: Annotated[i64, v("18+"), tag(1), ignorable] = 2**63 - 1


@struct
class FetchTopic:
    topic: Annotated[string, v("0-12"), ignorable] = ""
    topic_id: Annotated[uuid, v("13+"), ignorable] = ZERO_UUID
    partitions: list[FetchPartition]


@struct
class ForgottenTopic:
    topic: Annotated[string, v("7-12"), ignorable] = ""
    topic_id: Annotated[uuid, v("13+"), ignorable] = ZERO_UUID
    partitions: list[i32]


@message(key=1, versions="0-18", flexible="12+")
class FetchRequest:
    cluster_id: Annotated[string | None, v("12+"), tag(0), ignorable] = None
    replica_id: Annotated[i32, v("0-14")] = -1
    replica_state: Annotated[ReplicaState, v("15+"), tag(1)] = fresh(ReplicaState)
    max_wait_ms: i32
    min_bytes: i32
    max_bytes: Annotated[i32, v("3+"), ignorable] = 2**31 - 1
    isolation_level: Annotated[i8, v("4+"), ignorable] = 0
    session_id: Annotated[i32, v("7+"), ignorable] = 0
    session_epoch: Annotated[i32, v("7+"), ignorable] = -1
    topics: list[FetchTopic]
    forgotten_topics_data: Annotated[list[ForgottenTopic], v("7+")] = fresh(list)
    rack_id: Annotated[string, v("11+"), ignorable] = ""


@struct
class EpochEndOffset:
    epoch: i32 = -1
    end_offset: i64 = -1


@struct
class LeaderIdAndEpoch:
    leader_id: i32 = -1
    leader_epoch: i32 = -1


@struct
class SnapshotId:
    end_offset: i64 = -1
    epoch: i32 = -1


@struct
class AbortedTransaction:
    producer_id: i64
    first_offset: i64


@struct
class PartitionData:
    partition_index: i32
    error_code: i16 = 0
    high_watermark: i64
    last_stable_offset: Annotated[i64, v("4+"), ignorable] = -1
    log_start_offset: Annotated[i64, v("5+"), ignorable] = -1
    diverging_epoch: Annotated[EpochEndOffset, v("12+"), tag(0)] = fresh(EpochEndOffset)
    current_leader: Annotated[LeaderIdAndEpoch, v("12+"), tag(1)] = fresh(LeaderIdAndEpoch)
    snapshot_id: Annotated[SnapshotId, v("12+"), tag(2)] = fresh(SnapshotId)
    aborted_transactions: Annotated[list[AbortedTransaction] | None, v("4+"), ignorable] = fresh(list)
    preferred_read_replica: Annotated[i32, v("11+")] = -1
    records: records_ | None


@struct
class FetchableTopicResponse:
    topic: Annotated[string, v("0-12"), ignorable] = ""
    topic_id: Annotated[uuid, v("13+"), ignorable] = ZERO_UUID
    partitions: list[PartitionData]


@struct
class NodeEndpoint:
    node_id: i32
    host: string
    port: i32
    rack: string | None = None


@message(key=1, versions="0-18", flexible="12+")
class FetchResponse:
    throttle_time_ms: Annotated[i32, v("1+"), ignorable] = 0
    error_code: Annotated[i16, v("7+"), ignorable] = 0
    session_id: Annotated[i32, v("7+")] = 0
    responses: list[FetchableTopicResponse]
    node_endpoints: Annotated[list[NodeEndpoint], v("16+"), tag(0)] = fresh(list)
