"""PendingOffsets: offsets that open transactions have written and that no marker has decided yet.

Changed only by `replay` and by markers, in the order of the log. A commit moves an offset in if its record is
newer than the one that is stored: a plain commit that came between wins (Kafka class `OffsetMetadataManager`,
`pendingTransactionalOffsets`). While an offset is pending, its partition's committed offset is not stable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, KeysView, Mapping

    from kcli.protocol.internal.coordinator_records import OffsetCommitKey, OffsetCommitValue

TopicAndIndex = tuple[str, int]
OffsetId = tuple[str, str, int]
"""A group, a topic and a partition."""


class _PendingPartition:
    """What open transactions have written for one partition of a group, by producer id."""

    __slots__ = ("stored_at", "written")

    def __init__(self) -> None:
        self.written: dict[int, tuple[OffsetCommitValue, int]] = {}
        """The last value of each producer, with the offset of its record."""
        self.stored_at = -1
        """The offset of the newest record that was stored meanwhile."""


_NO_PARTITIONS: Mapping[TopicAndIndex, _PendingPartition] = {}


class PendingOffsets:
    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicAndIndex, _PendingPartition]] = {}
        self._producers: dict[int, dict[OffsetId, None]] = {}
        """What each producer has written, in any group."""

    def __bool__(self) -> bool:
        return bool(self._groups)

    def groups(self) -> Iterable[str]:
        """Return the groups with pending offsets."""
        return self._groups.keys()

    def of_group(self, group_id: str) -> KeysView[TopicAndIndex]:
        """Return the topics and partitions of a group that have pending offsets."""
        return self._groups.get(group_id, _NO_PARTITIONS).keys()

    def values(self, group_id: str, topic: str, partition: int) -> list[OffsetCommitValue]:
        """Return what open transactions have written for one of the partitions of `of_group`."""
        written = self._groups[group_id][topic, partition].written
        return [value for value, _ in written.values()]

    def write(self, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue, offset: int) -> None:
        """Note what a transaction has written, in the record at `offset`."""
        partitions = self._groups.setdefault(key.group, {})
        pending = partitions.get((key.topic, key.partition))
        if pending is None:
            pending = partitions[key.topic, key.partition] = _PendingPartition()
        pending.written[producer_id] = (value, offset)
        self._producers.setdefault(producer_id, {})[key.group, key.topic, key.partition] = None

    def stored(self, key: OffsetCommitKey, offset: int) -> None:
        """Note that the record at `offset` was stored: what was written before it will not move in."""
        partitions = self._groups.get(key.group)
        if partitions is not None and (pending := partitions.get((key.topic, key.partition))) is not None:
            pending.stored_at = offset

    def forget(self, key: OffsetCommitKey) -> None:
        """Drop what is pending for a partition of a group: its offset was deleted."""
        partitions = self._groups.get(key.group)
        if partitions is None or (pending := partitions.pop((key.topic, key.partition), None)) is None:
            return
        if not partitions:
            del self._groups[key.group]
        for producer_id in pending.written:
            written = self._producers[producer_id]
            del written[key.group, key.topic, key.partition]
            if not written:
                del self._producers[producer_id]

    def end(self, producer_id: int, is_commit: bool) -> list[tuple[OffsetId, OffsetCommitValue]]:
        """Drop what a producer has written; return what moves in."""
        moved: list[tuple[OffsetId, OffsetCommitValue]] = []
        for written in self._producers.pop(producer_id, {}):
            group_id, topic, partition = written
            partitions = self._groups[group_id]
            pending = partitions[topic, partition]
            value, offset = pending.written.pop(producer_id)
            if is_commit and offset > pending.stored_at:
                pending.stored_at = offset
                moved.append((written, value))
            if not pending.written:
                del partitions[topic, partition]
                if not partitions:
                    del self._groups[group_id]
        return moved
