"""DeleteTopics (key 20): delete topics by name, or from version 6 by id (KIP-516).

Version 5 adds error messages; from then on the controller mutation quota can refuse the request (KIP-599).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import (
    fresh,
    i16,
    i32,
    ignorable,
    message,
    nullable,
    string,
    struct,
    uuid,
    v,
)
from kcli.protocol.uuids import ZERO_UUID


@struct
class DeleteTopicState:
    name: string | None = None
    topic_id: uuid


@message(key=20, versions="0-6", flexible="4+")
class DeleteTopicsRequest:
    topics: Annotated[list[DeleteTopicState], v("6+")] = fresh(list)
    topic_names: Annotated[list[string], v("0-5"), ignorable] = fresh(list)
    timeout_ms: i32


@struct
class DeletableTopicResult:
    name: Annotated[string | None, nullable("6+")]
    topic_id: Annotated[uuid, v("6+"), ignorable] = ZERO_UUID
    error_code: i16 = 0
    error_message: Annotated[string | None, v("5+"), ignorable] = None


@message(key=20, versions="0-6", flexible="4+")
class DeleteTopicsResponse:
    throttle_time_ms: Annotated[i32, v("1+"), ignorable] = 0
    responses: list[DeletableTopicResult]
