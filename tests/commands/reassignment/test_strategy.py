"""Strategies: the invariants of every plan, and what a plan must not move."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.assignors.replica_placer import Candidate
from kcli.commands.reassignment.plan import Assignment
from kcli.commands.reassignment.strategy import Goal, minimal, spread
from kcli.errors import KcliError
from kcli.protocol.topics import TopicPartition


def topic(*rows: str, name: str = "t") -> Assignment:
    """A topic whose partitions have these brokers, one digit each."""
    return {TopicPartition(name, index): tuple(map(int, row)) for index, row in enumerate(rows)}


def goal_for(
    current: Assignment,
    brokers: str,
    *,
    factor: int | None = None,
    leaving: str = "",
    level: bool = False,
    racks: str = "",
) -> Goal:
    """A goal for all partitions, with their current factors unless one is given."""
    rack_of = dict(zip(brokers, racks, strict=True)) if racks else {}
    factors = {partition: factor or len(replicas) for partition, replicas in current.items()}
    return Goal(
        [Candidate(int(broker), rack_of.get(broker)) for broker in brokers],
        factors,
        frozenset(map(int, leaving)),
        is_level=level,
    )


def shown(planned: Assignment) -> dict[int, str]:
    """The planned brokers of each partition, as digits."""
    return {partition.partition: "".join(map(str, brokers)) for partition, brokers in planned.items()}


@pytest.mark.parametrize(
    ("current", "goal", "planned"),
    [
        pytest.param(
            ("123", "231", "312"), {"brokers": "123", "level": True}, {}, id="what is level stays as it is"
        ),
        pytest.param(
            ("123", "231", "412"),
            {"brokers": "123", "leaving": "4"},
            {2: "312"},
            id="only what leaves is replaced, and the broker that leads least leads",
        ),
        pytest.param(
            ("12", "12", "12", "12"),
            {"brokers": "123", "level": True},
            {0: "31", 1: "23"},
            id="a new broker gets its share, and leads as many",
        ),
        pytest.param(
            ("1", "1", "1"),
            {"brokers": "123", "factor": 2},
            {0: "21", 1: "31", 2: "12"},
            id="added replicas go where least is, and leaders are levelled",
        ),
        pytest.param(
            ("123", "213", "312"),
            {"brokers": "123", "factor": 1},
            {0: "1", 1: "2", 2: "3"},
            id="the leader stays when there are too many",
        ),
        pytest.param(
            ("12", "341"),
            {"brokers": "123", "leaving": "4"},
            {1: "312"},
            id="partitions of one topic keep their different numbers of replicas",
        ),
        pytest.param(
            ("12",),
            {"brokers": "1234", "level": True, "racks": "aabb"},
            {0: "13"},
            id="a second replica in one rack moves to a rack without any",
        ),
        pytest.param(
            ("12",), {"brokers": "134", "leaving": "2", "racks": "aab"}, {0: "14"}, id="racks go first"
        ),
        pytest.param(
            ("123",),
            {"brokers": "124", "leaving": ""},
            {},
            id="a broker that is only down keeps what it has",
        ),
        pytest.param(
            ("12", "13", "12"),
            {"brokers": "123", "level": True},
            {0: "23", 1: "31"},
            id="one move and one change of the order make brokers and leaders level",
        ),
    ],
)
def test_a_minimal_plan(current: tuple[str, ...], goal: dict[str, object], planned: dict[int, str]) -> None:
    assignment = topic(*current)
    assert shown(minimal(assignment, goal_for(assignment, **goal))) == planned  # type: ignore[arg-type]


def test_topics_of_one_partition_are_levelled_together() -> None:
    current = {TopicPartition(f"t{index}", 0): (1 + index % 2,) for index in range(9)}
    planned = {**current, **minimal(current, goal_for(current, "123", level=True))}
    assert sorted(Counter(brokers[0] for brokers in planned.values()).values()) == [3, 3, 3]
    assert sum(planned[each] != current[each] for each in current) == 3


def test_a_spread_keeps_the_number_of_partitions_and_of_replicas() -> None:
    current = {**topic(*["987"] * 10), **topic("9", name="b")}
    proposed = spread(current, goal_for(current, "01234"), start_index=2, shift=1)
    digits = " ".join("".join(map(str, proposed[TopicPartition("t", index)])) for index in range(10))
    assert digits == "240 301 412 023 134 201 312 423 034 140"
    assert proposed[TopicPartition("b", 0)] == (2,)


@pytest.mark.parametrize(
    ("goal", "complaint"),
    [
        (
            Goal([Candidate(1)], {TopicPartition("foo", 0): 1, TopicPartition("foo", 1): 2}),
            "topic `foo` needs 2 brokers for its replicas, but there is 1: 1",
        ),
        (
            Goal([], {TopicPartition("foo", 0): 1}),
            "topic `foo` needs 1 broker for its replicas, but none is left",
        ),
        (
            Goal([Candidate(1, "a"), Candidate(2)], {TopicPartition("foo", 0): 2}),
            "not all brokers have a rack: 2",
        ),
    ],
)
def test_a_goal_that_cannot_be_reached(goal: Goal, complaint: str) -> None:
    with pytest.raises(KcliError) as refused:
        goal.check()
    assert refused.value.message == complaint


@st.composite
def situations(draw: st.DrawFn) -> tuple[Assignment, Goal]:
    """Topics on up to nine brokers, some of which leave, with racks or without."""
    brokers = list(range(1, draw(st.integers(2, 9)) + 1))
    leaving = frozenset(draw(st.sets(st.sampled_from(brokers), max_size=len(brokers) - 1)))
    racks = draw(st.sampled_from([1, 2, 3])) if draw(st.booleans()) else None
    candidates = [
        Candidate(broker, None if racks is None else f"rack-{broker % racks}")
        for broker in brokers
        if broker not in leaving
    ]
    current: dict[TopicPartition, tuple[int, ...]] = {}
    factors: dict[TopicPartition, int] = {}
    for name in "abc"[: draw(st.integers(1, 3))]:
        width = draw(st.integers(1, len(brokers)))
        for index in range(draw(st.integers(1, 8))):
            partition = TopicPartition(name, index)
            current[partition] = tuple(draw(st.permutations(brokers))[:width])
            factors[partition] = draw(st.integers(1, len(candidates)))
    return current, Goal(candidates, factors, leaving, is_level=draw(st.booleans()))


@given(situations())
def test_every_minimal_plan_reaches_its_goal_and_keeps_what_may_stay(
    situation: tuple[Assignment, Goal],
) -> None:
    current, goal = situation
    planned = {**current, **minimal(current, goal)}
    allowed = {candidate.node_id for candidate in goal.candidates}
    for partition, brokers in planned.items():
        assert len(brokers) == len(set(brokers)) == goal.factors[partition]
        assert set(brokers) <= allowed
        staying = set(current[partition]) - goal.leaving
        if not goal.is_level:
            assert len(staying & set(brokers)) == min(len(staying), len(brokers)), "moved without need"
    if goal.is_level and goal.candidates[0].rack is None:
        held = Counter(broker for brokers in planned.values() for broker in brokers)
        counts = [held[broker] for broker in allowed]
        assert max(counts) - min(counts) <= 1


@given(situations())
def test_a_level_plan_puts_replicas_into_as_many_racks_as_there_are(
    situation: tuple[Assignment, Goal],
) -> None:
    current, goal = situation
    level = Goal(goal.candidates, goal.factors, goal.leaving, is_level=True)
    racks = {candidate.node_id: candidate.rack for candidate in goal.candidates}
    for partition, brokers in {**current, **minimal(current, level)}.items():
        if None not in racks.values():
            used = {racks[broker] for broker in brokers}
            assert len(used) == min(goal.factors[partition], len(set(racks.values())))


@given(situations())
def test_a_level_plan_is_level_already(situation: tuple[Assignment, Goal]) -> None:
    current, goal = situation
    level = Goal(goal.candidates, goal.factors, goal.leaving, is_level=True)
    planned = {**current, **minimal(current, level)}
    assert minimal(planned, level) == {}
