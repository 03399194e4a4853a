"""The states of classic groups: the transitions, and the response to each request in each state."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from kcli.broker.coordinator.classic.group import TRANSITIONS, ClassicGroup, ClassicGroupState
from kcli.broker.coordinator.effects import Now
from kcli.protocol.error_codes import ErrorCode
from tests.broker.coordinator.virtual_coordinator import Call, VirtualCoordinator, subscription

OTHER = {"range": subscription("t", "u")}
NOW = Now(1, 2)


@pytest.mark.parametrize("before", ClassicGroupState)
@pytest.mark.parametrize("after", ClassicGroupState)
def test_a_group_moves_as_the_table_says(before: ClassicGroupState, after: ClassicGroupState) -> None:
    group = ClassicGroup("g", state=before)
    if after in TRANSITIONS[before]:
        group.transition(NOW, after)
        assert (group.state, group.state_since_ms) == (after, 2)
    else:
        with pytest.raises(AssertionError, match="cannot go from"):
            group.transition(NOW, after)


def test_every_state_can_be_left_for_dead_and_dead_for_none() -> None:
    assert all(
        (ClassicGroupState.DEAD in after) == (before is not ClassicGroupState.DEAD)
        for before, after in TRANSITIONS.items()
    )
    assert TRANSITIONS.keys() == set(ClassicGroupState)


# --- state x request -----------------------------------------------------------------------------------


class Scene(NamedTuple):
    """A group `g` with a leader and a follower, possibly gone, in its current generation."""

    world: VirtualCoordinator
    leader: str
    follower: str

    @property
    def generation(self) -> int:
        return int(self.world.group().generation)


def stable(world: VirtualCoordinator) -> Scene:
    _, (leader, follower) = world.stable(2)
    return Scene(world, leader, follower)


def empty(world: VirtualCoordinator) -> Scene:
    scene = stable(world)
    world.leave(scene.leader, scene.follower)
    return scene


def preparing(world: VirtualCoordinator) -> Scene:
    scene = stable(world)
    assert world.join(version=3).is_parked
    return scene


def completing(world: VirtualCoordinator) -> Scene:
    scene = stable(world)
    world.join(scene.leader, version=3)
    world.join(scene.follower, version=3)
    return scene


def dead(world: VirtualCoordinator) -> Scene:
    scene = stable(world)
    world.unload()
    return scene


STATES: dict[str, Callable[[VirtualCoordinator], Scene]] = {
    "Empty": empty,
    "PreparingRebalance": preparing,
    "CompletingRebalance": completing,
    "Stable": stable,
    "Dead": dead,
}

REQUESTS: dict[str, Callable[[Scene], Call]] = {
    "new member joins": lambda s: s.world.join(version=3),
    "follower joins unchanged": lambda s: s.world.join(s.follower),
    "follower joins changed": lambda s: s.world.join(s.follower, protocols=OTHER),
    "leader joins unchanged": lambda s: s.world.join(s.leader),
    "leader joins changed": lambda s: s.world.join(s.leader, protocols=OTHER),
    "stranger joins": lambda s: s.world.join("stranger"),
    "stranger joins as static": lambda s: s.world.join("stranger", instance="i"),
    "wrong protocol joins": lambda s: s.world.join(version=3, protocols={"sticky": b""}),
    "wrong type joins": lambda s: s.world.join(version=3, protocol_type="connect"),
    "follower syncs": lambda s: s.world.sync(s.follower, s.generation),
    "leader syncs": lambda s: s.world.sync(s.leader, s.generation, assignments={s.leader: b"all"}),
    "stranger syncs": lambda s: s.world.sync("stranger", s.generation),
    "old generation syncs": lambda s: s.world.sync(s.follower, s.generation - 1),
    "heartbeat": lambda s: s.world.heartbeat(s.follower, s.generation),
    "stranger's heartbeat": lambda s: s.world.heartbeat("stranger", s.generation),
    "old heartbeat": lambda s: s.world.heartbeat(s.follower, s.generation - 1),
    "follower leaves": lambda s: s.world.leave(s.follower, version=2),
    "stranger leaves": lambda s: s.world.leave("stranger", version=2),
    "commit": lambda s: s.world.commit({("t", 0): 1}, member_id=s.follower, generation=s.generation),
    "commit of a stranger": lambda s: s.world.commit(
        {("t", 0): 1}, member_id="stranger", generation=s.generation
    ),
    "old commit": lambda s: s.world.commit({("t", 0): 1}, member_id=s.follower, generation=s.generation - 1),
    "commit without generation": lambda s: s.world.commit({("t", 0): 1}),
    "commit of a member without generation": lambda s: s.world.commit({("t", 0): 1}, member_id=s.follower),
}

ANSWERS = {
    "ok": "NONE",
    "parked": "parked",
    "unknown": "UNKNOWN_MEMBER_ID",
    "old": "ILLEGAL_GENERATION",
    "busy": "REBALANCE_IN_PROGRESS",
    "wrong": "INCONSISTENT_GROUP_PROTOCOL",
    "away": "COORDINATOR_NOT_AVAILABLE",
}
AFTER = {">P": "PreparingRebalance", ">C": "CompletingRebalance", ">S": "Stable"}

# The response, and the next state if it changes.
TABLE = """
request                               | Empty   | Preparing | Completing | Stable    | Dead
new member joins                      | ok >C   | parked    | parked >P  | parked >P | away
follower joins unchanged              | unknown | parked    | ok         | ok        | away
follower joins changed                | unknown | parked    | parked >P  | parked >P | away
leader joins unchanged                | unknown | parked    | ok         | parked >P | away
leader joins changed                  | unknown | parked    | parked >P  | parked >P | away
stranger joins                        | unknown | unknown   | unknown    | unknown   | away
stranger joins as static              | unknown | unknown   | unknown    | unknown   | away
wrong protocol joins                  | ok >C   | wrong     | wrong      | wrong     | away
wrong type joins                      | ok >C   | wrong     | wrong      | wrong     | away
follower syncs                        | unknown | busy      | parked     | ok        | away
leader syncs                          | unknown | busy      | ok >S      | ok        | away
stranger syncs                        | unknown | unknown   | unknown    | unknown   | away
old generation syncs                  | unknown | old       | old        | old       | away
heartbeat                             | unknown | busy      | ok         | ok        | away
stranger's heartbeat                  | unknown | unknown   | unknown    | unknown   | away
old heartbeat                         | unknown | old       | old        | old       | away
follower leaves                       | unknown | ok        | ok >P      | ok >P     | away
stranger leaves                       | unknown | unknown   | unknown    | unknown   | away
commit                                | unknown | ok        | busy       | ok        | away
commit of a stranger                  | unknown | unknown   | unknown    | unknown   | away
old commit                            | unknown | old       | old        | old       | away
commit without generation             | ok      | unknown   | unknown    | unknown   | away
commit of a member without generation | ok      | old       | old        | old       | away
"""


def rows() -> list[tuple[str, str, str, str]]:
    _, *lines = ([cell.strip() for cell in line.split("|")] for line in TABLE.strip().splitlines())
    found = []
    for request, *cells in lines:
        for state, cell in zip(STATES, cells, strict=True):
            answer, _, after = cell.partition(" ")
            found.append((request, state, ANSWERS[answer], AFTER.get(after, state)))
    return found


def answer_of(call: Call) -> str:
    if call.is_parked:
        return "parked"
    if call.name == "commit":
        return ErrorCode(call.response.topics[0].partitions[0].error_code).name
    return call.error.name


@pytest.mark.parametrize(("request_name", "state", "answer", "after"), rows())
def test_a_request_in_a_state(request_name: str, state: str, answer: str, after: str) -> None:
    scene = STATES[state](VirtualCoordinator())
    assert scene.world.state() == state
    call = REQUESTS[request_name](scene)
    assert (answer_of(call), scene.world.state()) == (answer, after)


@pytest.mark.parametrize("state", STATES)
def test_offsets_are_told_in_every_state(state: str) -> None:
    world = VirtualCoordinator()
    world.commit({("t", 0): 5})
    STATES[state](world)
    assert world.fetch("g", "t", 0, 1) == {0: 5, 1: -1}


def test_a_group_that_does_not_exist_knows_nobody() -> None:
    world = VirtualCoordinator()
    assert world.join("stranger").error == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.sync("stranger", 1).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat("stranger", 1).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.leave("stranger", version=2).error == ErrorCode.UNKNOWN_MEMBER_ID
    (left,) = world.leave("stranger").response.members
    assert left.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert answer_of(world.commit({("t", 0): 1}, member_id="stranger", generation=1)) == "GROUP_ID_NOT_FOUND"
    old = world.commit({("t", 0): 1}, member_id="stranger", generation=1, version=8)
    assert answer_of(old) == "ILLEGAL_GENERATION"
    assert not world.shard.groups
    assert not world.timers
