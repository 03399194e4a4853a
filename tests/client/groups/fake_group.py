"""FakeGroup: the coordinator of one classic group, without timers.

It answers for `FakeBrokers`. A join waits until every known member has joined, a sync until the leader has
sent the assignment. `expire` simulates a session timeout; `offsets` are the committed offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from kcli.protocol.messages.heartbeat import HeartbeatResponse
from kcli.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kcli.protocol.messages.leave_group import LeaveGroupResponse, MemberResponse
from kcli.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kcli.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from tests.client.fake_brokers import FakeBrokers

APIS = ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch")


class FakeGroup:
    """The one group of some fake brokers; each of them coordinates it."""

    def __init__(self, brokers: FakeBrokers) -> None:
        self.generation = 0
        self.members: dict[str, Any] = {}
        self.joined: set[str] = set()
        self.is_preparing = False
        self.assignments: dict[str, bytes] | None = None
        self.offsets: dict[tuple[str, int], int] = {}
        self.leader = ""
        self.skips_assignment = False
        self.pending: set[str] = set()
        self._numbers = 0
        self._changed = trio.Event()
        for api in APIS:
            setattr(brokers, f"_{api}Request", getattr(self, f"_{api}"))

    def rebalance(self) -> None:
        """Make every member join again."""
        self.is_preparing = True
        self.joined.clear()
        self._tell()

    def expire(self, member_id: str) -> None:
        """Drop a member."""
        del self.members[member_id]
        self.joined.discard(member_id)
        self.is_preparing = True
        self._complete()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def _complete(self) -> None:
        """Begin a generation if all members have joined."""
        if self.is_preparing and self.members and set(self.members) <= self.joined:
            self.is_preparing = False
            self.joined.clear()
            self.generation += 1
            self.assignments = None
            if self.leader not in self.members:
                self.leader = next(iter(self.members))
        self._tell()

    async def _JoinGroup(self, node_id: int, request: Any, version: int) -> JoinGroupResponse:
        member_id = request.member_id
        if not member_id and request.group_instance_id is not None:
            member_id = self._replaced(request.group_instance_id)
        if not member_id:
            return _join_refused(79, self._new_id())
        if member_id not in self.members and member_id not in self.pending:
            return _join_refused(25, "")
        self.pending.discard(member_id)
        self.members[member_id] = request
        self.is_preparing = True
        self.joined.add(member_id)
        generation = self.generation
        self._complete()
        while self.generation == generation:
            await self._changed.wait()
        protocols = [{entry.name for entry in each.protocols} for each in self.members.values()]
        chosen = next(e.name for e in request.protocols if all(e.name in names for names in protocols))
        is_leader = member_id == self.leader
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=chosen,
            leader=self.leader,
            skip_assignment=is_leader and self.skips_assignment,
            member_id=member_id,
            members=[
                JoinGroupResponseMember(
                    member_id=each,
                    group_instance_id=joined.group_instance_id,
                    metadata=next(e.metadata for e in joined.protocols if e.name == chosen),
                )
                for each, joined in self.members.items()
                if is_leader
            ],
        )

    def _new_id(self) -> str:
        self._numbers += 1
        self.pending.add(f"member-{self._numbers}")
        return f"member-{self._numbers}"

    def _replaced(self, instance_id: str) -> str:
        """Give a returning static member another id, in the place of its old one."""
        for member_id, joined in list(self.members.items()):
            if joined.group_instance_id == instance_id:
                del self.members[member_id]
        return self._new_id()

    async def _SyncGroup(self, node_id: int, request: Any, version: int) -> SyncGroupResponse:
        code = self._judge(request.member_id, request.generation_id)
        if code:
            return SyncGroupResponse(error_code=code, assignment=b"")
        if request.member_id == self.leader:
            self.assignments = {entry.member_id: entry.assignment for entry in request.assignments}
            self._tell()
        while self.assignments is None and not self.is_preparing:
            await self._changed.wait()
        if self.assignments is None or self.is_preparing:
            return SyncGroupResponse(error_code=27, assignment=b"")
        return SyncGroupResponse(assignment=self.assignments.get(request.member_id, b""))

    def _judge(self, member_id: str, generation: int) -> int:
        if member_id not in self.members:
            return 25
        if generation != self.generation:
            return 22
        return 27 if self.is_preparing else 0

    def _Heartbeat(self, node_id: int, request: Any, version: int) -> HeartbeatResponse:
        return HeartbeatResponse(error_code=self._judge(request.member_id, request.generation_id))

    def _LeaveGroup(self, node_id: int, request: Any, version: int) -> LeaveGroupResponse:
        left = []
        for member in request.members:
            known = member.member_id in self.members
            if known:
                self.expire(member.member_id)
            elif member.member_id in self.pending:
                self.pending.discard(member.member_id)
                known = True
            left.append(
                MemberResponse(
                    member_id=member.member_id, group_instance_id=None, error_code=0 if known else 25
                )
            )
        return LeaveGroupResponse(members=left)

    def _OffsetCommit(self, node_id: int, request: Any, version: int) -> OffsetCommitResponse:
        code = 0
        if request.member_id or self.members:
            code = self._judge(request.member_id, request.generation_id_or_member_epoch)
        if code == 27:
            code = 0  # members commit what they give up
        if not code:
            for topic in request.topics:
                for row in topic.partitions:
                    self.offsets[topic.name, row.partition_index] = row.committed_offset
        return commit_answer(request, code)

    def _OffsetFetch(self, node_id: int, request: Any, version: int) -> OffsetFetchResponse:
        return OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(
                    group_id=group.group_id,
                    topics=[
                        OffsetFetchResponseTopics(
                            name=topic.name,
                            partitions=[
                                OffsetFetchResponsePartitions(
                                    partition_index=index,
                                    committed_offset=self.offsets.get((topic.name, index), -1),
                                    metadata="",
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in group.topics
                    ],
                )
                for group in request.groups
            ]
        )


def _join_refused(code: int, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, protocol_name=None, leader="", member_id=member_id, members=[])


def commit_answer(request: Any, code: int) -> OffsetCommitResponse:
    """Return a response with the same code for every partition."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=row.partition_index, error_code=code)
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
