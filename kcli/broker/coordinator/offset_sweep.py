"""OffsetSweep: a look at all groups of a shard for offsets that nobody needs any more, in steps.

A step deals with some groups and leaves the rest to a timer, so that a shard with very many of them, or with
very many offsets in one, keeps nobody waiting. What a step judges it deletes: a commit that comes between two
steps is never deleted by what was decided before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.coordinator.effects import Append, Cancel, CoordinatorRecord, Effect, Schedule

if TYPE_CHECKING:
    from kcli.broker.coordinator.effects import Now
    from kcli.broker.coordinator.group import Group
    from kcli.broker.coordinator.group_offsets import GroupOffsets

GROUPS_PER_STEP = 5000
TOMBSTONES_PER_STEP = 1000
"""As many as one batch holds in any case: batches have a limit."""

SWEEP_KEY = ("sweep",)
"""The key of the timer for the next step."""


class OffsetSweep:
    """The sweeps of one shard: `groups` are all there are."""

    def __init__(self, groups: dict[str, Group], offsets: GroupOffsets) -> None:
        self._groups = groups
        self._offsets = offsets
        self._unswept: list[str] = []
        self._first: CoordinatorRecord | None = None
        """The first of what the last step deleted."""

    def begin(self, now: Now) -> list[Effect]:
        """Begin with all groups, also if an earlier sweep is not at its end."""
        self._offsets.adopt_orphans()
        self._unswept = list(reversed(self._groups))
        self._first = None
        return self.go_on(now)

    def go_on(self, now: Now) -> list[Effect]:
        """Take the next step."""
        unswept = self._unswept
        records: list[CoordinatorRecord] = []
        for _ in range(min(len(unswept), GROUPS_PER_STEP)):
            group = self._groups.get(unswept[-1])
            if group is not None:
                most = TOMBSTONES_PER_STEP - len(records)
                found = self._offsets.expired(group, now.wall_ms, most=most)
                if found and found[0] == self._first:
                    found = []  # the last step could not be written: the next sweep tries again
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
