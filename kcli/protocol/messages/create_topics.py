"""CreateTopics (key 19): create topics, or only check that they could be created.

Version 1 adds validation without creation and error messages; from 4 the broker chooses partition count and
replication factor for -1 (KIP-464); 5 returns the configuration (KIP-525), 7 the topic id (KIP-516).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import (
    boolean,
    fresh,
    i8,
    i16,
    i32,
    ignorable,
    message,
    string,
    struct,
    tag,
    uuid,
    v,
)
from kcli.protocol.uuids import ZERO_UUID


@struct
class CreatableReplicaAssignment:
    partition_index: i32
    broker_ids: list[i32]


@struct
class CreatableTopicConfig:
    name: string
    value: string | None


@struct
class CreatableTopic:
    name: string
    num_partitions: i32
    replication_factor: i16
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]


@message(key=19, versions="0-7", flexible="5+")
class CreateTopicsRequest:
    topics: list[CreatableTopic]
    timeout_ms: i32 = 60000
    validate_only: Annotated[boolean, v("1+")] = False


@struct
class CreatableTopicConfigs:
    name: string
    value: string | None
    read_only: boolean
    config_source: i8 = -1
    is_sensitive: boolean


@struct
class CreatableTopicResult:
    name: string
    topic_id: Annotated[uuid, v("7+"), ignorable] = ZERO_UUID
    error_code: i16 = 0
    error_message: Annotated[string | None, v("1+"), ignorable] = None
    topic_config_error_code: Annotated[i16, v("5+"), tag(0), ignorable] = 0
    num_partitions: Annotated[i32, v("5+"), ignorable] = -1
    replication_factor: Annotated[i16, v("5+"), ignorable] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, v("5+"), ignorable] = fresh(list)


@message(key=19, versions="0-7", flexible="5+")
class CreateTopicsResponse:
    throttle_time_ms: Annotated[i32, v("2+"), ignorable] = 0
    topics: list[CreatableTopicResult]
