"""The effect of each response on a classic member: joining, syncing, heartbeats, commits."""

from __future__ import annotations

import pytest

from kcli.client.admin.types import Generation
from kcli.client.groups.classic_membership import ClassicMembership, ErrorAction, MemberState
from kcli.protocol.error_codes import ErrorCode

CURRENT = Generation(5, "me", "range")
OLDER = Generation(4, "me", "range")
KEPT = Generation(member_id="me")
NOBODY = Generation()


def member(state: MemberState = MemberState.STABLE) -> ClassicMembership:
    membership = ClassicMembership()
    membership.joining()
    membership.joined(CURRENT)
    membership.needs_prepare = False
    if state is MemberState.STABLE:
        assert membership.synced(CURRENT)
    membership.state = state
    return membership


def code(number: int) -> ErrorCode:
    return ErrorCode.of(number)


def test_a_round_ends_stable() -> None:
    membership = ClassicMembership()
    assert (membership.state, membership.reason, membership.needs_prepare) == (MemberState.UNJOINED, "", True)
    assert membership.joining() == NOBODY
    assert membership.is_joining
    assert not membership.sends_heartbeats
    membership.joined(CURRENT)
    assert membership.sends_heartbeats
    assert membership.synced(CURRENT)
    assert (membership.state, membership.reason) == (MemberState.STABLE, None)


def test_an_assignment_of_a_lost_generation_is_none() -> None:
    membership = member(MemberState.COMPLETING)
    membership.reset("fenced")
    assert not membership.synced(CURRENT)
    assert membership.reason == "fenced"


def test_the_first_reason_to_join_stands() -> None:
    membership = member()
    membership.request_rejoin("one")
    membership.request_rejoin("two")
    assert membership.reason == "one"


@pytest.mark.parametrize(
    ("number", "action", "generation"),
    [
        (14, ErrorAction.RETRY, CURRENT),
        (15, ErrorAction.LOOK_UP, CURRENT),
        (16, ErrorAction.LOOK_UP, CURRENT),
        (22, ErrorAction.REJOIN, KEPT),
        (25, ErrorAction.REJOIN, NOBODY),
        (27, ErrorAction.REJOIN, CURRENT),
        *((number, ErrorAction.FATAL, CURRENT) for number in (23, 24, 26, 30, 35, 81, 82)),
    ],
)
@pytest.mark.parametrize("api", ["join", "sync"])
def test_errors_of_a_round(api: str, number: int, action: ErrorAction, generation: Generation) -> None:
    membership = member(MemberState.PREPARING if api == "join" else MemberState.COMPLETING)
    if api == "join":
        assert membership.join_failed(code(number), CURRENT, "") is action
    else:
        assert membership.sync_failed(code(number), CURRENT) is action
    assert membership.generation == generation
    assert membership.reason is not None
    # The partitions of a lost generation are lost.
    assert membership.needs_prepare is (generation != CURRENT)


def test_the_given_member_id_is_adopted() -> None:
    membership = ClassicMembership()
    membership.needs_prepare = False
    sent = membership.joining()
    assert membership.join_failed(ErrorCode.MEMBER_ID_REQUIRED, sent, "given") is ErrorAction.REJOIN
    assert membership.generation == Generation(member_id="given")
    assert not membership.needs_prepare


@pytest.mark.parametrize(
    ("number", "sent", "action", "state", "generation", "rejoins"),
    [
        (15, CURRENT, ErrorAction.LOOK_UP, MemberState.STABLE, CURRENT, False),
        (16, CURRENT, ErrorAction.LOOK_UP, MemberState.STABLE, CURRENT, False),
        (22, CURRENT, ErrorAction.IGNORE, MemberState.UNJOINED, KEPT, True),
        (25, CURRENT, ErrorAction.IGNORE, MemberState.UNJOINED, NOBODY, True),
        (27, CURRENT, ErrorAction.IGNORE, MemberState.STABLE, CURRENT, True),
        (14, CURRENT, ErrorAction.RETRY, MemberState.STABLE, CURRENT, False),
        (82, CURRENT, ErrorAction.FATAL, MemberState.STABLE, CURRENT, False),
        (30, CURRENT, ErrorAction.FATAL, MemberState.STABLE, CURRENT, False),
        # A response to an older generation changes nothing.
        (22, OLDER, ErrorAction.IGNORE, MemberState.STABLE, CURRENT, False),
        (25, OLDER, ErrorAction.IGNORE, MemberState.STABLE, CURRENT, False),
        (82, OLDER, ErrorAction.IGNORE, MemberState.STABLE, CURRENT, False),
    ],
)
def test_errors_of_a_heartbeat(
    number: int,
    sent: Generation,
    action: ErrorAction,
    state: MemberState,
    generation: Generation,
    rejoins: bool,
) -> None:
    membership = member()
    assert membership.heartbeat_failed(code(number), sent) is action
    assert (membership.state, membership.generation) == (state, generation)
    assert (membership.reason is not None) is rejoins


def test_a_rebalance_is_no_news_to_a_member_that_joins() -> None:
    membership = member(MemberState.COMPLETING)
    membership.reason = None
    assert membership.heartbeat_failed(ErrorCode.REBALANCE_IN_PROGRESS, CURRENT) is ErrorAction.IGNORE
    assert membership.reason is None


@pytest.mark.parametrize(
    ("number", "sent", "action", "generation", "rejoins"),
    [
        (3, CURRENT, ErrorAction.RETRY, CURRENT, False),
        (7, CURRENT, ErrorAction.LOOK_UP, CURRENT, False),
        (14, CURRENT, ErrorAction.RETRY, CURRENT, False),
        (15, CURRENT, ErrorAction.LOOK_UP, CURRENT, False),
        (16, CURRENT, ErrorAction.LOOK_UP, CURRENT, False),
        (22, CURRENT, ErrorAction.FATAL, KEPT, True),
        (25, CURRENT, ErrorAction.FATAL, NOBODY, True),
        (27, CURRENT, ErrorAction.FATAL, CURRENT, True),
        (12, CURRENT, ErrorAction.FATAL, CURRENT, False),
        (28, CURRENT, ErrorAction.FATAL, CURRENT, False),
        (30, CURRENT, ErrorAction.FATAL, CURRENT, False),
        (82, CURRENT, ErrorAction.FATAL, CURRENT, False),
        (22, OLDER, ErrorAction.FATAL, CURRENT, False),
    ],
)
def test_errors_of_a_commit(
    number: int, sent: Generation, action: ErrorAction, generation: Generation, rejoins: bool
) -> None:
    membership = member()
    assert membership.commit_failed(code(number), sent) is action
    assert membership.generation == generation
    assert (membership.reason is not None) is rejoins
