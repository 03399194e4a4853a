"""OffsetDelete (key 47): delete committed offsets of a group (KIP-496)."""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import i16, i32, ignorable, message, string, struct


@struct
class OffsetDeleteRequestPartition:
    partition_index: i32


@struct
class OffsetDeleteRequestTopic:
    name: string
    partitions: list[OffsetDeleteRequestPartition]


@message(key=47, versions="0")
class OffsetDeleteRequest:
    group_id: string
    topics: list[OffsetDeleteRequestTopic]


@struct
class OffsetDeleteResponsePartition:
    partition_index: i32
    error_code: i16 = 0


@struct
class OffsetDeleteResponseTopic:
    name: string
    partitions: list[OffsetDeleteResponsePartition]


@message(key=47, versions="0")
class OffsetDeleteResponse:
    error_code: i16 = 0
    throttle_time_ms: Annotated[i32, ignorable] = 0
    topics: list[OffsetDeleteResponseTopic]
