"""Placement: the published examples, and what holds for every one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.assignors.replica_placer import Candidate, growth_start, place_replicas


def without_racks(*node_ids: int) -> list[Candidate]:
    return [Candidate(node_id) for node_id in node_ids]


def with_racks(**racks: list[int]) -> list[Candidate]:
    return [Candidate(node_id, rack) for rack, node_ids in racks.items() for node_id in node_ids]


FIVE = without_racks(0, 1, 2, 3, 4)
UNEVEN = with_racks(rack1=[0, 1], rack2=[2, 3], rack3=[4])
SIX = with_racks(rack1=[0, 5], rack3=[1, 2], rack2=[3, 4])
NINE = with_racks(a=[0, 1, 2], b=[3, 4, 5], c=[6, 7, 8])


def digits(replicas: list[tuple[int, ...]]) -> str:
    return " ".join("".join(map(str, each)) for each in replicas)


@pytest.mark.parametrize(
    ("candidates", "start", "shift", "expected"),
    [
        (FIVE, 2, 1, "240 301 412 023 134 201 312 423 034 140"),
        (FIVE, 0, 0, "012 123 234 340 401 023 134 240 301 412"),
        (FIVE, 2, 3, "213 324 430 041 102 234 340 401 012"),
        (UNEVEN, 2, 1, "421 143 314 034 204 402 124 341 034 204"),
        (SIX, 0, 0, "031 315 154 542 420 203 042"),
        (NINE, 0, 0, "036"),
    ],
    ids=["A", "B", "shifted", "C: uneven racks", "D: racks", "three racks of three"],
)
def test_published_examples(candidates: list[Candidate], start: int, shift: int, expected: str) -> None:
    placed = place_replicas(
        candidates,
        partitions=len(expected.split()),
        replication_factor=3,
        start_index=start,
        shift=shift,
    )
    assert digits(placed) == expected


def test_brokers_of_equal_racks_alternate() -> None:
    leaders = place_replicas(NINE, partitions=9, replication_factor=1, start_index=0, shift=0)
    assert digits(leaders) == "0 3 6 1 4 7 2 5 8"


@pytest.mark.parametrize(
    ("candidates", "first_leader", "current", "total", "replicas", "expected"),
    [
        (FIVE, 2, 3, 8, 3, [(0, 3, 4), (1, 4, 0), (2, 1, 3), (3, 2, 4), (4, 3, 0)]),
        (without_racks(101, 103, 105, 107), 104, 2, 4, 2, [(101, 107), (103, 101)]),
    ],
    ids=["E", "F: the first leader is gone"],
)
def test_growth_goes_on_as_creation_began(
    candidates: list[Candidate],
    first_leader: int,
    current: int,
    total: int,
    replicas: int,
    expected: list[tuple[int, ...]],
) -> None:
    start = growth_start(candidates, first_leader)
    placed = place_replicas(
        candidates,
        partitions=total - current,
        replication_factor=replicas,
        start_index=start,
        shift=start,
        first_partition=current,
    )
    assert placed == expected


def test_growth_starts_over_above_the_last_broker() -> None:
    assert growth_start(FIVE, 9) == 0


def test_more_replicas_than_brokers_cannot_be_placed() -> None:
    with pytest.raises(ValueError, match="3 replicas, but only 2 brokers"):
        place_replicas(without_racks(1, 2), partitions=1, replication_factor=3, start_index=0, shift=0)


@given(
    racks=st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=9),
    partitions=st.integers(1, 40),
    start=st.integers(0, 50),
    shift=st.integers(0, 50),
    data=st.data(),
)
def test_replicas_are_distinct_and_spread_over_brokers_and_racks(
    racks: list[str | None], partitions: int, start: int, shift: int, data: st.DataObject
) -> None:
    candidates = [Candidate(node_id * 3, rack) for node_id, rack in enumerate(racks)]
    count = data.draw(st.integers(1, len(candidates)))
    placed = place_replicas(
        candidates, partitions=partitions, replication_factor=count, start_index=start, shift=shift
    )
    assert len(placed) == partitions
    leaders = [replicas[0] for replicas in placed]
    for replicas in placed:
        assert len(replicas) == len(set(replicas)) == count
        assert set(replicas) <= {candidate.node_id for candidate in candidates}
    most, least = partitions // len(racks) + 1, partitions // len(racks)
    assert all(least <= leaders.count(candidate.node_id) <= most for candidate in candidates)
    if None not in racks:
        by_node = {candidate.node_id: candidate.rack for candidate in candidates}
        wanted = min(count, len(set(racks)))
        assert all(len({by_node[replica] for replica in replicas}) == wanted for replicas in placed)
