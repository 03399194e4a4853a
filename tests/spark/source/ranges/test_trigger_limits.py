"""How far a trigger goes, and when it comes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.topics import TopicPartition
from kcli.spark.source.ranges.trigger_limits import TriggerLimits, is_due, limit_offsets

A, B, C = (TopicPartition("t", index) for index in range(3))


@pytest.mark.parametrize(
    ("start", "end", "most", "expected"),
    [
        pytest.param({A: 0}, {A: 100}, 10, {A: 10}, id="one partition"),
        pytest.param({A: 0, B: 0}, {A: 100, B: 300}, 40, {A: 10, B: 30}, id="by backlog"),
        pytest.param({A: 0, B: 0}, {A: 1, B: 1000}, 10, {A: 1, B: 9}, id="a small one is not starved"),
        pytest.param({A: 5, B: 7}, {A: 5, B: 107}, 10, {A: 5, B: 17}, id="nothing new in one"),
        pytest.param({A: 0}, {A: 5}, 10, {A: 5}, id="less than the limit"),
        pytest.param({A: 9}, {A: 5}, 10, {A: 5}, id="went back"),
        pytest.param({A: 0, B: 0, C: 0}, {A: 10, B: 10, C: 10}, 10, {A: 3, B: 3, C: 3}, id="rounded down"),
    ],
)
def test_the_limit_is_spread_by_backlog(
    start: dict[TopicPartition, int],
    end: dict[TopicPartition, int],
    most: int,
    expected: dict[TopicPartition, int],
) -> None:
    assert limit_offsets(start, end, most) == expected


backlogs = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 9)),
    st.tuples(st.integers(0, 2**50), st.integers(0, 2**50)),
    min_size=1,
)


@given(backlogs=backlogs, most=st.integers(1, 2**40))
def test_a_plan_moves_forward_and_not_too_far(
    backlogs: dict[TopicPartition, tuple[int, int]], most: int
) -> None:
    start = {one: begin for one, (begin, _) in backlogs.items()}
    end = {one: begin + size for one, (begin, size) in backlogs.items()}
    limited = limit_offsets(start, end, most)
    steps = {one: limited[one] - start[one] for one in end}
    assert all(0 <= steps[one] <= end[one] - start[one] for one in end)
    assert all(steps[one] > 0 for one in end if end[one] > start[one])
    # Each partition may be rounded up to one offset, and floats are not exact.
    assert sum(steps.values()) <= most + len(steps) + most * 1e-12


@pytest.mark.parametrize(
    ("limits", "waited_ms", "due"),
    [
        (TriggerLimits(), 0, True),
        (TriggerLimits(min_offsets=10), 0, True),
        (TriggerLimits(min_offsets=11), 0, False),
        (TriggerLimits(min_offsets=11), 899_999, False),
        (TriggerLimits(min_offsets=11), 900_000, True),
        (TriggerLimits(min_offsets=11, max_delay_ms=5), 5, True),
    ],
)
def test_a_plan_is_due_with_enough_data_or_after_the_longest_wait(
    limits: TriggerLimits, waited_ms: float, due: bool
) -> None:
    assert is_due({A: 5}, {A: 10, B: 5}, limits, waited_ms=waited_ms) is due
