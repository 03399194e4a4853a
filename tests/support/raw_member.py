"""RawMember: a member of a classic group over a raw connection, one request at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.heartbeat import HeartbeatRequest
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.waiting import first

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.raw_client import RawClient

NOT_YET = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
"""What a broker that starts may say."""


class RawMember:
    """A member that is alone in its group."""

    def __init__(
        self,
        client: RawClient,
        group_id: str,
        *,
        metadata: bytes = b"metadata",
        session_timeout_ms: int = 30_000,
    ) -> None:
        self.client = client
        self.group_id = group_id
        self.member_id = ""
        self.generation_id = -1
        self._metadata = metadata
        self._session_timeout_ms = session_timeout_ms

    def find_coordinator(self) -> Any:
        """Ask until there is a coordinator."""
        return self._ask(FindCoordinatorRequest(key=self.group_id), 2)

    def _ask(self, request: Any, version: int) -> Any:
        """Ask until there is an answer."""
        return first(
            lambda: self.client.ask(request, version),
            lambda response: response.error_code not in NOT_YET,
            "there is a coordinator",
        )

    def join(self, assignment: bytes = b"") -> None:
        """Join and sync."""
        self.find_coordinator()
        joined = self._ask(
            JoinGroupRequest(
                group_id=self.group_id,
                session_timeout_ms=self._session_timeout_ms,
                rebalance_timeout_ms=self._session_timeout_ms,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=self._metadata)],
            ),
            3,
        )
        assert joined.error_code == 0, joined
        self.member_id, self.generation_id = joined.member_id, joined.generation_id
        synced = self.client.ask(
            SyncGroupRequest(
                group_id=self.group_id,
                generation_id=self.generation_id,
                member_id=self.member_id,
                assignments=[SyncGroupRequestAssignment(member_id=self.member_id, assignment=assignment)],
            ),
            2,
        )
        assert (synced.error_code, synced.assignment) == (0, assignment)

    def heartbeat(self) -> int:
        """Send a heartbeat; return the error."""
        request = HeartbeatRequest(
            group_id=self.group_id, generation_id=self.generation_id, member_id=self.member_id
        )
        error: int = self.client.ask(request, 2).error_code
        return error

    def commit(self, topic: str, offsets: Mapping[int, int], metadata: str = "") -> dict[int, int]:
        """Commit offsets; return the error of each partition."""
        rows = [
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=metadata
            )
            for index, offset in offsets.items()
        ]
        response = self.client.ask(
            OffsetCommitRequest(
                group_id=self.group_id,
                generation_id_or_member_epoch=self.generation_id,
                member_id=self.member_id,
                topics=[OffsetCommitRequestTopic(name=topic, partitions=rows)],
            ),
            6,
        )
        return {row.partition_index: row.error_code for each in response.topics for row in each.partitions}

    def committed(self, topic: str, partitions: int) -> list[int]:
        """Return the committed offset of each partition, once the coordinator has read its log."""
        wanted = OffsetFetchRequestTopics(name=topic, partition_indexes=list(range(partitions)))
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=self.group_id, topics=[wanted])]
        )
        group = first(
            lambda: self.client.ask(request, 8).groups[0],
            lambda group: group.error_code not in NOT_YET,
            "the coordinator is ready",
        )
        assert group.error_code == 0, group
        return [row.committed_offset for each in group.topics for row in each.partitions]
