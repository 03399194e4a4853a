"""DeletedTopics: every group's offsets of topics that are gone, deleted in steps.

A step deletes a few offsets at once, as the topic goes, and leaves the rest to a timer: a shard with very
many of them keeps nobody waiting. What is committed of a new topic of the same name, meanwhile or before,
carries its id and stays.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kcli.broker.coordinator.effects import Append, Cancel, CoordinatorRecord, Effect, Schedule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.broker.coordinator.offset_store import OffsetStore
    from kcli.broker.metadata.registrations import TopicImage

GROUPS_PER_STEP = 5000
TOMBSTONES_PER_STEP = 200
"""Under a millisecond: the steps of all shards of a node may come together."""

DELETED_TOPICS_KEY = ("deleted topics",)
"""The key of the timer for the next step."""


class DeletedTopics:
    """The topics whose offsets a shard has yet to delete."""

    def __init__(self, store: OffsetStore) -> None:
        self._store = store
        self._topics: deque[tuple[str, bytes]] = deque()
        self._unswept: list[str] | None = None
        """The groups that have not been looked at for the first of the topics."""
        self._first: CoordinatorRecord | None = None
        """The first of what the last step deleted."""

    def begin(self, topics: Iterable[TopicImage]) -> list[Effect]:
        """Take topics that were deleted, behind those that were before."""
        is_under_way = bool(self._topics)
        self._topics.extend((topic.name, topic.topic_id) for topic in topics)
        return [] if is_under_way else self.go_on()

    def go_on(self) -> list[Effect]:
        """Take the next step."""
        records: list[CoordinatorRecord] = []
        looks = GROUPS_PER_STEP
        while self._topics and looks > 0 and len(records) < TOMBSTONES_PER_STEP:
            name, topic_id = self._topics[0]
            if self._unswept is None:
                self._unswept = list(self._store)
            while self._unswept and looks > 0:
                looks -= 1
                most = TOMBSTONES_PER_STEP - len(records)
                found = self._store.tombstones_of_topic(self._unswept[-1], name, topic_id, most=most)
                if found and found[0] == self._first:
                    found = []  # the last step could not be written: its offsets are left to expire
                records += found
                if len(records) == TOMBSTONES_PER_STEP:
                    break  # the group may have more
                self._unswept.pop()
            if not self._unswept:
                self._topics.popleft()
                self._unswept = None
        self._first = records[0] if records else None
        effects: list[Effect] = [Append(tuple(records))] if records else []
        return [*effects, Schedule(DELETED_TOPICS_KEY, 1)] if self._topics else effects

    def stop(self) -> list[Effect]:
        """Leave the rest alone: the shard goes to another leader."""
        is_under_way = bool(self._topics)
        self._topics.clear()
        self._unswept = self._first = None
        return [Cancel(DELETED_TOPICS_KEY)] if is_under_way else []
