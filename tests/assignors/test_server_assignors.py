"""The assignors that run in the broker: everything is read once, evenly, and stays where it was."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from kcli.assignors import server_assignors
from kcli.assignors.server_assignors import Partitions, ServerMember

A, B, C = (letter * 16 for letter in (b"a", b"b", b"c"))
COUNTS = {A: 3, B: 2, C: 4}


def member(*topics: bytes, instance_id: str | None = None, **assigned: set[int]) -> ServerMember:
    """A member; `assigned` is by the letter of the topic."""
    had = {letter.encode() * 16: frozenset(partitions) for letter, partitions in assigned.items()}
    return ServerMember(frozenset(topics), had, instance_id)


def pieces(assignment: dict[str, Partitions]) -> dict[str, str]:
    """Write an assignment shortly: a0 a1 b0."""
    return {
        member_id: " ".join(
            f"{topic_id[:1].decode()}{index}"
            for topic_id in sorted(partitions)
            for index in sorted(partitions[topic_id])
        )
        for member_id, partitions in assignment.items()
    }


RANGE = {
    "one member reads everything": ({"m": member(A, B)}, {"m": "a0 a1 a2 b0 b1"}),
    "the first members get the larger pieces": (
        {"m1": member(A, B), "m2": member(A, B)},
        {"m1": "a0 a1 b0", "m2": "a2 b1"},
    ),
    "static members come first, in the order of their instance ids": (
        {"m1": member(A), "m2": member(A, instance_id="z"), "m3": member(A, instance_id="y")},
        {"m1": "a2", "m2": "a1", "m3": "a0"},
    ),
    "a member without a partition is listed": (
        {"m1": member(B), "m2": member(B), "m3": member(B)},
        {"m1": "b0", "m2": "b1", "m3": ""},
    ),
    "only readers of a topic share it": (
        {"m1": member(A), "m2": member(A, C), "m3": member(C)},
        {"m1": "a0 a1", "m2": "a2 c0 c1", "m3": "c2 c3"},
    ),
    "what members had does not matter": (
        {"m1": member(B, b={1}), "m2": member(B, b={0})},
        {"m1": "b0", "m2": "b1"},
    ),
    "nobody subscribes to anything": ({"m": member()}, {"m": ""}),
    "no members": ({}, {}),
}

UNIFORM = {
    "one member reads everything": ({"m": member(A, B)}, {"m": "a0 a1 a2 b0 b1"}),
    "all topics together are shared": (
        {"m1": member(A, B), "m2": member(A, B)},
        {"m1": "a0 a1 a2", "m2": "b0 b1"},
    ),
    "a newcomer gets what others have too much": (
        {"m1": member(A, B, a={0, 1, 2}), "m2": member(A, B, b={0, 1}), "m0": member(A, B)},
        {"m0": "a2", "m1": "a0 a1", "m2": "b0 b1"},
    ),
    "who had more keeps more": (
        {"m1": member(A, a={0}), "m2": member(A, a={1, 2})},
        {"m1": "a0", "m2": "a1 a2"},
    ),
    "what a member left behind is shared": (
        {"m1": member(A, B, a={0, 1}), "m2": member(A, B, b={0, 1})},
        {"m1": "a0 a1 a2", "m2": "b0 b1"},
    ),
    "a topic that nobody subscribes to any more is dropped": (
        {"m1": member(B, a={0, 1}, b={0}), "m2": member(B, a={2}, b={1})},
        {"m1": "b0", "m2": "b1"},
    ),
    "a partition that does not exist is dropped": (
        {"m1": member(B, b={0, 7})},
        {"m1": "b0 b1"},
    ),
    "of two that had the same partition one keeps it": (
        {"m1": member(B, b={0}), "m2": member(B, b={0})},
        {"m1": "b0", "m2": "b1"},
    ),
    "more members than partitions": (
        {"m1": member(B), "m2": member(B), "m3": member(B, b={0, 1})},
        {"m1": "b1", "m2": "", "m3": "b0"},
    ),
    "different subscriptions: the reader with less choice first": (
        {"m1": member(A), "m2": member(A, C)},
        {"m1": "a0 a1 a2", "m2": "c0 c1 c2 c3"},
    ),
    "different subscriptions: moved until balanced": (
        {"m1": member(A, a={0, 1, 2}), "m2": member(A, B, b={0}), "m3": member(B)},
        {"m1": "a0 a1", "m2": "a2 b0", "m3": "b1"},
    ),
    "different subscriptions: a topic without partitions": (
        {"m1": member(A), "m2": member(A, b"x" * 16)},
        {"m1": "a0 a2", "m2": "a1"},
    ),
    "no members": ({}, {}),
}


@pytest.mark.parametrize(("members", "expected"), RANGE.values(), ids=RANGE)
def test_range(members: dict[str, ServerMember], expected: dict[str, str]) -> None:
    assert pieces(server_assignors.assign_range(COUNTS, members)) == expected


@pytest.mark.parametrize(("members", "expected"), UNIFORM.values(), ids=UNIFORM)
def test_uniform(members: dict[str, ServerMember], expected: dict[str, str]) -> None:
    assert pieces(server_assignors.assign_uniform(COUNTS, members)) == expected


topic_ids = st.sampled_from([bytes([number]) * 16 for number in range(1, 7)])
counts = st.dictionaries(topic_ids, st.integers(1, 12), min_size=1)


@st.composite
def groups(draw: st.DrawFn, *, alike: bool) -> tuple[dict[bytes, int], dict[str, ServerMember]]:
    """Topics and new members of a group, that subscribe to the same topics or to any."""
    topics = draw(counts)
    subsets = st.frozensets(st.sampled_from(sorted(topics)))
    names = draw(st.sets(st.text("abcdef", min_size=1, max_size=3), min_size=1, max_size=8))
    shared = draw(subsets)
    return topics, {name: ServerMember(shared if alike else draw(subsets)) for name in names}


ANY_GROUP = st.one_of(groups(alike=True), groups(alike=False))


def assert_every_partition_has_one_reader(
    topics: dict[bytes, int], members: dict[str, ServerMember], assignment: dict[str, Partitions]
) -> None:
    assert assignment.keys() == members.keys()
    given_out = [
        (topic_id, index)
        for member_id, partitions in assignment.items()
        for topic_id, indexes in partitions.items()
        for index in indexes
        if topic_id in members[member_id].topics
    ]
    wanted = frozenset[bytes]().union(*(entry.topics for entry in members.values()))
    expected = [(topic_id, index) for topic_id in wanted for index in range(topics[topic_id])]
    assert sorted(given_out) == sorted(expected)
    assert all(indexes for partitions in assignment.values() for indexes in partitions.values())


@pytest.mark.parametrize(
    "assign",
    [server_assignors.assign_range, server_assignors.assign_uniform, server_assignors.assign_uniform_mixed],
)
@given(group=ANY_GROUP)
def test_every_subscribed_partition_has_one_reader(assign, group) -> None:
    topics, members = group
    assert_every_partition_has_one_reader(topics, members, assign(topics, members))


def loads(assignment: dict[str, Partitions]) -> dict[str, int]:
    return {
        member_id: sum(len(indexes) for indexes in partitions.values())
        for member_id, partitions in assignment.items()
    }


def after(assignment: dict[str, Partitions], members: dict[str, ServerMember]) -> dict[str, ServerMember]:
    """The members, who now have what they were given."""
    return {
        member_id: ServerMember(entry.topics, assignment.get(member_id, {}))
        for member_id, entry in members.items()
    }


@given(group=groups(alike=True), changes=st.lists(st.tuples(st.booleans(), st.text("xyz", min_size=1))))
def test_uniform_with_equal_subscriptions_balances_within_one_and_moves_no_more_than_it_must(
    group: tuple[dict[bytes, int], dict[str, ServerMember]], changes: list[tuple[bool, str]]
) -> None:
    topics, members = group
    shared = next(iter(members.values())).topics
    assignment: dict[str, Partitions] = {}
    for joins, name in [(True, sorted(members)[0]), *changes]:
        if joins:
            members = {**members, name: ServerMember(shared)}
        elif len(members) > 1:
            members = {other: entry for other, entry in members.items() if other != name}
        members = after(assignment, members)
        new = server_assignors.assign_uniform(topics, members)
        assert_every_partition_has_one_reader(topics, members, new)
        assert max(loads(new).values()) - min(loads(new).values()) <= 1
        for member_id, partitions in new.items():
            old = members[member_id].assigned
            lost = {
                (topic, index) for topic in old for index in old[topic] - partitions.get(topic, frozenset())
            }
            gained = sum(len(indexes - old.get(topic, frozenset())) for topic, indexes in partitions.items())
            assert not (lost and gained), "a member swaps partitions"
        assert server_assignors.assign_uniform(topics, after(new, members)) == new
        assignment = new


@given(group=groups(alike=False))
def test_uniform_with_different_subscriptions_leaves_no_move_that_would_balance(
    group: tuple[dict[bytes, int], dict[str, ServerMember]],
) -> None:
    topics, members = group
    assignment = server_assignors.assign_uniform_mixed(topics, members)
    load = loads(assignment)
    for topic_id in topics:
        readers = [member_id for member_id, entry in members.items() if topic_id in entry.topics]
        owners = [member_id for member_id in readers if topic_id in assignment[member_id]]
        for owner in owners:
            assert load[owner] - min(load[reader] for reader in readers) <= 1


@given(group=ANY_GROUP)
def test_uniform_changes_nothing_when_nothing_changed(group) -> None:
    topics, members = group
    assignment = server_assignors.assign_uniform(topics, members)
    assert server_assignors.assign_uniform(topics, after(assignment, members)) == assignment
