"""FindCoordinator (key 10): find the broker that coordinates a group, a transaction or a share group.

Version 1 adds transactions and error messages (KIP-98), 4 several keys per request (KIP-699), 5 the error
TRANSACTION_ABORTABLE (KIP-890), 6 share groups (KIP-932).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import fresh, i8, i16, i32, ignorable, message, string, struct, v


@message(key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    key: Annotated[string, v("0-3")] = ""
    key_type: Annotated[i8, v("1+")] = 0
    coordinator_keys: Annotated[list[string], v("4+")] = fresh(list)


@struct
class Coordinator:
    key: string
    node_id: i32
    host: string
    port: i32
    error_code: i16 = 0
    error_message: string | None


@message(key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    throttle_time_ms: Annotated[i32, v("1+"), ignorable] = 0
    error_code: Annotated[i16, v("0-3")] = 0
    error_message: Annotated[string | None, v("1-3"), ignorable] = None
    node_id: Annotated[i32, v("0-3")] = 0
    host: Annotated[string, v("0-3")] = ""
    port: Annotated[i32, v("0-3")] = 0
    coordinators: Annotated[list[Coordinator], v("4+")] = fresh(list)
