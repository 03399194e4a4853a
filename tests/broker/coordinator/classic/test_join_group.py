"""JoinGroup: ids, the initial delay, limits, and votes."""

from __future__ import annotations

import pytest

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.join_group import JoinGroupResponse
from kcli.protocol.schema.declaration import codec
from tests.broker.coordinator.virtual_coordinator import (
    REBALANCE_MS,
    SESSION_MS,
    VirtualCoordinator,
    subscription,
)


@pytest.fixture
def world() -> VirtualCoordinator:
    return VirtualCoordinator()


# --- new members ---------------------------------------------------------------------------------------


def test_the_first_join_completes_at_once(world: VirtualCoordinator) -> None:
    response = world.join(version=3).response
    assert response.generation_id == 1
    assert response.member_id == response.leader == "c-id1"
    assert (response.protocol_type, response.protocol_name) == ("consumer", "range")
    (member,) = response.members
    assert (member.member_id, member.metadata) == ("c-id1", subscription("t"))


def test_a_new_member_joins_with_the_id_that_it_is_given(world: VirtualCoordinator) -> None:
    told = world.join(version=4)
    assert told.error == ErrorCode.MEMBER_ID_REQUIRED
    assert told.response.member_id == "c-id1"
    assert world.state() == "Empty"
    joined = world.join("c-id1", version=4).response
    assert (joined.error_code, joined.member_id, joined.generation_id) == (0, "c-id1", 1)


def test_an_id_that_is_not_used_is_taken_back(world: VirtualCoordinator) -> None:
    unused = world.join(version=4, session_ms=20_000).response.member_id
    world.advance(19_999)
    assert world.group().pending
    world.advance(1)
    assert not world.group().pending
    assert not world.timers
    assert world.join(unused).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_ids_that_were_given_out(world: VirtualCoordinator) -> None:
    _, (leader,) = world.stable()
    world.join(version=4)
    newcomer = world.join(version=3)
    rejoin = world.join(leader, version=3)
    assert newcomer.is_parked
    assert rejoin.is_parked
    world.advance(SESSION_MS)
    assert newcomer.response.generation_id == rejoin.response.generation_id == 2


def test_leaving_with_an_id_that_was_not_used_ends_the_wait(world: VirtualCoordinator) -> None:
    _, (leader,) = world.stable()
    given = world.join(version=4).response.member_id
    newcomer = world.join(version=3)
    world.join(leader, version=3)
    assert newcomer.is_parked
    assert world.leave(given).response.members[0].error_code == 0
    assert newcomer.error == ErrorCode.NONE
    assert ("session", "g", given) not in world.timers


def test_only_the_leader_hears_of_the_members(world: VirtualCoordinator) -> None:
    _, (leader,) = world.stable()
    follower = world.join(version=3, protocols={"range": subscription("u")})
    leading = world.join(leader, version=3)
    assert [(each.member_id, each.metadata) for each in leading.response.members] == [
        (leader, subscription("t")),
        (follower.response.member_id, subscription("u")),
    ]
    assert follower.response.members == []
    assert follower.response.leader == leader


def test_what_a_member_offers_is_handed_on_untouched(world: VirtualCoordinator) -> None:
    odd = bytes(range(256)) * 3
    assert world.join(version=3, protocols={"range": odd}).response.members[0].metadata == odd


@pytest.mark.parametrize("session_ms", [0, 5_999, 1_800_001])
def test_a_session_timeout_out_of_range_is_refused(world: VirtualCoordinator, session_ms: int) -> None:
    call = world.join(session_ms=session_ms)
    assert call.error == ErrorCode.INVALID_SESSION_TIMEOUT
    assert not world.shard.groups


@pytest.mark.parametrize("refused", [{"protocols": {}}, {"protocol_type": ""}])
def test_who_offers_nothing_founds_no_group(world: VirtualCoordinator, refused: dict[str, object]) -> None:
    assert world.join(version=3, **refused).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # type: ignore[arg-type]
    assert not world.shard.groups


@pytest.mark.parametrize("version", range(10))
def test_every_answer_fits_every_version(world: VirtualCoordinator, version: int) -> None:
    answers = [
        world.join(version=version, session_ms=1),
        world.join("stranger", version=version),
        world.join(world.join(version=version).response.member_id, version=version),
        world.join(version=version, protocol_type="other"),
    ]
    for call in answers:
        encoded = codec(JoinGroupResponse, version).encode(call.response)
        assert codec(JoinGroupResponse, version).decode(encoded)[0].error_code == call.error


def test_version_0_waits_for_a_rebalance_as_long_as_its_session(world: VirtualCoordinator) -> None:
    world.join(version=0, session_ms=7_000, rebalance_ms=-1)
    assert world.group().rebalance_timeout_ms == 7_000


# --- votes ---------------------------------------------------------------------------------------------

RANGE, ROUND, STICKY = ({name: b""} for name in ("range", "round", "sticky"))


@pytest.mark.parametrize(
    ("offers", "chosen"),
    [
        ([RANGE | ROUND], "range"),
        ([RANGE | ROUND, ROUND | RANGE, ROUND | RANGE], "round"),
        ([RANGE | ROUND, ROUND | STICKY], "round"),
        ([RANGE | ROUND | STICKY, STICKY | ROUND, ROUND | STICKY], "round"),
        # A tie: the first member's vote wins.
        ([RANGE | ROUND, ROUND | RANGE], "range"),
    ],
)
def test_the_protocol_is_voted_for_among_those_that_all_offer(
    world: VirtualCoordinator, offers: list[dict[str, bytes]], chosen: str
) -> None:
    members: list[str] = []
    for offer in offers:
        call = world.join(version=3, protocols=offer)
        for member, former in zip(members, offers, strict=False):
            world.join(member, version=3, protocols=former)
        members.append(call.response.member_id)
    assert call.response.protocol_name == chosen


# --- the initial delay ---------------------------------------------------------------------------------


def test_a_new_group_waits_for_company() -> None:
    world = VirtualCoordinator(initial_rebalance_delay_ms=3_000)
    first = world.join(version=3)
    world.advance(2_999)
    second = world.join(version=3)
    assert first.is_parked
    world.advance(2_999)  # the second one has prolonged the delay
    assert first.is_parked
    world.advance(2)
    assert first.response.generation_id == second.response.generation_id == 1
    assert len(first.response.members) == 2


def test_newcomers_prolong_the_delay_up_to_the_rebalance_timeout() -> None:
    world = VirtualCoordinator(initial_rebalance_delay_ms=3_000)
    joins = [world.join(version=3, rebalance_ms=8_000)]
    while joins[0].is_parked:
        world.advance(1_000)
        joins.append(world.join(version=3, rebalance_ms=8_000))
    assert world.now_ms - 1_000_000 == 8_000
    assert len(joins[0].response.members) == 8


def test_a_delay_longer_than_the_rebalance_timeout_is_waited_once() -> None:
    world = VirtualCoordinator(initial_rebalance_delay_ms=3_000)
    first = world.join(version=3, rebalance_ms=1_000)
    world.join(version=3, rebalance_ms=1_000)
    world.advance(3_000)
    assert not first.is_parked


def test_a_group_that_became_empty_waits_again() -> None:
    world = VirtualCoordinator(initial_rebalance_delay_ms=3_000)
    first = world.join(version=3)
    world.advance(3_000)
    world.leave(first.response.member_id)
    assert world.state() == "Empty"
    second = world.join(version=3)
    assert second.is_parked
    world.advance(3_000)
    assert second.response.generation_id == 3


def test_a_member_that_leaves_during_the_delay_leaves_an_empty_group() -> None:
    world = VirtualCoordinator(initial_rebalance_delay_ms=3_000)
    member = world.join(version=9).response.member_id
    join = world.join(member)
    world.leave(member)
    assert join.error == ErrorCode.UNKNOWN_MEMBER_ID
    world.advance(3_000)
    assert world.state() == "Empty"
    assert not world.timers


# --- limits --------------------------------------------------------------------------------------------


def test_a_full_group_turns_away() -> None:
    world = VirtualCoordinator(max_size=2)
    _, (_, follower) = world.stable(2)
    assert world.join(version=3).error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.state() == "Stable"
    told = world.join(version=4)
    assert told.error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.join(follower).error == ErrorCode.NONE


def test_a_group_above_a_lowered_limit_loses_who_joins_last() -> None:
    world = VirtualCoordinator()
    _, members = world.stable(3)
    world.config = VirtualCoordinator(max_size=2).config
    world.restart()
    assert world.state() == "PreparingRebalance"
    joins = [world.join(member, version=3) for member in members]
    assert joins[2].error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [join.response.generation_id for join in joins[:2]] == [
        joins[0].response.generation_id,
        joins[0].response.generation_id,
    ]
    assert set(world.group().members) == set(members[:2])


def test_a_group_without_its_late_member_goes_on_after_the_rebalance_timeout(
    world: VirtualCoordinator,
) -> None:
    _, (leader, follower) = world.stable(2, session_ms=1_000_000)
    join = world.join(leader, session_ms=1_000_000)
    world.advance(REBALANCE_MS - 1)
    assert join.is_parked
    world.advance(1)
    assert [each.member_id for each in join.response.members] == [leader]
    assert world.heartbeat(follower, 4).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_leader_that_does_not_join_is_succeeded(world: VirtualCoordinator) -> None:
    _, (leader, follower) = world.stable(2, session_ms=1_000_000)
    join = world.join(follower, session_ms=1_000_000, protocols={"range": b"other"})
    world.advance(REBALANCE_MS)
    assert join.response.leader == follower
    assert leader not in world.group().members


def test_a_parked_join_that_is_sent_again_is_answered_once_each(world: VirtualCoordinator) -> None:
    _, (leader, follower) = world.stable(2)
    first = world.join(leader)
    again = world.join(leader)
    assert first.error == ErrorCode.REBALANCE_IN_PROGRESS
    assert first.response.member_id == leader
    world.join(follower)
    assert again.error == ErrorCode.NONE


def test_generations_count_up(world: VirtualCoordinator) -> None:
    generation, (leader, follower) = world.stable(2)
    for expected in range(generation + 1, generation + 5):
        joins = [world.join(leader), world.join(follower)]
        assert [join.response.generation_id for join in joins] == [expected, expected]
        assert world.sync(leader, expected).error == ErrorCode.NONE
