"""Purgatory: operations end once, by a touch, by time, or by being dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.broker.waiting.purgatory import DelayedOperation, Purgatory
from kcli.broker.waiting.timer import CHUNK, Timer

if TYPE_CHECKING:
    from collections.abc import Hashable


class Countdown(DelayedOperation):
    """Complete after `left` touches."""

    def __init__(self, left: int = 1) -> None:
        super().__init__()
        self.left = left
        self.tried: list[Hashable] = []

    def try_complete(self, key: Hashable) -> bool:
        self.tried.append(key)
        self.left -= 1
        return self.left <= 0

    def finish(self) -> str:
        return "expired" if self.expired else "done"


class Broken(Countdown):
    def try_complete(self, key: Hashable) -> bool:
        raise RuntimeError("broken")


async def outcome_of(purgatory: Purgatory, operation: Countdown, log: list[tuple[str, float]]) -> None:
    await purgatory.wait(operation)
    log.append((operation.finish(), round(trio.current_time(), 3)))


def is_empty(purgatory: Purgatory) -> bool:
    return (purgatory.parked, purgatory.watched_keys, purgatory.timer.count) == (0, 0, 0)


async def test_a_touch_completes_and_a_deadline_expires(autojump_clock: trio.testing.MockClock) -> None:
    purgatory = Purgatory(Timer())
    log: list[tuple[str, float]] = []
    async with trio.open_nursery() as nursery:
        await nursery.start(purgatory.timer.run)
        first, second = Countdown(), Countdown(2)
        purgatory.park(first, ["a", "b"], 500)
        purgatory.park(second, ["b", "b"], 700)
        async with trio.open_nursery() as waiters:
            waiters.start_soon(outcome_of, purgatory, first, log)
            waiters.start_soon(outcome_of, purgatory, second, log)
            await trio.sleep(0.1)
            purgatory.touch("b")
            purgatory.touch("b")
            purgatory.touch("nobody waits here")
            assert log == []
        nursery.cancel_scope.cancel()
    assert log == [("done", 0.1), ("expired", 0.7)]
    assert first.tried == second.tried == ["b"]
    assert is_empty(purgatory)


async def test_an_earlier_deadline_wakes_the_sleeping_driver(autojump_clock: trio.testing.MockClock) -> None:
    purgatory = Purgatory(Timer())
    log: list[tuple[str, float]] = []
    async with trio.open_nursery() as nursery:
        await nursery.start(purgatory.timer.run)
        late, early = Countdown(), Countdown()
        purgatory.park(late, ["a"], 10_000)
        await trio.sleep(1)
        purgatory.park(early, ["a"], 50)
        async with trio.open_nursery() as waiters:
            waiters.start_soon(outcome_of, purgatory, late, log)
            waiters.start_soon(outcome_of, purgatory, early, log)
        nursery.cancel_scope.cancel()
    assert log == [("expired", 1.05), ("expired", 10.0)]


async def test_cancelling_the_waiter_unlinks_the_operation() -> None:
    purgatory = Purgatory(Timer())
    operation = Countdown()
    purgatory.park(operation, ["a", "b"], 10_000)
    with trio.move_on_after(0) as scope:
        await purgatory.wait(operation)
    assert scope.cancelled_caught
    assert is_empty(purgatory)


async def test_the_waiter_is_called_once_and_not_for_what_was_dropped() -> None:
    purgatory = Purgatory(Timer())
    ended, dropped = Countdown(), Countdown()
    calls: list[str] = []
    ended.waiter, dropped.waiter = (lambda: calls.append("ended")), (lambda: calls.append("dropped"))
    for operation in (ended, dropped):
        purgatory.park(operation, ["a"], 10_000)
    purgatory.end(ended)
    purgatory.drop(dropped)
    ended.tell()
    dropped.tell()
    assert calls == ["ended"]
    assert is_empty(purgatory)


async def test_one_task_can_wait_for_an_operation() -> None:
    purgatory = Purgatory(Timer())
    operation = Countdown()
    purgatory.park(operation, ["a"], 10_000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(purgatory.wait, operation)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await purgatory.wait(operation)
        purgatory.end(operation)
    assert is_empty(purgatory)


async def test_an_operation_without_time_has_expired_at_once() -> None:
    purgatory = Purgatory(Timer())
    operation = Countdown()
    purgatory.park(operation, ["a"], 0)
    await purgatory.wait(operation)
    assert operation.finish() == "expired"
    assert is_empty(purgatory)


async def test_a_condition_that_raises_ends_its_operation_only(caplog: pytest.LogCaptureFixture) -> None:
    purgatory = Purgatory(Timer())
    broken, healthy = Broken(), Countdown()
    purgatory.park(broken, ["a"], 10_000)
    purgatory.park(healthy, ["a"], 10_000)
    async with trio.open_nursery() as nursery:
        await nursery.start(purgatory.timer.run)
        await trio.testing.wait_all_tasks_blocked()
        purgatory.touch("a")
        await purgatory.wait(broken)
        await purgatory.wait(healthy)
        nursery.cancel_scope.cancel()
    assert "could not try an operation" in caplog.text


async def test_ten_thousand_waiters_leave_room_between_chunks() -> None:
    purgatory = Purgatory(Timer())
    operations = [Countdown() for _ in range(160 * CHUNK)]
    for operation in operations:
        purgatory.park(operation, ["a"], 100_000)
    turns = 0
    async with trio.open_nursery() as nursery:
        await nursery.start(purgatory.timer.run)
        await trio.testing.wait_all_tasks_blocked()
        purgatory.touch("a")
        while purgatory.parked:
            before = purgatory.parked
            await trio.lowlevel.checkpoint()
            assert before - purgatory.parked <= 2 * CHUNK  # trio shuffles the tasks of one turn
            turns += 1
        nursery.cancel_scope.cancel()
    assert turns >= 80
    assert is_empty(purgatory)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("park"), st.integers(0, 2_000), st.sets(st.integers(0, 3), min_size=1)),
        st.tuples(st.just("touch"), st.integers(0, 3), st.just(set[int]())),
        st.tuples(st.just("drop"), st.integers(0, 50), st.just(set[int]())),
        st.tuples(st.just("sleep"), st.integers(0, 900), st.just(set[int]())),
    ),
    max_size=40,
)


@settings(deadline=None, max_examples=60)
@given(steps=STEPS)
def test_every_operation_ends_exactly_once(steps: list[tuple[str, int, set[int]]]) -> None:
    async def main() -> None:
        purgatory = Purgatory(Timer())
        operations: list[Countdown] = []
        scopes: list[trio.CancelScope] = []
        answers: list[int] = []

        async def connection(scope: trio.CancelScope, number: int, operation: Countdown) -> None:
            with scope:
                await purgatory.wait(operation)
                answers.append(number)

        async with trio.open_nursery() as nursery:
            await nursery.start(purgatory.timer.run)
            async with trio.open_nursery() as connections:
                for verb, value, keys in steps:
                    if verb == "park":
                        operation = Countdown(1 + value % 3)
                        operations.append(operation)
                        purgatory.park(operation, keys, value)
                        scope = trio.CancelScope()
                        scopes.append(scope)
                        connections.start_soon(connection, scope, len(operations), operation)
                    elif verb == "touch":
                        purgatory.touch(value)
                    elif verb == "drop" and operations:
                        scopes[value % len(operations)].cancel()
                    elif verb == "sleep":
                        await trio.sleep(value / 1000)
            nursery.cancel_scope.cancel()
        assert all(operation.ended for operation in operations)
        assert len(answers) == len(set(answers))
        assert len(answers) == sum(not scope.cancelled_caught for scope in scopes)
        assert is_empty(purgatory)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
