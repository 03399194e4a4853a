"""CleanerThrottle: the rate of several threads together, by a clock that the test moves."""

from __future__ import annotations

import pytest

from kcli.broker.node.cleaner_throttle import CleanerThrottle

UNLIMITED = float.fromhex("0x1.fffffffffffffp+1023")


class Clock:
    """Time passes when somebody sleeps, 10 % longer than asked, and when the test says so."""

    def __init__(self, rate: float) -> None:
        self.now = 0.0
        self.rate = rate
        self.sleeps = 0
        self.rate_after_sleep: float | None = None
        self._throttle = CleanerThrottle(lambda: self.rate, now=lambda: self.now, sleep=self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.sleeps += 1
        self.now += seconds * 1.1
        self.rate = self.rate_after_sleep or self.rate

    def spend(self, size: int, *, held_until: float = 0.0, discarded_at: float = 1e9) -> None:
        self._throttle.spend(
            size, is_held=lambda: self.now < held_until, is_discarded=lambda: self.now >= discarded_at
        )


@pytest.mark.parametrize("rate", [1e5, 1e7])
@pytest.mark.parametrize("piece", [4096, 1 << 20])
@pytest.mark.parametrize("work_seconds", [0, 1e-4])
def test_bytes_keep_to_the_rate(rate: float, piece: int, work_seconds: float) -> None:
    clock = Clock(rate)
    spent = 0
    while clock.now < 30:
        clock.now += work_seconds
        clock.spend(piece)
        spent += piece
    assert spent / clock.now == pytest.approx(rate, rel=0.1)


def test_without_a_limit_nobody_sleeps() -> None:
    clock = Clock(UNLIMITED)
    for _ in range(100):
        clock.now += 1e-5
        clock.spend(1 << 30)
    assert clock.sleeps == 0


def test_another_rate_counts_at_once() -> None:
    clock = Clock(1.0)
    clock.rate_after_sleep = UNLIMITED
    clock.spend(1_000_000)
    assert clock.now < 1


def test_a_thread_that_is_held_goes_on_when_it_is_let_go_or_discarded() -> None:
    clock = Clock(UNLIMITED)
    clock.spend(1, held_until=5)
    assert 5 <= clock.now < 6
    clock.spend(1, held_until=100, discarded_at=9)
    assert 9 <= clock.now < 10
    clock.rate = 1.0
    clock.spend(1_000_000, discarded_at=12)
    assert 12 <= clock.now < 13
