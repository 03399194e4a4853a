"""Group: what the coordinator needs of a group of either protocol (Kafka class `Group`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from kcli.broker.coordinator.effects import CoordinatorRecord
    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.protocol.error_codes import ErrorCode
    from kcli.protocol.internal.coordinator_records import OffsetCommitValue
    from kcli.protocol.messages.list_groups import ListedGroup
    from kcli.protocol.messages.offset_commit import OffsetCommitRequest
    from kcli.protocol.messages.offset_fetch import OffsetFetchRequestGroup
    from kcli.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest


class Group(Protocol):
    """A group of either protocol; checks return ErrorCode.NONE or the error."""

    @property
    def group_id(self) -> str: ...

    @property
    def holds_offsets_only(self) -> bool:
        """True if only offsets keep the group: it is deleted with the last offset."""

    def check_commit(self, request: OffsetCommitRequest, version: int) -> ErrorCode:
        """Check whether the client may commit these offsets."""

    def check_txn_commit(self, request: TxnOffsetCommitRequest, image: MetadataImage) -> ErrorCode:
        """Check whether the producer of a transaction may commit these offsets."""

    def check_fetch(self, request: OffsetFetchRequestGroup) -> ErrorCode:
        """Check whether the client may read the group's offsets."""

    def check_delete(self) -> ErrorCode:
        """Check whether the group may be deleted."""

    def check_offset_delete(self) -> ErrorCode:
        """Check whether any offsets may be deleted."""

    def is_subscribed_to(self, topic: str) -> bool:
        """True if a member reads the topic, or may read it: then its offsets stay."""

    def retention_start(self) -> Callable[[OffsetCommitValue], int] | None:
        """Return since when (time of day) an offset is not needed; None: none expires now (KIP-211)."""

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the records that delete the group's own records."""

    def listed(self) -> ListedGroup:
        """Return the group's line in ListGroups."""


class ClientInfo(NamedTuple):
    """The client of a request: `client_id` from its header, `host` in Kafka's form, `/127.0.0.1`.

    `hidden` returns those of some topics that it may not see; None if it may see all.
    """

    client_id: str
    host: str
    hidden: Callable[[Iterable[str]], Collection[str]] | None = None


def committed_at(offset: OffsetCommitValue) -> int:
    """Return the commit time, a start of retention for `Group.retention_start`."""
    return offset.commit_timestamp
