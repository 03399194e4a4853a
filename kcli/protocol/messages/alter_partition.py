"""AlterPartition (key 56): a leader asks the controller to change the in-sync replicas (KIP-497).

Version 3 adds the broker epochs of the members, so that the controller notices a restarted one (KIP-903).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import fresh, i8, i16, i32, i64, ignorable, message, struct, uuid, v


@struct
class BrokerState:
    """A member of the ISR. A broker epoch of -1 is not checked."""

    broker_id: i32
    broker_epoch: i64 = -1


@struct
class PartitionData:
    partition_index: i32
    leader_epoch: i32
    new_isr: Annotated[list[i32], v("0-2")] = fresh(list)
    new_isr_with_epochs: Annotated[list[BrokerState], v("3+")] = fresh(list)
    leader_recovery_state: i8 = 0
    partition_epoch: i32


@struct
class TopicData:
    topic_id: uuid
    partitions: list[PartitionData]


@message(key=56, versions="2-3", flexible="0+")
class AlterPartitionRequest:
    broker_id: i32
    broker_epoch: i64 = -1
    topics: list[TopicData]


@struct
class AlteredPartition:
    partition_index: i32
    error_code: i16 = 0
    leader_id: i32 = 0
    leader_epoch: i32 = 0
    isr: list[i32] = fresh(list)
    leader_recovery_state: Annotated[i8, ignorable] = 0
    partition_epoch: i32 = 0


@struct
class AlteredTopic:
    topic_id: uuid
    partitions: list[AlteredPartition]


@message(key=56, versions="2-3", flexible="0+")
class AlterPartitionResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    topics: list[AlteredTopic] = fresh(list)
