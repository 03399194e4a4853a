"""What each assignor gives to whom: the published examples, and the properties that always hold."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.assignors import sticky
from kcli.assignors.members import Assignment, MemberSubscription
from kcli.assignors.sticky import PreviousAssignment
from kcli.assignors.strategies import STRATEGIES, Strategy, find_strategies
from kcli.errors import UsageError
from kcli.protocol.topics import TopicPartition

RANGE, ROUNDROBIN, STICKY, COOPERATIVE = STRATEGIES


def shown(assignment: Assignment) -> dict[str, str]:
    """Return an assignment as text: `t0-0,1 t1-2`."""
    lines = {}
    for member_id, partitions in assignment.items():
        topics: dict[str, list[int]] = {}
        for topic, index in sorted(partitions):
            topics.setdefault(topic, []).append(index)
        lines[member_id] = " ".join(f"{topic}-{','.join(map(str, each))}" for topic, each in topics.items())
    return lines


def members(**topics: str) -> dict[str, MemberSubscription]:
    """Return members by name, each with its topics separated by blanks."""
    return {name: MemberSubscription(frozenset(each.split())) for name, each in topics.items()}


TWO = members(C0="t0 t1", C1="t0 t1")
THREE = members(C0="t0 t1", C1="t0 t1", C2="t0 t1")
UNEQUAL = members(C0="t0", C1="t0 t1", C2="t0 t1 t2")
NUMBERED = {f"consumer-{number}": MemberSubscription(frozenset({"t0"})) for number in (1, 2, 10)}
STATIC = {
    "a": MemberSubscription(frozenset({"t0"})),
    "b": MemberSubscription(frozenset({"t0"}), instance_id="second"),
    "c": MemberSubscription(frozenset({"t0"}), instance_id="first"),
}


@pytest.mark.parametrize(
    ("strategy", "counts", "group", "expected"),
    [
        (RANGE, {"t0": 3, "t1": 3}, TWO, {"C0": "t0-0,1 t1-0,1", "C1": "t0-2 t1-2"}),
        (ROUNDROBIN, {"t0": 3, "t1": 3}, TWO, {"C0": "t0-0,2 t1-1", "C1": "t0-1 t1-0,2"}),
        (RANGE, {"t0": 1, "t1": 2, "t2": 3}, UNEQUAL, {"C0": "t0-0", "C1": "t1-0", "C2": "t1-1 t2-0,1,2"}),
        (
            ROUNDROBIN,
            {"t0": 1, "t1": 2, "t2": 3},
            UNEQUAL,
            {"C0": "t0-0", "C1": "t1-0", "C2": "t1-1 t2-0,1,2"},
        ),
        (
            STICKY,
            {"t0": 1, "t1": 2, "t2": 3},
            UNEQUAL,
            {"C0": "t0-0", "C1": "t1-0,1", "C2": "t2-0,1,2"},
        ),
        (
            RANGE,
            {"t0": 7, "t1": 2},
            THREE,
            {"C0": "t0-0,1,2 t1-0", "C1": "t0-3,4 t1-1", "C2": "t0-5,6"},
        ),
        (
            ROUNDROBIN,
            {"t0": 7, "t1": 2},
            THREE,
            {"C0": "t0-0,3,6", "C1": "t0-1,4 t1-0", "C2": "t0-2,5 t1-1"},
        ),
        (STICKY, {"t0": 7, "t1": 2}, THREE, {"C0": "t0-0,3,6", "C1": "t0-1,4 t1-0", "C2": "t0-2,5 t1-1"}),
        # Ids are compared as text, whatever order they come in.
        (
            RANGE,
            {"t0": 10},
            NUMBERED,
            {"consumer-1": "t0-0,1,2,3", "consumer-10": "t0-4,5,6", "consumer-2": "t0-7,8,9"},
        ),
        (RANGE, {"t0": 4}, STATIC, {"c": "t0-0,1", "b": "t0-2", "a": "t0-3"}),
        (ROUNDROBIN, {"t0": 4}, STATIC, {"c": "t0-0,3", "b": "t0-1", "a": "t0-2"}),
        # A topic that is not there, or has no partitions yet, is left out.
        (RANGE, {"t0": 0}, TWO, {"C0": "", "C1": ""}),
        (COOPERATIVE, {"t1": 1}, TWO, {"C0": "t1-0", "C1": ""}),
    ],
)
def test_published_assignments(
    strategy: Strategy,
    counts: dict[str, int],
    group: dict[str, MemberSubscription],
    expected: dict[str, str],
) -> None:
    assert shown(strategy.assign(counts, group)) == expected
    assert shown(strategy.assign(counts, dict(reversed(group.items())))) == expected


def owning(topics: str, owned: str, generation: int = 1) -> MemberSubscription:
    """Return a member that says it owns `t0-0,1` in a generation, to either sticky assignor."""
    partitions = [
        (topic, int(index))
        for topic, _, indexes in (word.rpartition("-") for word in owned.split())
        for index in indexes.split(",")
    ]
    return MemberSubscription(
        frozenset(topics.split()),
        tuple(partitions),
        generation,
        user_data=sticky.user_data(partitions, generation),
    )


@pytest.mark.parametrize("strategy", [STICKY, COOPERATIVE])
@pytest.mark.parametrize(
    ("counts", "group", "expected"),
    [
        # The larger shares stay with those who have them.
        ({"t0": 5}, [("t0", "t0-0,4", 1), ("t0", "t0-1,2,3", 1)], ["t0-0,4", "t0-1,2,3"]),
        # Who left behind something: the rest keep what they have.
        ({"t0": 6}, [("t0", "t0-0,1", 1), ("t0", "t0-4,5", 1)], ["t0-0,1,2", "t0-3,4,5"]),
        # The newest generation is believed, however the members are named.
        ({"t0": 4}, [("t0", "t0-0,1", 2), ("t0", "t0-0,1,2,3", 1)], ["t0-0,1", "t0-2,3"]),
        # A claim that nobody disputes counts, however old it is.
        ({"t0": 2}, [("t0", "t0-1", 1), ("t0", "", 7)], ["t0-1", "t0-0"]),
        # What is gone, or not wanted any more, is no claim.
        ({"t0": 2}, [("t0", "t0-0,9 t7-1", 1), ("t0", "t0-1", 1)], ["t0-0", "t0-1"]),
    ],
)
def test_what_is_owned_stays(
    strategy: Strategy,
    counts: dict[str, int],
    group: list[tuple[str, str, int]],
    expected: list[str],
) -> None:
    described = {f"C{number}": owning(*member) for number, member in enumerate(group)}
    assert list(shown(strategy.assign(counts, described)).values()) == expected


def test_who_reads_what_nobody_else_may_gives_the_rest_away() -> None:
    group = {"C0": owning("t0", "t0-0"), "C1": owning("t0 t1", "t0-1 t1-0,1")}
    assert shown(STICKY.assign({"t0": 2, "t1": 3}, group)) == {"C0": "t0-0,1", "C1": "t1-0,1,2"}
    assert shown(COOPERATIVE.assign({"t0": 2, "t1": 3}, group)) == {"C0": "t0-0", "C1": "t1-0,1,2"}


def test_a_partition_changes_hands_in_two_steps() -> None:
    counts = {"t0": 3}
    first = {"C0": owning("t0", "t0-0,1,2"), "C1": owning("t0", "", -1)}
    assert shown(COOPERATIVE.assign(counts, first)) == {"C0": "t0-0,1", "C1": ""}
    second = {"C0": owning("t0", "t0-0,1", 2), "C1": owning("t0", "", 2)}
    assert shown(COOPERATIVE.assign(counts, second)) == {"C0": "t0-0,1", "C1": "t0-2"}


def test_what_two_members_claim_in_one_generation_is_given_to_neither_at_once() -> None:
    counts = {"t0": 2}
    first = {"C0": owning("t0", "t0-0,1"), "C1": owning("t0", "t0-1")}
    assert shown(COOPERATIVE.assign(counts, first)) == {"C0": "t0-0", "C1": ""}
    # The eager protocol has made everybody give up everything before.
    assert shown(STICKY.assign(counts, first)) == {"C0": "t0-0", "C1": "t0-1"}


def test_a_generation_in_user_data_counts_where_the_subscription_has_no_field_for_it() -> None:
    older = MemberSubscription(frozenset({"t0"}), (("t0", 0),), user_data=struct.pack(">i", 4))
    newer = MemberSubscription(frozenset({"t0"}), (("t0", 0),), user_data=struct.pack(">i", 5))
    garbage = MemberSubscription(frozenset({"t0"}), (("t0", 0),), user_data=b"\x01")
    assert shown(COOPERATIVE.assign({"t0": 1}, {"C0": older, "C1": newer, "C2": garbage})) == {
        "C0": "",
        "C1": "t0-0",
        "C2": "",
    }


# --- user data -------------------------------------------------------------------------------------


def test_user_data_is_that_of_the_java_classes() -> None:
    assert STICKY.user_data(None, -1) is None
    assert STICKY.user_data([("t0", 0), ("t1", 5), ("t0", 2)], 7) == bytes.fromhex(
        "00000002 0002 7430 00000002 00000000 00000002 0002 7431 00000001 00000005 00000007"
    )
    assert COOPERATIVE.user_data([("t0", 0)], 7) == bytes.fromhex("00000007")
    assert COOPERATIVE.user_data(None, -1) == bytes.fromhex("ffffffff")
    assert RANGE.user_data([("t0", 0)], 7) is None


@pytest.mark.parametrize(
    ("data", "claim"),
    [
        (None, PreviousAssignment((), -1)),
        (b"", PreviousAssignment((), -1)),
        (bytes.fromhex("00000001 0002 7430 00000001 00000003"), PreviousAssignment([("t0", 3)], -1)),
        (bytes.fromhex("00000001 0002 7430 00000001 00000003 00000009"), PreviousAssignment([("t0", 3)], 9)),
        (bytes.fromhex("00000001 0002 7430 7fffffff 00000003"), PreviousAssignment((), -1)),
        (bytes.fromhex("00000001 0009 7430"), PreviousAssignment((), -1)),
        (bytes.fromhex("00000001 0002 fffe 00000000"), PreviousAssignment((), -1)),
        (bytes.fromhex("00000001 ffff 00000000"), PreviousAssignment((), -1)),
        (bytes.fromhex("7fffffff"), PreviousAssignment((), -1)),
    ],
)
def test_user_data_of_every_age_is_read_and_damage_is_nothing(
    data: bytes | None, claim: PreviousAssignment
) -> None:
    assert sticky.decode_user_data(data) == claim


@given(st.binary(max_size=60))
def test_no_user_data_stops_an_assignment(data: bytes) -> None:
    group = {
        "C0": MemberSubscription(frozenset({"t0"}), user_data=data),
        "C1": MemberSubscription(frozenset({"t0"})),
    }
    for strategy in STRATEGIES:
        assert sum(map(len, strategy.assign({"t0": 3}, group).values())) == 3


# --- properties ------------------------------------------------------------------------------------

TOPICS = ("t0", "t1", "t2", "t3")
Group = tuple[dict[str, int], dict[str, frozenset[str]]]
counts_of_topics = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 7))
some_topics = st.frozensets(st.sampled_from(TOPICS))
member_ids = st.integers(1, 6).map(lambda size: [f"consumer-{number}" for number in range(size)])


@st.composite
def groups(draw: st.DrawFn, *, equal: bool | None = None) -> Group:
    """Topics with their counts, and what each member wants; all the same if `equal`."""
    ids = draw(member_ids)
    wanted = draw(some_topics)
    alike = draw(st.booleans()) if equal is None else equal
    return draw(counts_of_topics), {one: wanted if alike else draw(some_topics) for one in ids}


def plain(wanted: Mapping[str, frozenset[str]]) -> dict[str, MemberSubscription]:
    return {member_id: MemberSubscription(topics) for member_id, topics in wanted.items()}


def assert_whole(group: Group, assignment: Assignment) -> None:
    """Every partition that somebody wants is given once, to somebody who wants it."""
    counts, wanted = group
    assert set(assignment) == set(wanted)
    given_away = [partition for partitions in assignment.values() for partition in partitions]
    every = {(t, index) for t in frozenset().union(*wanted.values()) for index in range(counts.get(t, 0))}
    assert len(given_away) == len(set(given_away))
    assert set(given_away) == every
    for member_id, partitions in assignment.items():
        assert {topic for topic, _ in partitions} <= wanted[member_id]


def assert_balanced(group: Group, assignment: Assignment) -> None:
    """Nobody could take from another one who has two more."""
    _, wanted = group
    for member_id, topics in wanted.items():
        for other, partitions in assignment.items():
            if any(topic in topics for topic, _ in partitions):
                assert len(partitions) <= len(assignment[member_id]) + 1, (member_id, other)


@given(groups(), st.sampled_from(STRATEGIES))
def test_every_wanted_partition_is_given_once(group: Group, strategy: Strategy) -> None:
    assert_whole(group, strategy.assign(group[0], plain(group[1])))


@given(groups(equal=True))
def test_roundrobin_is_even_among_equals(group: Group) -> None:
    sizes = [len(partitions) for partitions in ROUNDROBIN.assign(group[0], plain(group[1])).values()]
    assert max(sizes) - min(sizes) <= 1


@given(groups())
def test_range_is_even_in_every_topic(group: Group) -> None:
    counts, wanted = group
    assignment = RANGE.assign(counts, plain(wanted))
    for topic in counts:
        shares = [
            [index for name, index in assignment[member_id] if name == topic]
            for member_id in sorted(wanted)
            if topic in wanted[member_id]
        ]
        assert [index for share in shares for index in share] == (
            list(range(counts[topic])) if shares else []
        )
        assert sorted(map(len, shares), reverse=True) == list(map(len, shares))
        assert not shares or len(shares[0]) - len(shares[-1]) <= 1


def with_memory(
    wanted: Mapping[str, frozenset[str]], owned: Mapping[str, list[TopicPartition]], generation: int = 3
) -> dict[str, MemberSubscription]:
    return {
        member_id: MemberSubscription(
            topics,
            tuple(owned.get(member_id, ())),
            generation,
            user_data=sticky.user_data(owned.get(member_id, ()), generation),
        )
        for member_id, topics in wanted.items()
    }


@given(groups(), groups())
def test_sticky_is_balanced_whatever_was_before_and_then_stays(before: Group, after: Group) -> None:
    owned = STICKY.assign(before[0], plain(before[1]))
    assignment = STICKY.assign(after[0], with_memory(after[1], owned))
    assert_whole(after, assignment)
    assert_balanced(after, assignment)
    again = STICKY.assign(after[0], with_memory(after[1], assignment, 4))
    assert {one: set(each) for one, each in again.items()} == {
        one: set(each) for one, each in assignment.items()
    }


@given(groups(equal=True), groups(equal=True))
def test_sticky_moves_no_more_than_balance_asks_for(before: Group, after: Group) -> None:
    counts, wanted = after
    owned = STICKY.assign(before[0], plain(before[1]))
    assignment = STICKY.assign(counts, with_memory(wanted, owned))
    kept = sum(len(set(each) & set(owned.get(one, ()))) for one, each in assignment.items())
    valid = {
        one: len([p for p in owned.get(one, ()) if p[0] in wanted[one] and p[1] < counts.get(p[0], 0)])
        for one in wanted
    }
    share, larger = divmod(sum(map(len, assignment.values())), len(wanted))
    above = sum(size > share for size in valid.values())
    assert kept == sum(min(size, share) for size in valid.values()) + min(above, larger)


claims = st.dictionaries(
    st.sampled_from([f"consumer-{number}" for number in range(6)]),
    st.tuples(
        st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(0, 7)), max_size=8), st.integers(-1, 3)
    ),
)


@given(groups(), claims)
def test_cooperative_never_gives_away_what_somebody_owns(
    group: Group, claimed: dict[str, tuple[list[TopicPartition], int]]
) -> None:
    counts, wanted = group
    described = {
        one: MemberSubscription(topics, tuple(claimed.get(one, ((), 0))[0]), claimed.get(one, ((), -1))[1])
        for one, topics in wanted.items()
    }
    assignment = sticky.assign_cooperatively(counts, described)
    for member_id, partitions in assignment.items():
        for partition in partitions:
            rivals = [one for one in described if one != member_id and partition in described[one].owned]
            assert not rivals or partition in described[member_id].owned


@given(groups(), groups())
def test_cooperative_settles_in_two_steps(before: Group, after: Group) -> None:
    owned = COOPERATIVE.assign(before[0], plain(before[1]))
    # Members that dropped a topic give its partitions up before they join.
    owned = {
        one: [partition for partition in each if partition[0] in after[1].get(one, ())]
        for one, each in owned.items()
    }
    first = COOPERATIVE.assign(after[0], with_memory(after[1], owned))
    second = COOPERATIVE.assign(after[0], with_memory(after[1], first, 4))
    assert_whole(after, second)
    assert_balanced(after, second)
    for member_id, partitions in first.items():
        assert set(partitions) <= set(second[member_id])
    third = COOPERATIVE.assign(after[0], with_memory(after[1], second, 5))
    assert {one: set(each) for one, each in third.items()} == {one: set(each) for one, each in second.items()}


# --- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("range", ["range"]),
        ("org.apache.kafka.clients.consumer.RangeAssignor, CooperativeStickyAssignor",
         ["range", "cooperative-sticky"]),
        ("sticky,roundrobin", ["sticky", "roundrobin"]),
    ],
)  # fmt: skip
def test_names_are_short_or_those_of_java_classes(names: str, expected: list[str]) -> None:
    assert [strategy.name for strategy in find_strategies(names)] == expected


@pytest.mark.parametrize("names", ["", " , ", "ranges", "range,RangeAssignor", "com.acme.RangeAssignor"])
def test_other_names_are_refused(names: str) -> None:
    with pytest.raises(UsageError):
        find_strategies(names)
