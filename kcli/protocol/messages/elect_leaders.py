"""ElectLeaders (key 43): elect leaders of partitions (KIP-183).

Version 1 adds unclean elections and an error for the whole request (KIP-460).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import i8, i16, i32, message, string, struct, v


@struct
class TopicPartitions:
    topic: string
    partitions: list[i32]


@message(key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest:
    election_type: Annotated[i8, v("1+")] = 0
    topic_partitions: list[TopicPartitions] | None
    timeout_ms: i32 = 60000


@struct
class PartitionResult:
    partition_id: i32
    error_code: i16 = 0
    error_message: string | None = None


@struct
class ReplicaElectionResult:
    topic: string
    partition_result: list[PartitionResult]


@message(key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse:
    throttle_time_ms: i32 = 0
    error_code: Annotated[i16, v("1+")] = 0
    replica_election_results: list[ReplicaElectionResult]
