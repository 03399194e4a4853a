"""ConsumerGroupDescribe (key 69): describe groups of the consumer protocol and their members (KIP-848).

Version 1 says which protocol a member speaks: the classic (0) or the consumer protocol (1) (KIP-1099).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import (
    boolean,
    i8,
    i16,
    i32,
    ignorable,
    message,
    string,
    struct,
    uuid,
    v,
)


@message(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest:
    group_ids: list[string]
    include_authorized_operations: boolean = False


@struct
class TopicPartitions:
    topic_id: uuid
    topic_name: string
    partitions: list[i32]


@struct
class Assignment:
    topic_partitions: list[TopicPartitions]


@struct
class Member:
    member_id: string
    instance_id: string | None = None
    rack_id: string | None = None
    member_epoch: i32
    client_id: string
    client_host: string
    subscribed_topic_names: list[string]
    subscribed_topic_regex: string | None = None
    assignment: Assignment
    target_assignment: Assignment
    member_type: Annotated[i8, v("1+"), ignorable] = -1


@struct
class DescribedGroup:
    error_code: i16 = 0
    error_message: string | None = None
    group_id: string
    group_state: string
    group_epoch: i32
    assignment_epoch: i32
    assignor_name: string
    members: list[Member]
    authorized_operations: i32 = -2147483648


@message(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse:
    throttle_time_ms: i32 = 0
    groups: list[DescribedGroup]
