"""Committed offsets: which expire, when, and in how many steps."""

from __future__ import annotations

import pytest

from kcli.broker.coordinator.offsets import offset_cleanup as offset_sweep
from kcli.protocol.error_codes import ErrorCode
from tests.broker.coordinator.virtual_coordinator import VirtualCoordinator, subscription

DAY_MS = 24 * 60 * 60 * 1000
WEEK_MS = 7 * DAY_MS


@pytest.fixture
def world() -> VirtualCoordinator:
    return VirtualCoordinator()


def expire(world: VirtualCoordinator) -> None:
    world.perform(world.shard.expire_offsets(world.now))


def test_a_simple_groups_offsets_expire_a_week_after_each_commit(world: VirtualCoordinator) -> None:
    world.commit({("t", 0): 1})
    world.advance(DAY_MS)
    world.commit({("t", 1): 1})
    world.advance(WEEK_MS - DAY_MS - 1)
    expire(world)
    assert set(world.offsets()) == {("t", 0), ("t", 1)}
    world.advance(1)
    expire(world)
    assert set(world.offsets()) == {("t", 1)}
    world.advance(DAY_MS)
    expire(world)
    assert not world.shard.groups
    world.restart()
    assert not world.shard.groups


def test_a_consumer_groups_offsets_expire_a_week_after_it_became_empty(world: VirtualCoordinator) -> None:
    generation, (leader,) = world.stable()
    world.commit({("t", 0): 1}, member_id=leader, generation=generation)
    for _ in range(20):
        world.advance(DAY_MS)  # and the member is gone: since its session ended
    assert world.state() == "Empty"
    world.restart()
    world.advance(0)
    expire(world)
    assert world.offsets() == {}
    assert not world.shard.groups


def test_what_is_counted_is_emptiness_and_not_the_commit(world: VirtualCoordinator) -> None:
    generation, (leader,) = world.stable(session_ms=1_800_000)
    world.commit({("t", 0): 1}, member_id=leader, generation=generation)
    for _ in range(20 * 24 * 60 // 25):
        world.advance(25 * 60 * 1000)
        world.heartbeat(leader, generation)
    expire(world)
    world.leave(leader)
    expire(world)
    assert world.offsets() == {("t", 0): 1}
    world.advance(WEEK_MS - 1)
    expire(world)
    assert world.offsets() == {("t", 0): 1}
    world.advance(1)
    expire(world)
    assert not world.shard.groups


@pytest.mark.parametrize(
    ("metadata", "left"),
    [
        (subscription("t"), {("t", 0)}),
        (subscription("t", "u"), {("t", 0), ("u", 0)}),
        (b"malformed", {("t", 0), ("u", 0)}),
    ],
)
def test_offsets_of_a_topic_that_consumers_gave_up_expire(
    world: VirtualCoordinator, metadata: bytes, left: set[tuple[str, int]]
) -> None:
    generation, (leader,) = world.stable(protocols={"range": metadata}, session_ms=1_800_000)
    world.commit({("t", 0): 1, ("u", 0): 1}, member_id=leader, generation=generation)
    for _ in range(8 * 24 * 3):
        world.advance(20 * 60 * 1000)
        world.heartbeat(leader, generation)
    expire(world)
    assert set(world.offsets()) == left
    assert "g" in world.shard.groups


def test_nothing_expires_while_a_group_rebalances(world: VirtualCoordinator) -> None:
    generation, (leader, follower) = world.stable(2)
    world.commit({("u", 0): 1}, member_id=leader, generation=generation)
    world.join(leader)
    wall_ms = world.now.wall_ms + 2 * WEEK_MS
    later = world.now._replace(wall_ms=wall_ms)
    assert world.shard.expire_offsets(later) == []
    world.join(follower)
    assert world.shard.expire_offsets(later) == []
    world.sync(leader, generation + 1)
    assert world.shard.expire_offsets(later) != []


def test_an_expiry_of_its_own_comes_before_the_retention(world: VirtualCoordinator) -> None:
    world.commit({("t", 0): 1}, retention_time_ms=5_000, version=4)
    world.restart()
    world.advance(4_999)
    expire(world)
    assert world.offsets()
    world.advance(1)
    expire(world)
    assert not world.offsets()


def test_an_expiry_of_its_own_may_be_later_than_the_retention(world: VirtualCoordinator) -> None:
    world.commit({("t", 0): 1}, retention_time_ms=4 * WEEK_MS, version=4)
    world.advance(3 * WEEK_MS)
    expire(world)
    assert world.offsets()


def test_an_expiry_that_cannot_be_written_is_tried_again(world: VirtualCoordinator) -> None:
    world.commit({("t", 0): 1})
    world.advance(WEEK_MS)
    world.append_error = ErrorCode.NOT_COORDINATOR
    expire(world)
    assert world.offsets()
    world.append_error = None
    expire(world)
    assert not world.offsets()


def test_many_offsets_expire_in_several_batches(world: VirtualCoordinator) -> None:
    world.commit({("t", partition): 1 for partition in range(2_500)})
    world.advance(WEEK_MS)
    expire(world)
    assert len(world.offsets()) == 1_500
    # A commit between two steps is decided anew.
    world.commit({("t", 2_400): 5})
    world.advance(10)
    assert world.offsets() == {("t", 2_400): 5}
    world.advance(WEEK_MS)
    expire(world)
    assert not world.shard.groups
    assert not world.timers


def test_an_expiry_of_many_offsets_that_cannot_be_written_ends(world: VirtualCoordinator) -> None:
    world.commit({("t", partition): 1 for partition in range(2_500)})
    world.commit({("t", 0): 1}, group="h")
    world.advance(WEEK_MS)
    world.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    expire(world)
    world.advance(100)
    assert not world.timers
    world.append_error = None
    expire(world)
    world.advance(100)
    assert not world.shard.groups


def test_a_sweep_of_many_groups_keeps_nobody_waiting_and_ends(
    world: VirtualCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_sweep, "GROUPS_PER_STEP", 2)
    for name in "abcde":
        world.commit({("t", 0): 1}, group=name)
    world.advance(WEEK_MS)
    expire(world)
    assert set(world.shard.groups) == {"c", "d", "e"}
    world.commit({("t", 0): 2}, group="d")
    world.advance(10)
    assert set(world.shard.groups) == {"d"}
    assert world.offsets("d") == {("t", 0): 2}
    assert not world.timers


def test_a_sweep_is_not_gone_on_with_by_who_leads_no_longer(
    world: VirtualCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_sweep, "GROUPS_PER_STEP", 2)
    for name in "abc":
        world.commit({("t", 0): 1}, group=name)
    expire(world)
    assert list(world.timers) == [offset_sweep.SWEEP_KEY]
    world.append_error = ErrorCode.NOT_COORDINATOR
    world.perform(world.shard.unloaded(world.now))
    assert not world.timers


def test_an_empty_group_without_offsets_goes_unless_somebody_is_coming(world: VirtualCoordinator) -> None:
    world.stable(group="busy")
    _, (leader,) = world.stable(group="left")
    world.leave(leader, group="left")
    world.join(group="coming")
    expire(world)
    assert set(world.shard.groups) == {"busy", "coming"}
