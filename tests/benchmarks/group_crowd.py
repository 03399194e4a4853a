"""A crowd of group members over raw frames: they join once, then send heartbeats as evenly as they can.

Every member has a connection of its own. One loop sends each heartbeat when it is due and times its answer.
"""

from __future__ import annotations

import select
import time
from struct import Struct
from typing import TYPE_CHECKING, Any

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.frames import decode_response
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.heartbeat import HeartbeatRequest
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kcli.protocol.schema.declaration import message_info
from tests.benchmarks.wire import BenchmarkFailed
from tests.support.raw_client import RawClient, request_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.benchmarks.peers import Peer

JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION = 3, 2, 3
"""The last ones without compact sizes; a member may join without an id up to 3."""
SESSION_MS = 600_000
"""Long, so that the groups of a peer last while another one is measured."""
SUBSCRIPTION_BYTES = 100
ASSIGNMENT_BYTES = 60
READY_TIMEOUT_SECONDS = 60.0
NOT_YET = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)

_ERROR = Struct(">h")
_ANSWER_BYTES = 4 + 4 + 4 + 2
"""Of a heartbeat: size, correlation id, throttle time, error."""


class CrowdMember:
    """One member on its own connection."""

    def __init__(self, client: RawClient, group_id: str) -> None:
        self.client = client
        self.group_id = group_id
        self.joined: Any = None
        self.sent = 0.0
        self.heartbeat = b""

    def request(self, request: object, version: int) -> None:
        """Send a request; `answer` returns its response."""
        self._asked = (message_info(type(request)).key, version)
        self.client.send(request_frame(request, version))

    def answer(self) -> Any:
        """Wait for the response; anything but success is a failure."""
        frame = self.client.receive_frame()
        if frame is None:
            raise BenchmarkFailed(f"{self.group_id}: the connection is closed")
        _, response = decode_response(*self._asked, frame)
        if response.error_code:
            raise BenchmarkFailed(f"{self.group_id}: error {response.error_code} to {self._asked}")
        return response

    def join(self) -> None:
        """Send JoinGroup."""
        self.request(
            JoinGroupRequest(
                group_id=self.group_id,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=SESSION_MS,
                member_id="",
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(SUBSCRIPTION_BYTES))],
            ),
            JOIN_VERSION,
        )

    def sync(self) -> None:
        """Send SyncGroup, with everybody's assignment if this is the leader."""
        self.request(
            SyncGroupRequest(
                group_id=self.group_id,
                generation_id=self.joined.generation_id,
                member_id=self.joined.member_id,
                assignments=[
                    SyncGroupRequestAssignment(member_id=each.member_id, assignment=bytes(ASSIGNMENT_BYTES))
                    for each in self.joined.members
                ],
            ),
            SYNC_VERSION,
        )
        self.heartbeat = request_frame(
            HeartbeatRequest(
                group_id=self.group_id,
                generation_id=self.joined.generation_id,
                member_id=self.joined.member_id,
            ),
            HEARTBEAT_VERSION,
        )


class Crowd:
    """So many groups with so many members each, joined."""

    def __init__(self, peer: Peer, groups: int, members: int) -> None:
        names = [f"crowd-{number}" for number in range(groups)]
        with peer.connect() as client:
            for name in names:
                wait_for_coordinator(client, name)
        self.members = [CrowdMember(peer.connect(), name) for name in names for _ in range(members)]
        for member in self.members:
            member.join()
        for member in self.members:
            member.joined = member.answer()
        self._check(groups, members)
        for member in self.members:
            member.sync()
        for member in self.members:
            member.answer()

    def _check(self, groups: int, members: int) -> None:
        leaders = [member for member in self.members if member.joined.members]
        sizes = {len(member.joined.members) for member in leaders}
        if len(leaders) != groups or sizes != {members}:
            raise BenchmarkFailed(f"{len(leaders)} leaders of {sizes} members, not {groups} of {members}")

    def beat(self, interval_seconds: float, seconds: float) -> list[float]:
        """Let every member send a heartbeat each interval, one after another; how long each answer took."""
        poll = select.epoll()
        by_descriptor = {member.client.socket.fileno(): member for member in self.members}
        for descriptor in by_descriptor:
            poll.register(descriptor, select.EPOLLIN)
        times: list[float] = []
        pause = interval_seconds / len(self.members)
        waiting, number = 0, 0
        started = due = time.perf_counter()
        while waiting or due < started + seconds:
            now = time.perf_counter()
            if due < started + seconds and now >= due:
                member = self.members[number % len(self.members)]
                member.sent = time.perf_counter()
                member.client.send(member.heartbeat)
                waiting, number, due = waiting + 1, number + 1, due + pause
                continue
            for descriptor, _ in poll.poll(max(0.0, due - now) if due < started + seconds else 1.0):
                member = by_descriptor[descriptor]
                answer = member.client.socket.recv(_ANSWER_BYTES)
                times.append(time.perf_counter() - member.sent)
                waiting -= 1
                check_heartbeat(answer)
        poll.close()
        return times

    def close(self) -> None:
        """Close the connections."""
        for member in self.members:
            member.client.close()


def check_heartbeat(answer: bytes) -> None:
    """Raise BenchmarkFailed unless it says that all is well."""
    if len(answer) != _ANSWER_BYTES:
        raise BenchmarkFailed(f"a heartbeat was answered with {len(answer)} bytes")
    (error,) = _ERROR.unpack_from(answer, _ANSWER_BYTES - _ERROR.size)
    if error:
        raise BenchmarkFailed(f"a heartbeat was answered with error {error}")


def wait_for_coordinator(client: RawClient, group_id: str) -> None:
    """Return when the coordinator of a group has read its log; it then does not know this member."""
    deadline = time.monotonic() + READY_TIMEOUT_SECONDS
    stranger = HeartbeatRequest(group_id=group_id, generation_id=0, member_id="nobody")
    error: int = ErrorCode.COORDINATOR_NOT_AVAILABLE
    while time.monotonic() < deadline:
        client.ask(FindCoordinatorRequest(key=group_id), 0)
        error = client.ask(stranger, HEARTBEAT_VERSION).error_code
        if error not in NOT_YET:
            return
        time.sleep(0.02)
    raise BenchmarkFailed(f"{group_id} has no coordinator: error {error}")


def milliseconds(times: Sequence[float]) -> list[float]:
    """Seconds in milliseconds."""
    return [each * 1000 for each in times]
