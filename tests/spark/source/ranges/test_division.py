"""Division agrees with Spark's arithmetic, and never loses or repeats an offset."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.topics import TopicPartition
from kcli.spark.source.ranges.division import OffsetRange, at_least, divide
from kcli.spark.split import OffsetInterval

A, B, C = (TopicPartition(name, 1) for name in "abc")

# The cases are those that Spark's own connector is held against.
CASES = {
    "nothing asked": ({A: (1, 2)}, None, None, {A: [1, 2]}),
    "empty ranges are left out": ({A: (1, 2), B: (1, 1)}, None, None, {A: [1, 2]}),
    "as many as there are": ({A: (1, 2), B: (1, 2), C: (1, 2)}, 3, None, {A: [1, 2], B: [1, 2], C: [1, 2]}),
    "one into four": ({A: (1, 5)}, 4, None, {A: [1, 2, 3, 4, 5]}),
    "skewed": ({A: (1, 5), B: (1, 21)}, 4, None, {A: [1, 5], B: [1, 7, 14, 21]}),
    "an empty one beside": ({A: (1, 1), B: (1, 21)}, 4, None, {B: [1, 6, 11, 16, 21]}),
    "very skewed": ({A: (1, 2), B: (1, 1001)}, 4, None, {A: [1, 2], B: [1, 334, 667, 1001]}),
    "fewer asked than there are": ({A: (1, 5), B: (1, 21)}, 1, None, {A: [1, 5], B: [1, 21]}),
    "no exact multiple": ({A: (1, 11)}, 3, None, {A: [1, 4, 7, 11]}),
    "none is dropped": (
        {A: (0, 10), B: (0, 10), C: (0, 1)}, 6, None, {A: [0, 3, 6, 10], B: [0, 3, 6, 10], C: [0, 1]},
    ),
    "three large ones": (
        {A: (0, 10000), B: (0, 15000), C: (0, 20000)}, 9, None,
        {A: [0, 5000, 10000], B: [0, 5000, 10000, 15000], C: [0, 5000, 10000, 15000, 20000]},
    ),
    "a small one apart": (
        {A: (0, 500), B: (0, 12000), C: (0, 15001)}, 6, None,
        {A: [0, 500], B: [0, 6000, 12000], C: [0, 5000, 10000, 15001]},
    ),
    "two small ones apart": (
        {A: (0, 1), B: (0, 1), C: (0, 10000)}, 6, None,
        {A: [0, 1], B: [0, 1], C: [0, 2500, 5000, 7500, 10000]},
    ),
    "no more than four": ({A: (1, 5)}, None, 4, {A: [1, 5]}),
    "one more than four": ({A: (1, 6)}, None, 4, {A: [1, 3, 6]}),
    "no more than twenty": (
        {A: (1, 40), B: (1, 50), C: (1, 60)}, None, 20,
        {A: [1, 20, 40], B: [1, 17, 33, 50], C: [1, 20, 40, 60]},
    ),
    "at most twenty, at least one": ({A: (1, 40)}, 1, 20, {A: [1, 20, 40]}),
    "at most twenty, at least four": ({A: (1, 40)}, 4, 20, {A: [1, 10, 20, 30, 40]}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_ranges_are_cut_where_spark_cuts_them(case: str) -> None:
    given_ranges, least, most, cuts = CASES[case]
    intervals = {one: OffsetInterval(*bounds) for one, bounds in given_ranges.items()}
    expected = [
        OffsetRange(one, start, end) for one, points in cuts.items() for start, end in pairwise(points)
    ]
    assert divide(intervals, min_partitions=least, max_records=most) == expected


offsets = st.integers(0, 2**62)
intervals_of_partitions = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from("abcd"), st.integers(0, 5)),
    st.tuples(offsets, st.integers(0, 10**12)).map(lambda pair: OffsetInterval(pair[0], sum(pair))),
    max_size=8,
)


@given(
    intervals=intervals_of_partitions,
    least=st.none() | st.integers(1, 200),
    pieces=st.none() | st.integers(1, 50),
)
def test_pieces_make_up_what_was_cut(
    intervals: dict[TopicPartition, OffsetInterval], least: int | None, pieces: int | None
) -> None:
    largest = max((one.end - one.start for one in intervals.values()), default=0)
    most = max(1, largest // pieces) if pieces else None
    ranges = divide(intervals, min_partitions=least, max_records=most)
    rebuilt: dict[TopicPartition, OffsetInterval] = {}
    for one in ranges:
        assert 0 < one.size <= (most or one.size)
        known = rebuilt.get(one.partition)
        assert known is None or known.end == one.start
        rebuilt[one.partition] = OffsetInterval(known.start if known else one.start, one.end)
    assert rebuilt == {one: interval for one, interval in intervals.items() if interval.end > interval.start}


@given(sizes=st.lists(st.integers(1, 10**15), min_size=1, max_size=10), least=st.integers(1, 100))
def test_about_as_many_pieces_as_asked_for(sizes: list[int], least: int) -> None:
    ranges = [OffsetRange(TopicPartition("t", index), 0, size) for index, size in enumerate(sizes)]
    pieces = at_least(ranges, least)
    possible = sum(sizes)
    assert len(pieces) >= min(len(ranges), possible)
    assert len(pieces) <= max(least, len(ranges)) + len(ranges)
