"""TimingWheel against its known positions and against a sorted list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.broker.waiting.timing_wheel import TimerEntry, TimingWheel


def where(wheel: TimingWheel, entry: TimerEntry) -> tuple[int, int] | None:
    """Return (level counted from 1, slot) of an entry."""
    for number, level in enumerate(wheel.levels, start=1):
        for slot, bucket in enumerate(level.buckets):
            if entry in bucket:
                return number, slot
    return None


@pytest.mark.parametrize(
    ("now_ms", "deadline_ms", "expected"),
    [
        (0, 2, (1, 2)),
        (2, 10, (1, 10)),
        (2, 21, (1, 1)),
        (0, 350, (2, 17)),
        (0, 450, (3, 1)),
        (0, 0, None),
        (7, 7, None),
        (7, 6, None),
    ],
)
def test_an_entry_lies_in_the_finest_level_that_reaches_it(
    now_ms: int, deadline_ms: int, expected: tuple[int, int] | None
) -> None:
    wheel = TimingWheel(0)
    wheel.advance(now_ms)
    entry = TimerEntry(deadline_ms)
    assert wheel.add(entry, now_ms) is (expected is not None)
    assert where(wheel, entry) == expected


def test_an_entry_moves_down_level_by_level() -> None:
    wheel = TimingWheel(0)
    entry = TimerEntry(450)
    wheel.add(entry, 0)
    assert wheel.next_due_ms() == 400
    assert wheel.advance(400) == []
    assert where(wheel, entry) == (2, 2)
    assert wheel.next_due_ms() == 440
    assert wheel.advance(440) == []
    assert where(wheel, entry) == (1, 10)
    assert wheel.advance(449) == []
    assert wheel.advance(450) == [entry]
    assert wheel.next_due_ms() is None


def test_the_wakes_of_an_entry_are_its_bucket_starts() -> None:
    wheel = TimingWheel(0)
    entry = TimerEntry(445)
    wheel.add(entry, 0)
    wakes = []
    while (due_ms := wheel.next_due_ms()) is not None:
        wakes.append(due_ms)
        expired = wheel.advance(due_ms)
    assert wakes == [400, 440, 445]
    assert expired == [entry]


def test_a_cancelled_entry_wakes_nobody() -> None:
    wheel = TimingWheel(0)
    entry = TimerEntry(500)
    wheel.add(entry, 0)
    wheel.cancel(entry)
    wheel.cancel(entry)
    assert (wheel.count, wheel.next_due_ms()) == (0, None)
    again = TimerEntry(500)
    assert wheel.add(again, 0)
    assert wheel.next_due_ms() == 400


def test_an_idle_wheel_catches_up_when_it_is_used_again() -> None:
    wheel = TimingWheel(0)
    entry = TimerEntry(1_000_010)
    wheel.add(entry, 1_000_000)
    assert where(wheel, entry) is not None
    assert wheel.next_due_ms() == 1_000_010


def test_an_entry_is_in_one_wheel_only() -> None:
    wheel = TimingWheel(0)
    entry = TimerEntry(5)
    wheel.add(entry, 0)
    with pytest.raises(ValueError, match="already"):
        wheel.add(entry, 0)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(-5, 200_000)),
        st.tuples(st.just("cancel"), st.integers(0, 1_000)),
        st.tuples(st.just("advance"), st.integers(0, 9_000)),
    ),
    max_size=150,
)


@given(start_ms=st.integers(0, 10**12), actions=ACTIONS, tick_ms=st.sampled_from([1, 1, 7]))
def test_it_agrees_with_a_sorted_list(start_ms: int, actions: list[tuple[str, int]], tick_ms: int) -> None:
    wheel = TimingWheel(start_ms, tick_ms=tick_ms)
    now_ms = start_ms
    waiting: list[TimerEntry] = []
    for action, value in actions:
        if action == "add":
            entry = TimerEntry(now_ms + value)
            if wheel.add(entry, now_ms):
                waiting.append(entry)
            else:
                assert entry.deadline_ms < now_ms + tick_ms
        elif action == "cancel" and waiting:
            wheel.cancel(waiting.pop(value % len(waiting)))
        elif action == "advance":
            now_ms += value
            expired = wheel.advance(now_ms)
            # With a coarse tick an entry is due at the start of its tick.
            expected = [e for e in waiting if e.deadline_ms - e.deadline_ms % tick_ms <= now_ms]
            assert sorted(map(id, expired)) == sorted(map(id, expected))
            waiting = [entry for entry in waiting if entry not in expected]
        assert wheel.count == len(waiting)
        next_due_ms = wheel.next_due_ms()
        if waiting:
            assert next_due_ms is not None
            assert now_ms < next_due_ms <= min(entry.deadline_ms for entry in waiting)
        else:
            assert next_due_ms is None


def test_a_hundred_thousand_deadlines_fire_on_time() -> None:
    wheel = TimingWheel(0)
    entries = [TimerEntry(1 + (number * 7919) % 60_000) for number in range(100_000)]
    for entry in entries:
        wheel.add(entry, 0)
    fired = 0
    while (due_ms := wheel.next_due_ms()) is not None:
        for entry in wheel.advance(due_ms):
            assert entry.deadline_ms == due_ms
            fired += 1
    assert fired == len(entries)
