"""DescribeLogDirs (key 35): describe the log directories of a broker and the replicas in them (KIP-113).

Version 3 adds an error for the whole response, 4 the size of the volumes (KIP-827), 5 whether a directory is
cordoned (KIP-1066).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import boolean, i16, i32, i64, ignorable, message, string, struct, v


@struct
class DescribableLogDirTopic:
    topic: string
    partitions: list[i32]


@message(key=35, versions="0-5", flexible="2+")
class DescribeLogDirsRequest:
    topics: list[DescribableLogDirTopic] | None


@struct
class DescribeLogDirsPartition:
    partition_index: i32
    partition_size: i64
    offset_lag: i64
    is_future_key: boolean


@struct
class DescribeLogDirsTopic:
    name: string
    partitions: list[DescribeLogDirsPartition]


@struct
class DescribeLogDirsResult:
    error_code: i16 = 0
    log_dir: string
    topics: list[DescribeLogDirsTopic]
    total_bytes: Annotated[i64, v("4+"), ignorable] = -1
    usable_bytes: Annotated[i64, v("4+"), ignorable] = -1
    is_cordoned: Annotated[boolean, v("5+"), ignorable] = False


@message(key=35, versions="0-5", flexible="2+")
class DescribeLogDirsResponse:
    throttle_time_ms: i32 = 0
    error_code: Annotated[i16, v("3+"), ignorable] = 0
    results: list[DescribeLogDirsResult]
