"""The states of a classic group, and the moves between them (Kafka class `ClassicGroupState`)."""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class ClassicGroupState(Enum):
    """What a classic group is doing; the value is the name that clients see."""

    EMPTY = "Empty"
    """No members; offsets may linger. Also a group that only commits offsets and never had members.

    Actions: new members may join; Sync, Heartbeat and Leave get UNKNOWN_MEMBER_ID; commits without a
    generation are stored; offsets expire.
    Transitions: a member joins: PREPARING_REBALANCE; deleted, last offset expired, or unloaded: DEAD.
    """

    PREPARING_REBALANCE = "PreparingRebalance"
    """Collecting the members of the next generation.

    Actions: Join is parked until all known members have joined or the rebalance timeout has passed; Sync and
    Heartbeat get REBALANCE_IN_PROGRESS, and the heartbeat counts; Leave removes the member; commits of the
    current generation are stored, so that members can commit what they give up.
    Transitions: members have joined: COMPLETING_REBALANCE; nobody is left: EMPTY; unloaded: DEAD.
    """

    COMPLETING_REBALANCE = "CompletingRebalance"
    """A generation stands, and waits for its leader's assignment.

    Actions: Sync is parked until the assignment is stored; Heartbeat is answered normally; Join with
    unchanged metadata gets the generation again; commits get REBALANCE_IN_PROGRESS.
    Transitions: assignment stored: STABLE; assignment not stored, a member joins, changes, leaves, fails, or
    does not sync in time: PREPARING_REBALANCE; unloaded: DEAD.
    """

    STABLE = "Stable"
    """Every member has, or can fetch, its assignment.

    Actions: Sync gets the assignment at once; Heartbeat is answered normally; Join of a follower with
    unchanged metadata gets the generation again; commits of this generation are stored.
    Transitions: the leader joins, a member joins, changes, leaves, fails, or does not sync in time:
    PREPARING_REBALANCE; unloaded: DEAD.
    """

    DEAD = "Dead"
    """Removed, or no longer ours.

    Actions: whoever still reaches it gets COORDINATOR_NOT_AVAILABLE and looks again.
    Transitions: none.
    """


TRANSITIONS: Mapping[ClassicGroupState, frozenset[ClassicGroupState]] = MappingProxyType(
    {
        ClassicGroupState.EMPTY: frozenset({ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD}),
        ClassicGroupState.PREPARING_REBALANCE: frozenset(
            {ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.EMPTY, ClassicGroupState.DEAD}
        ),
        ClassicGroupState.COMPLETING_REBALANCE: frozenset(
            {ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD}
        ),
        ClassicGroupState.STABLE: frozenset({ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD}),
        ClassicGroupState.DEAD: frozenset(),
    }
)
"""The states that may follow each state."""
