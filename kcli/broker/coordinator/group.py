"""Group: what the coordinator asks of a group, whichever protocol its members speak (Kafka class `Group`).

ClientInfo: who sent a request, as groups remember and show it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.broker.coordinator.effects import CoordinatorRecord
    from kcli.protocol.error_codes import ErrorCode
    from kcli.protocol.internal.coordinator_records import OffsetCommitValue
    from kcli.protocol.messages.list_groups import ListedGroup
    from kcli.protocol.messages.offset_commit import OffsetCommitRequest
    from kcli.protocol.messages.offset_fetch import OffsetFetchRequestGroup


class Group(Protocol):
    """Checks answer ErrorCode.NONE, or why not."""

    @property
    def group_id(self) -> str: ...

    @property
    def may_go(self) -> bool:
        """True if nothing but offsets keeps the group: when the last is gone the group goes too."""
        ...

    def check_commit(self, request: OffsetCommitRequest, version: int) -> ErrorCode:
        """Say whether these offsets may be committed by the one who asks."""
        ...

    def check_fetch(self, request: OffsetFetchRequestGroup) -> ErrorCode:
        """Say whether the one who asks may see the group's offsets."""
        ...

    def check_delete(self) -> ErrorCode:
        """Say whether the group may be deleted."""
        ...

    def check_offset_delete(self) -> ErrorCode:
        """Say whether any offsets may be deleted."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """True if a member reads the topic, or may: then its offsets stay."""
        ...

    def retention_start(self) -> Callable[[OffsetCommitValue], int] | None:
        """Return since when (time of day) an offset is not needed; None: none expires now (KIP-211)."""
        ...

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return what deletes the group's own records."""
        ...

    def listed(self) -> ListedGroup:
        """Return the group's line in ListGroups."""
        ...


class ClientInfo(NamedTuple):
    """`client_id` is that of the request's header; `host` is written as Kafka does: `/127.0.0.1`."""

    client_id: str
    host: str


def committed_at(offset: OffsetCommitValue) -> int:
    """Return the commit time, a start of retention for `Group.retention_start`."""
    return offset.commit_timestamp
