"""Deletion of offsets and groups in steps: OffsetSweep (expired), DeletedTopics, GroupDeletions.

A step handles some groups or offsets and leaves the rest to a timer, so that a large shard does not block the
event loop. Each step decides anew: a commit between two steps is not deleted by an older decision.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Literal

from kcli.broker.coordinator.classic.group import ClassicGroup, ClassicGroupState
from kcli.broker.coordinator.classic.rebalance import dissolve
from kcli.broker.coordinator.effects import Append, Cancel, CoordinatorRecord, Effect, Reply, Schedule
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.delete_groups import DeletableGroupResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kcli.broker.coordinator.effects import Now, Token
    from kcli.broker.coordinator.group import Group
    from kcli.broker.coordinator.offsets.committed_offsets import GroupOffsets, OffsetStore
    from kcli.broker.metadata.registrations import TopicImage
    from kcli.protocol.error_codes import KafkaError


GROUPS_PER_STEP = 5000
TOMBSTONES_PER_STEP = 1000
"""One batch always has room for this many."""

SWEEP_KEY = ("sweep",)
"""The key of the timer for the next step."""


class OffsetSweep:
    """The deletion of expired offsets in one shard; `groups` are all its groups."""

    def __init__(self, groups: dict[str, Group], offsets: GroupOffsets) -> None:
        self._groups = groups
        self._offsets = offsets
        self._unswept: list[str] = []
        self._first: CoordinatorRecord | None = None
        """The first record of the last step."""

    def begin(self, now: Now) -> list[Effect]:
        """Begin with all groups, even if the last sweep has not ended."""
        self._offsets.create_missing_groups()
        self._unswept = list(reversed(self._groups))
        self._first = None
        return self.go_on(now)

    def go_on(self, now: Now) -> list[Effect]:
        unswept = self._unswept
        records: list[CoordinatorRecord] = []
        for _ in range(min(len(unswept), GROUPS_PER_STEP)):
            group = self._groups.get(unswept[-1])
            if group is not None:
                most = TOMBSTONES_PER_STEP - len(records)
                found = self._offsets.expired(group, now.wall_ms, most=most)
                if found and found[0] == self._first:
                    found = []  # the last step was not written: the next sweep tries again
                records += found
                if len(records) >= TOMBSTONES_PER_STEP:
                    break  # the group may have more
            unswept.pop()
        self._first = records[0] if records else None
        effects: list[Effect] = [Append(tuple(records))] if records else []
        return [*effects, Schedule(SWEEP_KEY, 1)] if unswept else effects

    def stop(self) -> list[Effect]:
        """Leave the rest to the next leader."""
        unswept, self._unswept = self._unswept, []
        return [Cancel(SWEEP_KEY)] if unswept else []


TOPIC_GROUPS_PER_STEP = 5000
TOPIC_TOMBSTONES_PER_STEP = 200
"""Takes under a millisecond: all shards of a node may take a step at the same time."""

DELETED_TOPICS_KEY = ("deleted topics",)


class DeletedTopics:
    """The deletion of all groups' offsets of deleted topics.

    Offsets that were committed for a new topic of the same name carry its id and stay.
    """

    def __init__(self, store: OffsetStore) -> None:
        self._store = store
        self._topics: deque[tuple[str, bytes]] = deque()
        self._unswept: list[str] | None = None
        """The groups not handled yet for the first topic of the queue."""
        self._first: CoordinatorRecord | None = None
        """The first record of the last step."""

    def begin(self, topics: Iterable[TopicImage]) -> list[Effect]:
        is_under_way = bool(self._topics)
        self._topics.extend((topic.name, topic.topic_id) for topic in topics)
        return [] if is_under_way else self.go_on()

    def go_on(self) -> list[Effect]:
        records: list[CoordinatorRecord] = []
        looks = TOPIC_GROUPS_PER_STEP
        while self._topics and looks > 0 and len(records) < TOPIC_TOMBSTONES_PER_STEP:
            name, topic_id = self._topics[0]
            if self._unswept is None:
                self._unswept = list(self._store)
            while self._unswept and looks > 0:
                looks -= 1
                most = TOPIC_TOMBSTONES_PER_STEP - len(records)
                found = self._store.tombstones_of_topic(self._unswept[-1], name, topic_id, most=most)
                if found and found[0] == self._first:
                    found = []  # the last step was not written: its offsets expire later
                records += found
                if len(records) == TOPIC_TOMBSTONES_PER_STEP:
                    break  # the group may have more
                self._unswept.pop()
            if not self._unswept:
                self._topics.popleft()
                self._unswept = None
        self._first = records[0] if records else None
        effects: list[Effect] = [Append(tuple(records))] if records else []
        return [*effects, Schedule(DELETED_TOPICS_KEY, 1)] if self._topics else effects

    def stop(self) -> list[Effect]:
        """Leave the rest to the next leader."""
        is_under_way = bool(self._topics)
        self._topics.clear()
        self._unswept = self._first = None
        return [Cancel(DELETED_TOPICS_KEY)] if is_under_way else []


DeletionKey = tuple[Literal["deletion"], int]
"""The key of the timer for the next step of one request."""


class _Deletion:
    """One DeleteGroups request; `waiting` are the results of groups not handled yet, the next one last."""

    def __init__(self, key: DeletionKey, token: Token, group_ids: Iterable[str]) -> None:
        self.key = key
        self.token = token
        self.results = [DeletableGroupResult(group_id=group_id) for group_id in dict.fromkeys(group_ids)]
        self.waiting = self.results[::-1]
        self.uncommitted = 0


class GroupDeletions:
    """The DeleteGroups requests of one shard; `groups` are all its groups.

    A group is deleted in one event, however many batches that takes. The response, a list of results, follows
    the last commit.
    """

    def __init__(self, groups: dict[str, Group], store: OffsetStore) -> None:
        self._groups = groups
        self._store = store
        self._under_way: dict[DeletionKey, _Deletion] = {}
        self._count = 0

    def begin(self, token: Token, group_ids: Iterable[str]) -> list[Effect]:
        self._count += 1
        deletion = _Deletion(("deletion", self._count), token, group_ids)
        self._under_way[deletion.key] = deletion
        return self._step(deletion)

    def go_on(self, key: DeletionKey) -> list[Effect]:
        deletion = self._under_way.get(key)
        return [] if deletion is None else self._step(deletion)

    def stop(self) -> list[Effect]:
        effects: list[Effect] = []
        for deletion in list(self._under_way.values()):
            for result in deletion.waiting:
                result.error_code = ErrorCode.NOT_COORDINATOR
            deletion.waiting.clear()
            effects += [Cancel(deletion.key), *self._end(deletion)]
        return effects

    def _step(self, deletion: _Deletion) -> list[Effect]:
        effects: list[Effect] = []
        written = 0
        while deletion.waiting and written < TOMBSTONES_PER_STEP:
            result = deletion.waiting.pop()
            group = self._groups.get(result.group_id)
            result.error_code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_delete()
            if group is None or result.error_code:
                continue
            records = [*self._store.tombstones(result.group_id), *group.tombstones()]
            written += len(records)
            for start in range(0, len(records), TOMBSTONES_PER_STEP):
                batch = tuple(records[start : start + TOMBSTONES_PER_STEP])
                deletion.uncommitted += 1
                effects.append(Append(batch, self._stored(deletion, result, group)))
        if deletion.waiting:
            return [*effects, Schedule(deletion.key, 1)]
        return effects or self._end(deletion)

    def _stored(
        self, deletion: _Deletion, result: DeletableGroupResult, group: Group
    ) -> Callable[[Now, KafkaError | None], list[Effect]]:
        def stored(now: Now, error: KafkaError | None) -> list[Effect]:
            deletion.uncommitted -= 1
            if error is not None:
                result.error_code = error.code
            effects: list[Effect] = []
            is_gone = self._groups.get(group.group_id) is not group
            if is_gone and isinstance(group, ClassicGroup) and group.state is not ClassicGroupState.DEAD:
                # It may have pending ids.
                effects = dissolve(now, group, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return effects + self._end(deletion)

        return stored

    def _end(self, deletion: _Deletion) -> list[Effect]:
        if deletion.waiting or deletion.uncommitted or self._under_way.pop(deletion.key, None) is None:
            return []
        return [Reply(deletion.token, deletion.results)]
