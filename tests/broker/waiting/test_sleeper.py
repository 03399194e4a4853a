"""A task that sleeps, and how it is woken."""

from __future__ import annotations

import trio
import trio.testing

from kcli.broker.waiting.pause_gate import Sleeper


async def asleep(sleeper: Sleeper, nursery: trio.Nursery, ended: list[object]) -> None:
    """Let a task sleep; add what ends the sleep to `ended`."""

    async def sleep() -> None:
        try:
            await sleeper.sleep()
            ended.append("woken")
        except LookupError as error:
            ended.append(error)

    nursery.start_soon(sleep)
    await trio.testing.wait_all_tasks_blocked()
    assert sleeper.task is not None


async def test_it_sleeps_until_it_is_woken_and_may_sleep_again() -> None:
    sleeper, ended = Sleeper(), list[object]()
    async with trio.open_nursery() as nursery:
        for count in (1, 2):
            await asleep(sleeper, nursery, ended)
            sleeper.wake()
            assert sleeper.task is None
            sleeper.wake()  # Nobody sleeps: nothing happens.
            await trio.testing.wait_all_tasks_blocked()
            assert ended == ["woken"] * count


async def test_an_error_is_raised_once_where_it_sleeps() -> None:
    sleeper, ended, error = Sleeper(), list[object](), LookupError()
    async with trio.open_nursery() as nursery:
        await asleep(sleeper, nursery, ended)
        sleeper.fail(error)
        await trio.testing.wait_all_tasks_blocked()
        await asleep(sleeper, nursery, ended)
        sleeper.wake()
    assert ended == [error, "woken"]


async def test_an_error_that_comes_while_it_is_awake_is_raised_when_it_is_woken_next() -> None:
    sleeper, ended, error = Sleeper(), list[object](), LookupError()
    sleeper.fail(error)
    async with trio.open_nursery() as nursery:
        await asleep(sleeper, nursery, ended)
        assert ended == []
        sleeper.wake()
    assert ended == [error]


async def test_one_that_is_cancelled_does_not_sleep_any_more() -> None:
    sleeper = Sleeper()
    with trio.CancelScope() as scope:
        scope.cancel()
        await sleeper.sleep()
    assert scope.cancelled_caught
    assert sleeper.task is None
    sleeper.wake()
