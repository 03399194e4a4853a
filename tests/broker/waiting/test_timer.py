"""The timer: tasks fall due in order and on time, a failure stops no other task, jobs run once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from kcli.broker.waiting.timer import CHUNK, Timer, TimerTask, monotonic_ms

if TYPE_CHECKING:
    from collections.abc import Callable


class Note(TimerTask):
    """Call something when due."""

    def __init__(self, write: Callable[[], None]) -> None:
        super().__init__()
        self.fall_due = write  # type: ignore[method-assign]


async def test_tasks_fall_due_at_their_time_whatever_was_asked_first(
    autojump_clock: trio.testing.MockClock,
) -> None:
    timer, log = Timer(), list[tuple[str, float]]()

    def note(name: str) -> Note:
        return Note(lambda: log.append((name, round(trio.current_time(), 3))))

    async with trio.open_nursery() as nursery:
        await nursery.start(timer.run)
        timer.add(note("late"), 90_000, monotonic_ms())
        await trio.sleep(1)
        timer.add(note("early"), 50, monotonic_ms())
        forgotten = note("forgotten")
        timer.add(forgotten, 70, monotonic_ms())
        timer.cancel(forgotten)
        timer.cancel(forgotten)
        await trio.sleep(100)
        nursery.cancel_scope.cancel()
    assert log == [("early", 1.05), ("late", 90.0)]
    assert timer.count == 0


async def test_what_is_due_already_is_not_filed(autojump_clock: trio.testing.MockClock) -> None:
    timer = Timer()
    assert not timer.add(Note(lambda: None), 0, monotonic_ms())
    assert timer.add(Note(lambda: None), 1, monotonic_ms())
    assert timer.count == 1


async def test_a_task_that_fails_stops_no_other(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    timer, done = Timer(), list[int]()
    async with trio.open_nursery() as nursery:
        await nursery.start(timer.run)
        timer.add(Note(lambda: done.append(1 // 0)), 10, monotonic_ms())
        timer.add(Note(lambda: done.append(1)), 10, monotonic_ms())
        timer.add(Note(lambda: done.append(2)), 20, monotonic_ms())
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert done == [1, 2]
    assert "a timed task failed" in caplog.text


async def test_a_job_runs_once_for_all_who_asked_and_again_when_asked_meanwhile(
    autojump_clock: trio.testing.MockClock,
) -> None:
    timer, runs = Timer(), list[float]()

    async def job() -> None:
        runs.append(trio.current_time())
        if len(runs) == 2:
            timer.call_soon(job)
        await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        timer.call_soon(job)
        timer.call_soon(job)
        await nursery.start(timer.run)
        await trio.sleep(1)
        timer.call_soon(job)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert runs == [0, 1, 1]


async def test_many_tasks_at_once_leave_room_for_others(autojump_clock: trio.testing.MockClock) -> None:
    timer, done = Timer(), list[int]()
    async with trio.open_nursery() as nursery:
        await nursery.start(timer.run)
        for number in range(20 * CHUNK):
            timer.add(Note(lambda number=number: done.append(number)), 10, monotonic_ms())  # type: ignore[misc]
        await trio.sleep(0.01)
        while len(done) < 20 * CHUNK:
            before = len(done)
            await trio.lowlevel.checkpoint()
            assert len(done) - before <= 2 * CHUNK  # trio shuffles the tasks of one turn
        nursery.cancel_scope.cancel()


async def test_a_second_driver_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    timer = Timer()
    async with trio.open_nursery() as nursery:
        await nursery.start(timer.run)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await timer.run()
        nursery.cancel_scope.cancel()
