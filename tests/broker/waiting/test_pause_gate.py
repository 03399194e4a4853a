"""The gate at which the tasks of a paused node wait."""

from __future__ import annotations

import trio
import trio.testing

from kcli.broker.waiting.pause_gate import PauseGate
from kcli.broker.waiting.timer import Timer, TimerTask, monotonic_ms


async def test_an_open_gate_is_passed_at_once() -> None:
    with trio.testing.assert_no_checkpoints():
        await PauseGate().passed()


async def test_who_waits_passes_when_it_opens_for_good(autojump_clock: trio.testing.MockClock) -> None:
    gate = PauseGate()
    passed: list[float] = []

    async def pass_through() -> None:
        await gate.passed()
        passed.append(trio.current_time())

    gate.close()
    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pass_through)
        await trio.sleep(1)
        gate.open()
        gate.close()  # whoever was about to pass looks again
        await trio.sleep(1)
        gate.open()
    assert passed == [start + 2]


async def test_timers_of_a_paused_node_fall_due_when_it_goes_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Task(TimerTask):
        __slots__ = ("due",)

        def fall_due(self) -> None:
            self.due = trio.current_time()

    gate = PauseGate()
    timer, task = Timer(gate), Task()
    async with trio.open_nursery() as nursery:
        await nursery.start(timer.run)
        start = trio.current_time()
        assert timer.add(task, 1000, monotonic_ms())
        gate.close()
        await trio.sleep(5)
        gate.open()
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert task.due == start + 5
