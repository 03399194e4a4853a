"""OffsetStore: the committed offsets of a shard's groups, and what becomes of them with time (KIP-211).

An offset goes when its retention has passed, counted from the commit or from when its group became empty
(`Group.retention_start`), unless a member still reads its topic. Offsets with an expiry of their own, from
old clients, go then. A group without members goes with its last offset.

Nothing here changes but in `replay`: everything else returns the records that would do it.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from kcli.broker.coordinator.group_records import offset_tombstone
from kcli.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kcli.broker.coordinator.effects import CoordinatorRecord
    from kcli.broker.coordinator.group import Group
    from kcli.protocol.internal.coordinator_records import OffsetCommitKey, OffsetCommitValue

TopicOffsets = dict[int, "OffsetCommitValue"]
"""The offsets of one topic by partition."""


class OffsetStore:
    """Committed offsets by group, topic and partition, as the values of their last records."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, TopicOffsets]] = {}

    def __iter__(self) -> Iterator[str]:
        """Yield the ids of the groups that have offsets."""
        return iter(self._groups)

    def of_group(self, group_id: str) -> Mapping[str, TopicOffsets]:
        """Return a group's offsets, by topic and partition."""
        return self._groups.get(group_id, {})

    def get(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        """Return the offset of one partition."""
        topics = self._groups.get(group_id)
        if topics is None or (partitions := topics.get(topic)) is None:
            return None
        return partitions.get(partition)

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        """Apply a record: the last one of a partition counts."""
        if value is not None:
            topics = self._groups.get(key.group)
            if topics is None:
                topics = self._groups[key.group] = {}
            partitions = topics.get(key.topic)
            if partitions is None:
                partitions = topics[key.topic] = {}
            partitions[key.partition] = value
        elif self.get(key.group, key.topic, key.partition) is not None:
            topics = self._groups[key.group]
            del topics[key.topic][key.partition]
            if not topics[key.topic]:
                del topics[key.topic]
            if not topics:
                del self._groups[key.group]

    # --- tombstones --------------------------------------------------------------------------------

    def tombstones(self, group_id: str) -> list[CoordinatorRecord]:
        """Return what deletes all offsets of a group."""
        return [
            offset_tombstone(group_id, topic, partition)
            for topic, partitions in self.of_group(group_id).items()
            for partition in partitions
        ]

    def tombstones_of_topic(
        self, group_id: str, name: str, topic_id: bytes, *, most: int
    ) -> list[CoordinatorRecord]:
        """Return what deletes a group's offsets of a topic that is gone, `most` of them.

        Offsets that were committed by the id of another topic, which has the name now, stay.
        """
        found = (
            offset_tombstone(group_id, name, partition)
            for partition, offset in self.of_group(group_id).get(name, {}).items()
            if offset.topic_id in {ZERO_UUID, topic_id}
        )
        return list(islice(found, most))

    def expired(self, group: Group, wall_ms: int, retention_ms: int, *, most: int) -> list[CoordinatorRecord]:
        """Return what deletes the offsets of a group that nobody needs any more, `most` of them."""
        start = group.retention_start()
        if start is None:
            return []
        found = (
            offset_tombstone(group.group_id, topic, partition)
            for topic, partitions in self.of_group(group.group_id).items()
            if not group.is_subscribed_to(topic)
            for partition, offset in partitions.items()
            if wall_ms
            >= (start(offset) + retention_ms if offset.expire_timestamp == -1 else offset.expire_timestamp)
        )
        return list(islice(found, most))
