"""Records of `__share_group_state`: how far share groups came (KIP-932); to be read, never written here.

One class per published schema, as in `coordinator_records`.
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema import i8, i16, i32, i64, record, string, struct, tag, uuid


@struct
class StateBatch:
    """Records in the same state."""

    first_offset: i64
    last_offset: i64
    delivery_state: i8
    delivery_count: i16


@record(type=0, versions="0")
class ShareSnapshotKey:
    """All that a group knows of a partition."""

    group_id: string
    topic_id: uuid
    partition: i32


@record(type=0, versions="0", flexible="0+")
class ShareSnapshotValue:
    """The state, whole."""

    snapshot_epoch: i32
    state_epoch: i32
    leader_epoch: i32
    start_offset: i64
    delivery_complete_count: Annotated[i32, tag(0)] = -1
    create_timestamp: i64
    write_timestamp: i64
    state_batches: list[StateBatch]


@record(type=1, versions="0")
class ShareUpdateKey:
    """What changed since the snapshot."""

    group_id: string
    topic_id: uuid
    partition: i32


@record(type=1, versions="0", flexible="0+")
class ShareUpdateValue:
    """The state, as far as it changed."""

    snapshot_epoch: i32
    leader_epoch: i32
    start_offset: i64
    delivery_complete_count: Annotated[i32, tag(0)] = -1
    state_batches: list[StateBatch]


SHARE_STATE_RECORDS: dict[int, tuple[type, type]] = {
    0: (ShareSnapshotKey, ShareSnapshotValue),
    1: (ShareUpdateKey, ShareUpdateValue),
}
"""Key and value classes by type."""
