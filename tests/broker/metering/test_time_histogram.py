"""A histogram agrees with the sorted times, to the promised precision and in bounded memory."""

from __future__ import annotations

from math import ceil
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.broker.metering.request_times import LONGEST_NS, MOST_BUCKETS, TimeHistogram

times = st.one_of(st.integers(0, 200), st.integers(0, 10**6), st.integers(0, LONGEST_NS))
shares = st.one_of(st.sampled_from([0.5, 0.99, 1.0]), st.floats(0, 1))


def histogram_of(times_ns: list[int]) -> TimeHistogram:
    made = TimeHistogram()
    for time_ns in times_ns:
        made.add(time_ns)
    return made


@given(st.lists(times, min_size=1, max_size=200), shares)
def test_a_quantile_is_within_a_64th_of_that_of_the_sorted_times(times_ns: list[int], share: float) -> None:
    found = histogram_of(times_ns).quantile_ns(share)
    exact = sorted(times_ns)[max(1, ceil(share * len(times_ns))) - 1]
    assert abs(found - exact) <= exact / 64
    assert min(times_ns) <= found <= max(times_ns)


@given(st.lists(times, min_size=1, max_size=200))
def test_count_mean_smallest_and_largest_are_exact(times_ns: list[int]) -> None:
    made = histogram_of(times_ns)
    assert (made.count, made.sum_ns) == (len(times_ns), sum(times_ns))
    assert made.mean_ns == sum(times_ns) / len(times_ns)
    assert (made.smallest_ns, made.largest_ns) == (min(times_ns), max(times_ns))


@given(st.lists(times), st.lists(times))
def test_two_together_are_one_of_all_times(some: list[int], others: list[int]) -> None:
    together, both = histogram_of(some), histogram_of(some + others)
    together.add_all(histogram_of(others))
    assert (together.count, together.sum_ns) == (both.count, both.sum_ns)
    assert (together.smallest_ns, together.largest_ns) == (both.smallest_ns, both.largest_ns)
    assert [together.quantile_ns(share / 20) for share in range(21)] == [
        both.quantile_ns(share / 20) for share in range(21)
    ]


@pytest.mark.parametrize("bits", range(50))
def test_times_at_the_edges_of_powers_of_two_are_in_order(bits: int) -> None:
    edge = 1 << bits
    around = sorted({max(0, edge - 1), edge, edge + 1})
    found = [histogram_of([0, time_ns, LONGEST_NS]).quantile_ns(0.5) for time_ns in around]
    assert found == sorted(found)
    assert all(abs(each - time_ns) <= time_ns / 64 for each, time_ns in zip(found, around, strict=True))


def test_its_memory_is_bounded_whatever_comes() -> None:
    made, random = TimeHistogram(), Random(7)
    for bits in range(64):
        for _ in range(2000):
            made.add(random.getrandbits(bits))
    assert made.count == 128_000
    assert 1400 < made.buckets <= MOST_BUCKETS


def test_a_time_that_is_longer_than_any_is_counted_and_the_largest() -> None:
    made = histogram_of([5, 1 << 60])
    assert (made.count, made.largest_ns, made.quantile_ns(0.5)) == (2, 1 << 60, 5)
    assert made.quantile_ns(1.0) == 1 << 60
    assert histogram_of([1 << 60] * 3).quantile_ns(0.5) == 1 << 60


def test_a_clock_that_went_back_is_no_time() -> None:
    made = histogram_of([-3, 4])
    assert (made.smallest_ns, made.largest_ns, made.sum_ns) == (0, 4, 4)


def test_without_times_all_is_zero() -> None:
    made = TimeHistogram()
    assert (made.count, made.mean_ns, made.largest_ns, made.quantile_ns(0.5)) == (0, 0.0, 0, 0.0)
