"""ListGroups (key 16): list the groups that a broker coordinates.

Version 4 adds states and a filter by state (KIP-518), 5 the same for types (KIP-848).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import fresh, i16, i32, ignorable, message, string, struct, v


@message(key=16, versions="0-5", flexible="3+")
class ListGroupsRequest:
    states_filter: Annotated[list[string], v("4+")] = fresh(list)
    types_filter: Annotated[list[string], v("5+")] = fresh(list)


@struct
class ListedGroup:
    group_id: string
    protocol_type: string
    group_state: Annotated[string, v("4+"), ignorable] = ""
    group_type: Annotated[string, v("5+"), ignorable] = ""


@message(key=16, versions="0-5", flexible="3+")
class ListGroupsResponse:
    throttle_time_ms: Annotated[i32, v("1+"), ignorable] = 0
    error_code: i16 = 0
    groups: list[ListedGroup]
