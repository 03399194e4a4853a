"""The effect of each response on a member of the consumer protocol."""

from __future__ import annotations

import pytest

from kcli.client.admin.types import Generation
from kcli.client.groups.classic_membership import ErrorAction
from kcli.client.groups.consumer_membership import ConsumerMembership, ConsumerState
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

ORDERS = b"orders".ljust(16)
FIRST = {ORDERS: frozenset({0, 1})}
SECOND = {ORDERS: frozenset({1, 2})}


def answer(epoch: int, target: dict[bytes, frozenset[int]] | None = None) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if target is not None:
        assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in target.items()
            ]
        )
    return ConsumerGroupHeartbeatResponse(member_id="me", member_epoch=epoch, assignment=assignment)


def take(
    member: ConsumerMembership,
    epoch: int,
    target: dict[bytes, frozenset[int]] | None = None,
    *,
    was_stable: bool = False,
) -> None:
    member.answered(answer(epoch, target), member.token, was_stable=was_stable)


def member(state: ConsumerState = ConsumerState.STABLE) -> ConsumerMembership:
    """Return a member that has taken its first assignment in epoch 5."""
    membership = ConsumerMembership("me")
    membership.join()
    if state is not ConsumerState.JOINING:
        take(membership, 5, FIRST)
    if state in (ConsumerState.ACKNOWLEDGING, ConsumerState.STABLE):
        membership.reconciled(FIRST)
    if state is ConsumerState.STABLE:
        membership.sent()
    assert membership.state is state
    return membership


def test_a_member_joins_reconciles_acknowledges_and_is_stable() -> None:
    membership = ConsumerMembership("me")
    assert membership.state is ConsumerState.UNSUBSCRIBED
    assert not membership.sends_heartbeats
    membership.join()
    assert (membership.state, membership.epoch) == (ConsumerState.JOINING, 0)
    assert (membership.sends_heartbeats, membership.is_urgent, membership.is_joining) == (True, True, True)
    assert not membership.can_commit
    membership.sent()
    assert membership.is_joining
    take(membership, 5, FIRST)
    assert (membership.state, membership.epoch, membership.target) == (ConsumerState.RECONCILING, 5, FIRST)
    assert (membership.is_urgent, membership.can_commit) == (False, True)
    assert membership.generation == Generation(5, "me")
    membership.reconciled(FIRST)
    assert (membership.state, membership.is_urgent) == (ConsumerState.ACKNOWLEDGING, True)
    membership.sent()
    assert (membership.state, membership.owned) == (ConsumerState.STABLE, FIRST)


@pytest.mark.parametrize(
    ("state", "target", "following"),
    [
        (ConsumerState.JOINING, None, ConsumerState.STABLE),
        # An empty assignment is one too: the listener is called.
        (ConsumerState.JOINING, {}, ConsumerState.RECONCILING),
        (ConsumerState.JOINING, FIRST, ConsumerState.RECONCILING),
        (ConsumerState.STABLE, None, ConsumerState.STABLE),
        (ConsumerState.STABLE, FIRST, ConsumerState.STABLE),
        (ConsumerState.STABLE, SECOND, ConsumerState.RECONCILING),
        # A reconciliation is finished.
        (ConsumerState.RECONCILING, None, ConsumerState.RECONCILING),
        (ConsumerState.RECONCILING, SECOND, ConsumerState.RECONCILING),
        (ConsumerState.ACKNOWLEDGING, None, ConsumerState.ACKNOWLEDGING),
        (ConsumerState.ACKNOWLEDGING, SECOND, ConsumerState.ACKNOWLEDGING),
    ],
)
def test_answers(
    state: ConsumerState, target: dict[bytes, frozenset[int]] | None, following: ConsumerState
) -> None:
    membership = member(state)
    take(membership, 6, target)
    assert (membership.state, membership.epoch) == (following, 6)


def test_a_target_that_changed_meanwhile_is_reconciled_next() -> None:
    membership = member(ConsumerState.RECONCILING)
    take(membership, 6, SECOND)
    membership.reconciled(FIRST)
    assert membership.state is ConsumerState.ACKNOWLEDGING
    membership.sent()
    assert membership.state is ConsumerState.RECONCILING
    membership.reconciled(SECOND)
    membership.sent()
    assert membership.state is ConsumerState.STABLE


@pytest.mark.parametrize(
    "state",
    [ConsumerState.JOINING, ConsumerState.RECONCILING, ConsumerState.ACKNOWLEDGING, ConsumerState.STABLE],
)
@pytest.mark.parametrize(
    ("number", "action", "following"),
    [
        (110, ErrorAction.IGNORE, ConsumerState.FENCED),
        (25, ErrorAction.IGNORE, ConsumerState.FENCED),
        (14, ErrorAction.RETRY, None),
        (15, ErrorAction.LOOK_UP, None),
        (16, ErrorAction.LOOK_UP, None),
        (7, ErrorAction.RETRY, None),
        *((number, ErrorAction.FATAL, None) for number in (24, 30, 35, 42, 69, 81, 82, 111, 112, 128)),
    ],
)
def test_errors_of_a_heartbeat(
    state: ConsumerState, number: int, action: ErrorAction, following: ConsumerState | None
) -> None:
    membership = member(state)
    token = membership.token
    assert membership.refused(ErrorCode.of(number), token) is action
    assert membership.state is (following or state)
    assert membership.sends_heartbeats is (following is None)
    if following is ConsumerState.FENCED:
        assert (membership.epoch, membership.owned, membership.target) == (0, None, None)
        assert membership.member_id == "me"


@pytest.mark.parametrize(
    ("number", "action", "is_fenced"),
    [
        (3, ErrorAction.RETRY, False),
        (7, ErrorAction.LOOK_UP, False),
        (14, ErrorAction.RETRY, False),
        (15, ErrorAction.LOOK_UP, False),
        (16, ErrorAction.LOOK_UP, False),
        (113, ErrorAction.RETRY, False),
        (110, ErrorAction.FATAL, True),
        (25, ErrorAction.FATAL, True),
        *((number, ErrorAction.FATAL, False) for number in (12, 28, 29, 30, 35, 82)),
    ],
)
def test_errors_of_a_commit(number: int, action: ErrorAction, is_fenced: bool) -> None:
    membership = member()
    assert membership.commit_failed(ErrorCode.of(number), membership.generation) is action
    assert (membership.state is ConsumerState.FENCED) is is_fenced
    # A response to an older epoch changes nothing.
    membership = member()
    assert membership.commit_failed(ErrorCode.of(number), Generation(4, "me")) is action
    assert membership.state is ConsumerState.STABLE


@pytest.mark.parametrize("end", ["leave", "leave stale", "fail", "fenced"])
def test_what_answers_an_earlier_membership_is_no_news(end: str) -> None:
    membership = member()
    token = membership.token
    match end:
        case "leave":
            membership.leave()
        case "leave stale":
            membership.leave(stale=True)
        case "fail":
            membership.fail()
        case _:
            membership.refused(ErrorCode.FENCED_MEMBER_EPOCH, token)
    state = membership.state
    assert not membership.sends_heartbeats
    assert not membership.can_commit
    membership.answered(answer(7, SECOND), token, was_stable=True)
    assert membership.refused(ErrorCode.FENCED_MEMBER_EPOCH, token) is ErrorAction.IGNORE
    assert (membership.state, membership.epoch, membership.target) == (state, 0, None)
    membership.join()
    membership.answered(answer(7, SECOND), token, was_stable=True)
    assert membership.state is ConsumerState.JOINING


def test_it_is_quiet_once_a_plain_heartbeat_brought_nothing_new() -> None:
    membership = member()
    assert not membership.is_quiet
    take(membership, 5)
    assert not membership.is_quiet
    take(membership, 5, was_stable=True)
    assert membership.is_quiet
    take(membership, 6, was_stable=True)
    assert not membership.is_quiet
    take(membership, 6, was_stable=True)
    assert membership.is_quiet
    take(membership, 6, SECOND, was_stable=True)
    assert not membership.is_quiet


def test_an_id_that_the_coordinator_gives_is_taken() -> None:
    membership = ConsumerMembership("")
    membership.join()
    take(membership, 1)
    assert membership.member_id == "me"
    membership.refused(ErrorCode.UNKNOWN_MEMBER_ID, membership.token)
    assert membership.member_id == "me"
