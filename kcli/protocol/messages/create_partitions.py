"""CreatePartitions (key 37): add partitions to topics (KIP-195).

From version 3 the controller mutation quota can refuse the request (KIP-599).
"""

from __future__ import annotations

from kcli.protocol.schema.declaration import boolean, i16, i32, message, string, struct


@struct
class CreatePartitionsAssignment:
    broker_ids: list[i32]


@struct
class CreatePartitionsTopic:
    name: string
    count: i32
    assignments: list[CreatePartitionsAssignment] | None


@message(key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic]
    timeout_ms: i32
    validate_only: boolean


@struct
class CreatePartitionsTopicResult:
    name: string
    error_code: i16 = 0
    error_message: string | None = None


@message(key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    throttle_time_ms: i32 = 0
    results: list[CreatePartitionsTopicResult]
