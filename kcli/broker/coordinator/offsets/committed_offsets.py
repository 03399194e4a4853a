"""GroupOffsets and OffsetStore: the committed offsets of a shard (Kafka class `OffsetMetadataManager`)."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from kcli.broker.coordinator.classic.group import ClassicGroup
from kcli.broker.coordinator.effects import Append, CoordinatorRecord, Effect, Reply
from kcli.broker.coordinator.offsets.pending_offsets import PendingOffsets
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.internal.coordinator_records import OffsetCommitKey, OffsetCommitValue
from kcli.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kcli.protocol.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kcli.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from kcli.broker.config.group_definitions import GroupConfig
    from kcli.broker.coordinator.effects import Now, Token
    from kcli.broker.coordinator.group import Group
    from kcli.broker.coordinator.offsets.pending_offsets import OffsetId, TopicAndIndex
    from kcli.protocol.error_codes import KafkaError
    from kcli.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition
    from kcli.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestTopic
    from kcli.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics


TopicOffsets = dict[int, "OffsetCommitValue"]
_LAST_MS = 2**63 - 1
"""The offsets of one topic by partition."""


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


class OffsetStore:
    """Committed offsets by group, topic and partition, as the values of their last records.

    An offset expires when its retention has passed since the commit, or since its group became empty
    (`Group.retention_start`, KIP-211), unless a member still reads its topic or a transaction has written
    another one. Offsets of old clients may have an expiry of their own. A group without members is deleted
    with its last offset, pending ones counted.

    The state changes only in `replay`; the other methods return the records that would change it.
    """

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, TopicOffsets]] = {}
        self.pending = PendingOffsets()

    def __iter__(self) -> Iterator[str]:
        """Yield the groups with offsets, pending ones too."""
        yield from self._groups
        if self.pending:
            yield from (group_id for group_id in self.pending.groups() if group_id not in self._groups)

    def of_group(self, group_id: str) -> Mapping[str, TopicOffsets]:
        return self._groups.get(group_id, {})

    def get(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        topics = self._groups.get(group_id)
        if topics is None or (partitions := topics.get(topic)) is None:
            return None
        return partitions.get(partition)

    def replay(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, offset: int, producer_id: int
    ) -> None:
        """Apply a record; the last one of a partition counts, one of a transaction when it is committed."""
        if value is None:
            self._delete(key)
        elif producer_id >= 0:
            self.pending.write(producer_id, key, value, offset)
        else:
            self._put(key.group, key.topic, key.partition, value)
            if self.pending:
                self.pending.stored(key, offset)

    def replay_end(self, producer_id: int, is_commit: bool) -> list[OffsetId]:
        """Apply the end of a producer's transaction; return the offsets that it has changed."""
        moved = self.pending.end(producer_id, is_commit)
        for (group_id, topic, partition), value in moved:
            self._put(group_id, topic, partition, value)
        return [changed for changed, _ in moved]

    def _put(self, group_id: str, topic: str, partition: int, value: OffsetCommitValue) -> None:
        topics = self._groups.get(group_id)
        if topics is None:
            topics = self._groups[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        partitions[partition] = value

    def _delete(self, key: OffsetCommitKey) -> None:
        if self.pending:
            self.pending.forget(key)
        if self.get(key.group, key.topic, key.partition) is not None:
            topics = self._groups[key.group]
            del topics[key.topic][key.partition]
            if not topics[key.topic]:
                del topics[key.topic]
            if not topics:
                del self._groups[key.group]

    def tombstones(self, group_id: str) -> list[CoordinatorRecord]:
        """Return the records that delete all offsets of a group, pending ones too."""
        stored = (
            (topic, partition)
            for topic, partitions in self.of_group(group_id).items()
            for partition in partitions
        )
        found = dict.fromkeys(chain(stored, self.pending.of_group(group_id)))
        return [offset_tombstone(group_id, topic, partition) for topic, partition in found]

    def tombstones_of_topic(
        self, group_id: str, name: str, topic_id: bytes, *, most: int
    ) -> list[CoordinatorRecord]:
        """Return at most `most` tombstones of a deleted topic; a new one of its name keeps its offsets."""
        ids = {ZERO_UUID, topic_id}
        stored = self.of_group(group_id).get(name, {})
        found = dict.fromkeys(partition for partition, offset in stored.items() if offset.topic_id in ids)
        for topic, partition in self.pending.of_group(group_id):
            values = self.pending.values(group_id, topic, partition) if topic == name else ()
            if any(value.topic_id in ids for value in values):
                found[partition] = None
        return [offset_tombstone(group_id, name, partition) for partition in islice(found, most)]

    def expired(self, group: Group, wall_ms: int, retention_ms: int, *, most: int) -> list[CoordinatorRecord]:
        """Return records that delete the expired offsets of a group, at most `most`."""
        start = group.retention_start()
        if start is None:
            return []
        pending = self.pending.of_group(group.group_id)
        found = (
            offset_tombstone(group.group_id, topic, partition)
            for topic, partitions in self.of_group(group.group_id).items()
            if not group.is_subscribed_to(topic)
            for partition, offset in partitions.items()
            if wall_ms
            >= (start(offset) + retention_ms if offset.expire_timestamp == -1 else offset.expire_timestamp)
            and (topic, partition) not in pending
        )
        return list(islice(found, most))


NOT_FOUND_FROM = 9


class GroupOffsets:
    """The offset requests: `groups` decides who may, `store` holds the offsets."""

    def __init__(self, groups: dict[str, Group], config: GroupConfig) -> None:
        self._groups = groups
        self._config = config
        self.store = OffsetStore()

    def replay(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, offset: int, producer_id: int
    ) -> None:
        """Apply a record; an offset of an unknown group creates a simple group."""
        if value is not None and key.group not in self._groups:
            self._groups[key.group] = ClassicGroup(key.group)
        self.store.replay(key, value, offset, producer_id)

    def replay_end(self, producer_id: int, is_commit: bool) -> None:
        """Apply the end of a producer's transaction."""
        self._create_groups(group_id for group_id, _, _ in self.store.replay_end(producer_id, is_commit))

    def create_missing_groups(self) -> None:
        """Create simple groups for offsets without a group, so that they can expire."""
        self._create_groups(self.store)

    def _create_groups(self, group_ids: Iterable[str]) -> None:
        for group_id in group_ids:
            if group_id not in self._groups:
                self._groups[group_id] = ClassicGroup(group_id)

    def commit(self, now: Now, token: Token, request: OffsetCommitRequest, version: int) -> list[Effect]:
        """Store offsets; the response waits until they are stored. A commit renews the member's session."""
        group = self._groups.get(request.group_id)
        error = _unknown_group(request, version) if group is None else group.check_commit(request, version)
        if error:
            return [Reply(token, commit_refused(request, error))]
        effects: list[Effect] = []
        if isinstance(group, ClassicGroup) and (member := group.members.get(request.member_id)) is not None:
            effects += group.renew_session(now, member)
        response, records = self._commit_records(now, request)
        if not records:
            return [*effects, Reply(token, response)]

        def stored(now: Now, error: KafkaError | None) -> list[Effect]:
            if error is not None:
                return [Reply(token, commit_refused(request, error.code))]
            return [Reply(token, response)]

        return [*effects, Append(tuple(records), stored)]

    def _commit_records(
        self, now: Now, request: OffsetCommitRequest
    ) -> tuple[OffsetCommitResponse, list[CoordinatorRecord]]:
        """Return the response in case of success, and the records to store."""
        records: list[CoordinatorRecord] = []
        topics: list[OffsetCommitResponseTopic] = []
        group_id, retention_ms = request.group_id, request.retention_time_ms
        expires_ms = -1 if retention_ms == -1 else min(now.wall_ms + retention_ms, _LAST_MS)
        for topic in request.topics:
            partitions: list[OffsetCommitResponsePartition] = []
            for partition in topic.partitions:
                index, error = partition.partition_index, ErrorCode.NONE
                if is_too_long(partition.committed_metadata, self._config.offset_metadata_max_bytes):
                    error = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    key = OffsetCommitKey(group=group_id, topic=topic.name, partition=index)
                    value = _offset_value(partition, topic.topic_id, now.wall_ms, expires_ms)
                    records.append(CoordinatorRecord(key, value))
                partitions.append(OffsetCommitResponsePartition(partition_index=index, error_code=error))
            topics.append(
                OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
            )
        return OffsetCommitResponse(topics=topics), records

    def fetch(self, request: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
        """Return the requested offsets, or all; -1 for a missing offset or group.

        With `require_stable` a partition with pending offsets gets UNSTABLE_OFFSET_COMMIT (KIP-447).
        """
        group = self._groups.get(request.group_id)
        error = ErrorCode.NONE if group is None else group.check_fetch(request)
        if error:
            return OffsetFetchResponseGroup(group_id=request.group_id, topics=[], error_code=error)
        offsets = self.store.of_group(request.group_id)
        if request.topics is None:
            topics = [
                OffsetFetchResponseTopics(
                    name=name, partitions=[_fetched(index, offset) for index, offset in found.items()]
                )
                for name, found in offsets.items()
            ]
        else:
            topics = [_fetched_topic(topic, offsets.get(topic.name, {})) for topic in request.topics]
        if require_stable and (pending := self.store.pending.of_group(request.group_id)):
            for topic in topics:
                _mark_unstable(topic, pending)
        return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)

    def delete(self, token: Token, request: OffsetDeleteRequest) -> list[Effect]:
        """Delete offsets of topics that no member reads (KIP-496)."""
        group = self._groups.get(request.group_id)
        error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_offset_delete()
        if group is None or error:
            return [Reply(token, OffsetDeleteResponse(error_code=error, topics=[]))]
        pending = self.store.pending.of_group(request.group_id)
        records = [
            offset_tombstone(request.group_id, topic.name, partition.partition_index)
            for topic in request.topics
            if not group.is_subscribed_to(topic.name)
            for partition in topic.partitions
            if self.store.get(request.group_id, topic.name, partition.partition_index) is not None
            or (topic.name, partition.partition_index) in pending
        ]
        response = OffsetDeleteResponse(topics=[_deleted_topic(topic, group) for topic in request.topics])
        if not records:
            return [Reply(token, response)]

        def stored(now: Now, error: KafkaError | None) -> list[Effect]:
            if error is not None:
                return [Reply(token, OffsetDeleteResponse(error_code=error.code, topics=[]))]
            return [Reply(token, response)]

        return [Append(tuple(records), stored)]

    def expired(self, group: Group, wall_ms: int, *, most: int) -> list[CoordinatorRecord]:
        """Return records that delete the expired offsets of a group, and the group if it has no others.

        If these are `most` offsets, there may be more.
        """
        records = self.store.expired(group, wall_ms, self._config.offsets_retention_ms, most=most)
        if len(records) == most:
            return records
        kept = sum(map(len, self.store.of_group(group.group_id).values())) - len(records)
        kept += len(self.store.pending.of_group(group.group_id))
        return records if kept or not group.holds_offsets_only else [*records, *group.tombstones()]


def _unknown_group(request: OffsetCommitRequest, version: int) -> ErrorCode:
    """Return the error of a commit to a missing group; a commit without a generation creates it."""
    if request.generation_id_or_member_epoch < 0:
        return ErrorCode.NONE
    return ErrorCode.GROUP_ID_NOT_FOUND if version >= NOT_FOUND_FROM else ErrorCode.ILLEGAL_GENERATION


def is_too_long(metadata: str | None, limit: int) -> bool:
    """Return whether a text has too many UTF-16 characters, as Java counts them."""
    if metadata is None:
        return False
    if metadata.isascii():
        return len(metadata) > limit
    return len(metadata.encode("utf-16-le", "surrogatepass")) > 2 * limit


def _offset_value(
    partition: OffsetCommitRequestPartition, topic_id: bytes, now_ms: int, expires_ms: int
) -> OffsetCommitValue:
    committed_ms = partition.commit_timestamp
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=now_ms if committed_ms == -1 else committed_ms,
        expire_timestamp=expires_ms,
        topic_id=topic_id,
    )


def commit_refused(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """Return the response to a commit that stored nothing."""
    topics = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetCommitResponse(topics=topics)


def _fetched_topic(
    topic: OffsetFetchRequestTopics, offsets: dict[int, OffsetCommitValue]
) -> OffsetFetchResponseTopics:
    """Return a topic's offsets; an offset with the id of another topic of this name counts as missing."""
    partitions = []
    for index in topic.partition_indexes:
        offset = offsets.get(index)
        if offset is not None and len({topic.topic_id, offset.topic_id, ZERO_UUID}) == 3:
            offset = None
        partitions.append(_fetched(index, offset))
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def _fetched(index: int, offset: OffsetCommitValue | None) -> OffsetFetchResponsePartitions:
    if offset is None:
        return OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, metadata="")
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
    )


def _mark_unstable(topic: OffsetFetchResponseTopics, pending: Container[TopicAndIndex]) -> None:
    topic.partitions = [
        OffsetFetchResponsePartitions(
            partition_index=each.partition_index,
            committed_offset=-1,
            metadata="",
            error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
        )
        if (topic.name, each.partition_index) in pending
        else each
        for each in topic.partitions
    ]


def _deleted_topic(topic: OffsetDeleteRequestTopic, group: Group) -> OffsetDeleteResponseTopic:
    in_use = group.is_subscribed_to(topic.name)
    error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if in_use else ErrorCode.NONE
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[
            OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=error)
            for each in topic.partitions
        ],
    )
