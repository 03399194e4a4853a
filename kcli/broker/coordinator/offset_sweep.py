"""OffsetSweep: a look at all groups of a shard for offsets that nobody needs any more, in steps.

A step deals with some groups and leaves the rest to a timer, so that a shard with very many of them keeps
nobody waiting. Each group is judged, and its tombstones are written, in one step: a commit that comes between
two steps is never deleted by what was decided before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.coordinator.effects import Append, Cancel, CoordinatorRecord, Effect, Schedule

if TYPE_CHECKING:
    from kcli.broker.coordinator.effects import Now
    from kcli.broker.coordinator.group import Group
    from kcli.broker.coordinator.group_offsets import GroupOffsets

GROUPS_PER_STEP = 5000
MAX_TOMBSTONES = 1000
"""How many offsets are deleted by one append when nobody asked for it: batches have a limit."""

SWEEP_KEY = ("sweep",)
"""The key of the timer for the next step."""


class OffsetSweep:
    """The sweeps of one shard: `groups` are all there are."""

    def __init__(self, groups: dict[str, Group], offsets: GroupOffsets) -> None:
        self._groups = groups
        self._offsets = offsets
        self._unswept: list[str] = []

    def begin(self, now: Now) -> list[Effect]:
        """Begin with all groups, also if an earlier sweep is not at its end."""
        self._offsets.adopt_orphans()
        self._unswept = list(reversed(self._groups))
        return self.go_on(now)

    def go_on(self, now: Now) -> list[Effect]:
        """Take the next step."""
        unswept = self._unswept
        records: list[CoordinatorRecord] = []
        for _ in range(min(len(unswept), GROUPS_PER_STEP)):
            group = self._groups.get(unswept.pop())
            if group is not None:
                records += self._offsets.expired(group, now.wall_ms)
            if len(records) >= MAX_TOMBSTONES:
                break
        effects = in_batches(records)
        return [*effects, Schedule(SWEEP_KEY, 1)] if unswept else effects

    def stop(self) -> list[Effect]:
        """Leave the rest to the next leader."""
        unswept, self._unswept = self._unswept, []
        return [Cancel(SWEEP_KEY)] if unswept else []


def in_batches(records: list[CoordinatorRecord]) -> list[Effect]:
    """Return what writes records that nobody waits for."""
    return [
        Append(tuple(records[start : start + MAX_TOMBSTONES]))
        for start in range(0, len(records), MAX_TOMBSTONES)
    ]
