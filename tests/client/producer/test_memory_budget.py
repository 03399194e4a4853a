"""Memory is given in order; large requests do not starve; a cancelled one leaves nothing behind."""

from __future__ import annotations

import pytest
import trio

from kcli.client.producer.accumulator import MemoryBudget


async def take(budget: MemoryBudget, size: int, taken: list[int]) -> None:
    await budget.reserve(size)
    taken.append(size)


def test_memory_that_is_there_is_taken_at_once() -> None:
    budget = MemoryBudget(100)
    assert budget.reserve_nowait(60)
    assert not budget.reserve_nowait(41)
    assert budget.reserve_nowait(40)
    budget.release(100)
    assert budget.available == 100


async def test_more_than_the_total_is_refused() -> None:
    with pytest.raises(ValueError, match="never fit"):
        await MemoryBudget(100).reserve(101)


async def test_waiters_are_served_in_order_and_a_large_one_is_not_starved() -> None:
    budget = MemoryBudget(100)
    taken: list[int] = []
    assert budget.reserve_nowait(100)
    async with trio.open_nursery() as nursery:
        for size in (90, 10, 5):
            nursery.start_soon(take, budget, size, taken)
            await trio.testing.wait_all_tasks_blocked()
        for _ in range(8):
            budget.release(10)
            await trio.testing.wait_all_tasks_blocked()
            assert taken == []
            assert not budget.reserve_nowait(1)
        budget.release(10)
        await trio.testing.wait_all_tasks_blocked()
        assert taken == [90]
        budget.release(10)
        await trio.testing.wait_all_tasks_blocked()
        assert taken == [90, 10]
        budget.release(90)
    assert taken == [90, 10, 5]
    budget.release(15)
    assert budget.available == 100


async def test_a_waiter_that_times_out_returns_what_it_collected(
    autojump_clock: trio.testing.MockClock,
) -> None:
    budget = MemoryBudget(100)
    taken: list[int] = []
    assert budget.reserve_nowait(100)

    async def impatient() -> None:
        with trio.move_on_after(1):
            await budget.reserve(80)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(impatient)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(take, budget, 30, taken)
        await trio.testing.wait_all_tasks_blocked()
        budget.release(50)
        assert budget.available == 0
    assert taken == [30]
    budget.release(80)
    assert budget.available == 100
    assert not budget.has_waiters
