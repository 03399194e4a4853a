"""ConsumerGroupHeartbeat (key 68): join, stay in or leave a group of the consumer protocol (KIP-848).

The member epoch is 0 to join, -1 to leave, and -2 if a static member leaves and will return. A null field, or
a rebalance timeout of -1, has not changed since the last heartbeat. Version 1 adds the subscription by
regular expression and lets members make their own ids (KIP-1082).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import i16, i32, message, string, struct, uuid, v


@struct
class TopicPartitions:
    topic_id: uuid
    partitions: list[i32]


@message(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest:
    group_id: string
    member_id: string
    member_epoch: i32
    instance_id: string | None = None
    rack_id: string | None = None
    rebalance_timeout_ms: i32 = -1
    subscribed_topic_names: list[string] | None = None
    subscribed_topic_regex: Annotated[string | None, v("1+")] = None
    server_assignor: string | None = None
    topic_partitions: list[TopicPartitions] | None = None


@struct
class Assignment:
    topic_partitions: list[TopicPartitions]


@message(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: string | None = None
    member_id: string | None = None
    member_epoch: i32 = 0
    heartbeat_interval_ms: i32 = 0
    assignment: Assignment | None = None
