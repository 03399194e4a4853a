"""One step of a member towards its target, as a table."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kcli.broker.coordinator.consumer.member import ConsumerMember, MemberState, Reconciliation
from kcli.protocol.error_codes import ErrorCode, KafkaError

T, U = b"t" * 16, b"u" * 16
STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)
EVERYTHING = (T, U)


def member(
    epoch: int, state: MemberState, has: dict[bytes, dict[int, int]], **fields: object
) -> ConsumerMember:
    return ConsumerMember("m", epoch=epoch, previous_epoch=epoch, state=state, assigned=has, **fields)  # type: ignore[arg-type]


@dataclass
class Case:
    """A member in `epoch` and `state`, and its expected next state.

    `has` and `revoking` are partitions of T with their epochs, `target` and `taken` partitions of T.
    """

    epoch: int
    state: MemberState
    has: dict[int, int]
    target: set[int]
    becomes: tuple[int, MemberState, dict[int, int]]
    """Epoch, state and partitions with their epochs."""
    revoking: dict[int, int] | None = None
    taken: tuple[int, ...] = ()
    owned: set[int] | None = None
    gives_up: dict[int, int] | None = None
    """What it has to give up afterwards."""
    target_epoch: int = 5
    subscribed: tuple[bytes, ...] = EVERYTHING
    subscription_changed: bool = False


CASES = {
    "stable, and there is no newer target": Case(5, STABLE, {0: 3}, {0, 1}, (5, STABLE, {0: 3})),
    "a new epoch with the same target": Case(4, STABLE, {0: 3}, {0}, (5, STABLE, {0: 3})),
    "free partitions are given, in the epoch of the target": Case(
        4, STABLE, {0: 3}, {0, 1}, (5, STABLE, {0: 3, 1: 5})
    ),
    "a new member that gets nothing has the epoch": Case(0, STABLE, {}, set(), (5, STABLE, {})),
    "it waits for partitions that are taken": Case(
        4, STABLE, {0: 3}, {0, 1}, (5, UNRELEASED, {0: 3}), taken=(1,)
    ),
    "what is free is given while it waits for the rest": Case(
        4, STABLE, {}, {0, 1}, (5, UNRELEASED, {0: 5}), taken=(1,)
    ),
    "what is to go keeps it in its epoch": Case(
        4, STABLE, {0: 3, 1: 3}, {0, 2}, (4, UNREVOKED, {0: 3}), gives_up={1: 3}
    ),
    "who says at once that it has nothing goes on at once": Case(
        4, STABLE, {0: 3, 1: 3}, {0, 2}, (5, STABLE, {0: 3, 2: 5}), owned={0}
    ),
    "unrevoked, and does not say what it has": Case(
        4, UNREVOKED, {0: 3}, {0, 2}, (4, UNREVOKED, {0: 3}), revoking={1: 3}, gives_up={1: 3}
    ),
    "unrevoked, and still has it": Case(
        4, UNREVOKED, {0: 3}, {0, 2}, (4, UNREVOKED, {0: 3}), revoking={1: 3}, gives_up={1: 3}, owned={0, 1}
    ),
    "unrevoked, and has given it up": Case(
        4, UNREVOKED, {0: 3}, {0, 2}, (5, STABLE, {0: 3, 2: 5}), revoking={1: 3}, owned={0}
    ),
    "unrevoked, and has to give up more by now": Case(
        4,
        UNREVOKED,
        {0: 3, 2: 3},
        {0},
        (4, UNREVOKED, {0: 3}),
        revoking={1: 3},
        gives_up={2: 3},
        owned={0, 2},
    ),
    "unrevoked, and what it gave up is to come back": Case(
        4, UNREVOKED, {0: 3}, {0, 1}, (5, STABLE, {0: 3, 1: 5}), revoking={1: 3}, owned={0}, taken=(0, 1)
    ),
    "unreleased, and it is still taken": Case(
        5, UNRELEASED, {0: 3}, {0, 1}, (5, UNRELEASED, {0: 3}), taken=(0, 1)
    ),
    "unreleased, and it is free now": Case(
        5, UNRELEASED, {0: 3}, {0, 1}, (5, STABLE, {0: 3, 1: 5}), taken=(0,)
    ),
    "unreleased, and there is another target": Case(
        4, UNRELEASED, {0: 3}, {1}, (4, UNREVOKED, {}), gives_up={0: 3}, taken=(0, 1)
    ),
    "nothing of a topic that it does not want any more is given": Case(
        4, STABLE, {0: 3}, {0, 1}, (4, UNREVOKED, {}), gives_up={0: 3}, subscribed=(U,)
    ),
    "its wishes shrink before there is a target without them": Case(
        5, STABLE, {0: 3}, {0}, (5, UNREVOKED, {}), gives_up={0: 3}, subscribed=(), subscription_changed=True
    ),
    "its wishes shrink, and it has let go already": Case(
        5, STABLE, {0: 3}, {0}, (5, STABLE, {}), owned=set(), subscribed=(), subscription_changed=True
    ),
    "its wishes shrink while it gives up something else": Case(
        4,
        UNREVOKED,
        {0: 3},
        {0},
        (4, UNREVOKED, {}),
        revoking={1: 2},
        gives_up={0: 3, 1: 2},
        owned={0, 1},
        subscribed=(),
        subscription_changed=True,
    ),
    "its wishes change and nothing is too much": Case(
        5, STABLE, {0: 3}, {0}, (5, STABLE, {0: 3}), subscription_changed=True
    ),
    "an unknown state, and it has nothing": Case(
        4, MemberState.UNKNOWN, {0: 3}, {0, 1}, (5, STABLE, {0: 3, 1: 5}), owned=set()
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_member_makes_one_step(case: Case) -> None:
    revoking = {T: case.revoking} if case.revoking else {}
    before = member(case.epoch, case.state, {T: case.has} if case.has else {}, revoking=revoking)
    reconciliation = Reconciliation(
        target_epoch=case.target_epoch,
        target={T: frozenset(case.target)},
        owned=None if case.owned is None else {T: case.owned},
        subscribed=case.subscribed,
        is_owned=lambda topic_id, partition: topic_id == T and partition in case.taken,
    )
    after = reconciliation.step(before, subscription_changed=case.subscription_changed)
    assert (after.epoch, after.state, after.assigned.get(T, {})) == case.becomes
    assert after.revoking.get(T, {}) == (case.gives_up or {})
    assert after is before or after.previous_epoch == before.epoch


@pytest.mark.parametrize("owned", [None, {T: {0}}])
def test_a_member_in_an_unknown_state_that_has_something_must_start_again(
    owned: dict[bytes, set[int]] | None,
) -> None:
    reconciliation = Reconciliation(
        5, {T: frozenset({0})}, owned, EVERYTHING, lambda topic_id, partition: False
    )
    with pytest.raises(KafkaError) as caught:
        reconciliation.step(member(4, MemberState.UNKNOWN, {T: {0: 3}}))
    assert caught.value.code is ErrorCode.FENCED_MEMBER_EPOCH
