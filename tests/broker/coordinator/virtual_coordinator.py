"""A test runtime for a shard: its log, timers and clock are lists and numbers, so that nothing waits.

Records are encoded into the log, so that a restart reads what a file would hold.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable
from typing import Any

from kcli.broker.config.group_definitions import GroupConfig
from kcli.broker.coordinator.effects import Append, Cancel, Effect, Marker, Now, Reply, Schedule, Token
from kcli.broker.coordinator.group import ClientInfo
from kcli.broker.coordinator.group_coordinator import GroupCoordinator
from kcli.broker.metadata.metadata_image import EMPTY_IMAGE
from kcli.protocol.consumer_protocol import Subscription, encode_subscription
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.coordinator_records import decode_record, encode_key, encode_value
from kcli.protocol.messages.heartbeat import HeartbeatRequest
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kcli.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kcli.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kcli.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kcli.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kcli.protocol.records.control_records import TransactionMarker

START_WALL_MS = 1_700_000_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000

Then = Callable[[Now, KafkaError | None], list[Effect]]


def subscription(*topics: str) -> bytes:
    return encode_subscription(Subscription(topics), version=1)


class Call(Token):
    """One request, and its response."""

    __slots__ = ("name", "responses")

    def __init__(self, name: str) -> None:
        self.name = name
        self.responses: list[Any] = []

    @property
    def is_parked(self) -> bool:
        return not self.responses

    @property
    def response(self) -> Any:
        assert len(self.responses) == 1, f"{self.name} has {len(self.responses)} answers"
        return self.responses[0]

    @property
    def error(self) -> ErrorCode:
        return ErrorCode(self.response.error_code)


class VirtualCoordinator:
    """`append_error` makes appends fail, `holds_commits` delays commits until `commit_held` or
    `fail_held`.
    """

    def __init__(self, **config: Any) -> None:
        self.config = GroupConfig(**config)
        self.image = EMPTY_IMAGE
        self.now_ms = 1_000_000
        self.log: list[tuple[bytes, bytes | None]] = []
        self.producers: dict[int, int] = {}
        """The producer id of each record of a transaction, by its offset, the place in `log`."""
        self.markers: dict[int, TransactionMarker] = {}
        """The markers by their offsets, where `log` has an empty record."""
        self.calls: list[Call] = []
        self.timers: dict[Hashable, int] = {}
        self.append_error: ErrorCode | None = None
        self.holds_commits = False
        self.held: list[Then] = []
        self._ids = itertools.count(1)
        self.shard = self._start()

    def _start(self) -> GroupCoordinator:
        self.shard = GroupCoordinator(
            self.config, image=lambda: self.image, new_id=lambda: f"id{next(self._ids)}"
        )
        for offset, (key, value) in enumerate(self.log):
            if (marker := self.markers.get(offset)) is not None:
                self.shard.replay_end(marker.producer_id, marker.is_commit)
                continue
            record = decode_record(key, value)
            self.shard.replay(record.key, record.value, offset, self.producers.get(offset, -1))
        self.perform(self.shard.loaded(self.now))
        return self.shard

    @property
    def now(self) -> Now:
        return Now(self.now_ms, START_WALL_MS + self.now_ms)

    # --- effects -----------------------------------------------------------------------------------

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Reply(token, response):
                    assert isinstance(token, Call)
                    token.responses.append(response)
                    assert len(token.responses) == 1, f"{token.name} is answered again"
                case Append():
                    self._append(effect)
                case Marker():
                    self._append_marker(effect)
                case Schedule(key, delay_ms):
                    assert delay_ms >= 0
                    self.timers[key] = self.now_ms + delay_ms
                case Cancel(key):
                    self.timers.pop(key, None)

    def _append(self, append: Append) -> None:
        assert append.records, "an empty append"
        if self.append_error is not None:
            if append.then is not None:
                self.perform(append.then(self.now, KafkaError(self.append_error)))
            return
        for record in append.records:
            value = None if record.value is None else encode_value(record.value)
            offset = len(self.log)
            self.log.append((encode_key(record.key), value))
            if append.producer is not None:
                self.producers[offset] = append.producer.producer_id
            self.shard.replay(record.key, record.value, offset, self.producers.get(offset, -1))
        if append.then is not None:
            self._written(append.then)

    def _append_marker(self, effect: Marker) -> None:
        if self.append_error is not None:
            self.perform(effect.then(self.now, KafkaError(self.append_error)))
            return
        self.markers[len(self.log)] = effect.marker
        self.log.append((b"", None))
        self.shard.replay_end(effect.marker.producer_id, effect.marker.is_commit)
        self._written(effect.then)

    def _written(self, then: Then) -> None:
        if self.holds_commits:
            self.held.append(then)
        else:
            self.perform(then(self.now, None))

    def commit_held(self) -> None:
        self._settle(None)

    def fail_held(self, error: ErrorCode = ErrorCode.REQUEST_TIMED_OUT) -> None:
        self._settle(KafkaError(error))

    def _settle(self, error: KafkaError | None) -> None:
        held, self.held = self.held, []
        for then in held:
            self.perform(then(self.now, error))

    def advance(self, ms: int) -> None:
        """Advance the time; timers fire in order, each at its time."""
        until_ms = self.now_ms + ms
        while self.timers:
            due_ms, _, key = min(
                (due_ms, index, key) for index, (key, due_ms) in enumerate(self.timers.items())
            )
            if due_ms > until_ms:
                break
            del self.timers[key]
            self.now_ms = max(self.now_ms, due_ms)
            self.perform(self.shard.expire(self.now, key))
        self.now_ms = until_ms

    def restart(self) -> None:
        """Keep only the log; answer all waiting requests."""
        self.unload()
        self.append_error = None
        self._start()

    def unload(self) -> None:
        self.append_error = ErrorCode.NOT_COORDINATOR
        self.fail_held(ErrorCode.NOT_COORDINATOR)
        self.perform(self.shard.unloaded(self.now))
        self.timers.clear()

    # --- requests ----------------------------------------------------------------------------------

    def call(self, name: str, event: Callable[[Now, Call], list[Effect]]) -> Call:
        call = Call(name)
        self.calls.append(call)
        self.perform(event(self.now, call))
        return call

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        protocols: dict[str, bytes] | None = None,
        protocol_type: str = "consumer",
        version: int = 9,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        client: str = "c",
    ) -> Call:
        offered = {"range": subscription("t")} if protocols is None else protocols
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in offered.items()],
        )
        host = ClientInfo(client, "/127.0.0.1")
        return self.call(
            f"join {member_id}", lambda now, call: self.shard.join_group(now, call, request, version, host)
        )

    def sync(
        self,
        member_id: str,
        generation: int,
        *,
        group: str = "g",
        assignments: dict[str, bytes] | None = None,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
        version: int = 4,
    ) -> Call:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=data)
                for each, data in (assignments or {}).items()
            ],
        )
        return self.call(
            f"sync {member_id}", lambda now, call: self.shard.sync_group(now, call, request, version)
        )

    def heartbeat(
        self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None
    ) -> Call:
        request = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        return self.call(f"heartbeat {member_id}", lambda now, call: self.shard.heartbeat(now, call, request))

    def leave(self, *members: str | tuple[str, str | None], group: str = "g", version: int = 5) -> Call:
        identities = [
            MemberIdentity(member_id=member)
            if isinstance(member, str)
            else MemberIdentity(member_id=member[0], group_instance_id=member[1])
            for member in members
        ]
        old_id = identities[0].member_id if version < 3 else ""
        request = LeaveGroupRequest(
            group_id=group, member_id=old_id, members=[] if version < 3 else identities
        )
        return self.call("leave", lambda now, call: self.shard.leave_group(now, call, request, version))

    def commit(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        group: str = "g",
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        version: int = 9,
        metadata: str | None = "",
        **fields: Any,
    ) -> Call:
        partition_fields = {
            name: fields.pop(name)
            for name in ("committed_leader_epoch", "commit_timestamp")
            if name in fields
        }
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            topics.setdefault(topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset,
                    committed_metadata=metadata,
                    **partition_fields,
                )
            )
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=[OffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()],
            **fields,
        )
        return self.call("commit", lambda now, call: self.shard.offset_commit(now, call, request, version))

    def txn_commit(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        group: str = "g",
        producer_id: int = 7,
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        metadata: str | None = "",
        leader_epoch: int = -1,
    ) -> Call:
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            topics.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset,
                    committed_leader_epoch=leader_epoch,
                    committed_metadata=metadata,
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id="tid",
            group_id=group,
            producer_id=producer_id,
            producer_epoch=3,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()],
        )
        return self.call(
            "txn commit", lambda now, call: self.shard.txn_offset_commit(now, call, request, None)
        )

    def end_txn(self, producer_id: int = 7, *, commit: bool = True) -> Call:
        marker = TransactionMarker(producer_id, 3, 0, is_commit=commit)
        return self.call("end", lambda now, call: self.shard.end_transaction(now, call, marker))

    def delete(self, *groups: str) -> Call:
        return self.call("delete", lambda now, call: self.shard.delete_groups(now, call, groups))

    def delete_offsets(self, *partitions: tuple[str, int], group: str = "g") -> Call:
        topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=index))
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[OffsetDeleteRequestTopic(name=name, partitions=each) for name, each in topics.items()],
        )
        return self.call("delete offsets", lambda now, call: self.shard.offset_delete(now, call, request))

    # --- what is there -----------------------------------------------------------------------------

    def offsets(self, group: str = "g") -> dict[tuple[str, int], int]:
        """Return all offsets of a group, as OffsetFetch shows them."""
        asked = OffsetFetchRequestGroup(group_id=group, topics=None)
        found = self.shard.offset_fetch(asked)
        return {
            (topic.name, each.partition_index): each.committed_offset
            for topic in found.topics
            for each in topic.partitions
        }

    def unstable(self, *partitions: tuple[str, int], group: str = "g") -> list[bool]:
        """Return of which partitions a reader of stable offsets gets no offset."""
        topics = [
            OffsetFetchRequestTopics(name=topic, partition_indexes=[index]) for topic, index in partitions
        ]
        asked = OffsetFetchRequestGroup(group_id=group, topics=topics)
        found = self.shard.offset_fetch(asked, require_stable=True)
        rows = [topic.partitions[0] for topic in found.topics]
        for row in rows:
            if row.error_code:
                assert (row.error_code, row.committed_offset) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        return [bool(row.error_code) for row in rows]

    def fetch(self, group: str, topic: str, *partitions: int) -> dict[int, int]:
        topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=list(partitions))]
        asked = OffsetFetchRequestGroup(group_id=group, topics=topics)
        found = self.shard.offset_fetch(asked)
        return {each.partition_index: each.committed_offset for each in found.topics[0].partitions}

    def group(self, name: str = "g") -> Any:
        return self.shard.groups[name]

    def state(self, name: str = "g") -> str:
        """Return a group's state, as DescribeGroups shows it."""
        (described,) = self.shard.describe_groups(self.now, [name], 5)
        return described.group_state

    # --- the usual ways ----------------------------------------------------------------------------

    def stable(self, count: int = 1, *, group: str = "g", **join: Any) -> tuple[int, list[str]]:
        """Bring a new group of old clients (version 3) to Stable.

        Returns the generation and the members, the leader first.
        """
        members: list[str] = []
        joins = [self.join(group=group, version=3, **join)]
        members.append(joins[0].response.member_id)
        for _ in range(count - 1):
            joins = [self.join(group=group, version=3, **join)]
            joins += [self.join(member, group=group, version=3, **join) for member in members]
            members.append(joins[0].response.member_id)
        generation = joins[0].response.generation_id
        leader = joins[0].response.leader
        members.sort(key=lambda member: member != leader)
        assignments = {member: f"for {member}".encode() for member in members}
        for member in members:
            given = assignments if member == leader else None
            assert self.sync(member, generation, group=group, assignments=given).error == ErrorCode.NONE
        return generation, members
