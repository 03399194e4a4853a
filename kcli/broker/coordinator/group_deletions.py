"""GroupDeletions: groups without members that somebody wants deleted, with their offsets, in steps.

A group goes whole, in one event, however many batches that takes; after some groups the rest is left to a
timer. Each is judged when its turn comes. The answer, a list of results, follows the last commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kcli.broker.coordinator.classic_group import ClassicGroup
from kcli.broker.coordinator.classic_rebalance import dissolve
from kcli.broker.coordinator.classic_states import ClassicGroupState
from kcli.broker.coordinator.effects import Append, Cancel, Effect, Reply, Schedule
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.delete_groups import DeletableGroupResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kcli.broker.coordinator.effects import CoordinatorRecord, Now, Token
    from kcli.broker.coordinator.group import Group
    from kcli.broker.coordinator.offset_store import OffsetStore
    from kcli.protocol.error_codes import KafkaError

TOMBSTONES_PER_BATCH = 1000
"""Batches have a limit. After so many others may run, too."""

DeletionKey = tuple[Literal["deletion"], int]
"""The key of the timer for the next step of one request."""


class _Deletion:
    """One request. `waiting` are the results of groups whose turn has yet to come, the next one last."""

    def __init__(self, key: DeletionKey, token: Token, group_ids: Iterable[str]) -> None:
        self.key = key
        self.token = token
        self.results = [DeletableGroupResult(group_id=group_id) for group_id in dict.fromkeys(group_ids)]
        self.waiting = self.results[::-1]
        self.uncommitted = 0


class GroupDeletions:
    """The deletions of one shard: `groups` are all there are."""

    def __init__(self, groups: dict[str, Group], store: OffsetStore) -> None:
        self._groups = groups
        self._store = store
        self._under_way: dict[DeletionKey, _Deletion] = {}
        self._count = 0

    def begin(self, token: Token, group_ids: Iterable[str]) -> list[Effect]:
        """Delete groups; the answer is a list of results."""
        self._count += 1
        deletion = _Deletion(("deletion", self._count), token, group_ids)
        self._under_way[deletion.key] = deletion
        return self._step(deletion)

    def go_on(self, key: DeletionKey) -> list[Effect]:
        """Take the next step."""
        deletion = self._under_way.get(key)
        return [] if deletion is None else self._step(deletion)

    def stop(self) -> list[Effect]:
        """Answer whoever waits for the rest."""
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
        while deletion.waiting and written < TOMBSTONES_PER_BATCH:
            result = deletion.waiting.pop()
            group = self._groups.get(result.group_id)
            result.error_code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_delete()
            if group is None or result.error_code:
                continue
            records = [*self._store.tombstones(result.group_id), *group.tombstones()]
            written += len(records)
            for batch in in_batches(records):
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
                # It may have given out ids that were never used.
                effects = dissolve(now, group, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return effects + self._end(deletion)

        return stored

    def _end(self, deletion: _Deletion) -> list[Effect]:
        if deletion.waiting or deletion.uncommitted or self._under_way.pop(deletion.key, None) is None:
            return []
        return [Reply(deletion.token, deletion.results)]


def in_batches(records: list[CoordinatorRecord]) -> list[tuple[CoordinatorRecord, ...]]:
    """Return records as batches that are not too long."""
    return [
        tuple(records[start : start + TOMBSTONES_PER_BATCH])
        for start in range(0, len(records), TOMBSTONES_PER_BATCH)
    ]
