"""SIGINT, SIGTERM and SIGHUP: which of several is a repeat, and which means "now"."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
import trio

from kcli.broker.process.broker_process import stopping_on_signal
from kcli.commands.shared.interrupts import interruptible
from kcli.stop_signals import REPEAT_SECONDS, STOP_SIGNALS, heard_signals, obey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from trio.testing import MockClock

TERM, INT, HUP = signal.SIGTERM, signal.SIGINT, signal.SIGHUP


@pytest.fixture
def handlers(hang_ups: None) -> Iterator[None]:
    """Handlers of signals are those of before when the test is over."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("arrivals", "done"),
    [
        pytest.param([(3, TERM)], "stop", id="one stops"),
        pytest.param([(3, TERM), (3, TERM)], "stop", id="one that comes twice is one"),
        pytest.param([(3, TERM), (3.002, TERM), (3.4, TERM)], "stop", id="three times"),
        pytest.param([(3, INT), (3.1, TERM)], "stop", id="a supervisor passes Ctrl-C on"),
        pytest.param([(3, HUP), (3.1, HUP)], "stop", id="a shell passes the end of its terminal on"),
        pytest.param([(3, TERM), (3.5, TERM)], "stop abort", id="a later one means now"),
        pytest.param([(3, INT), (3.3, INT), (3.6, INT)], "stop abort", id="repeats do not renew the time"),
        pytest.param([(3, TERM), (4, TERM), (4.1, INT)], "stop abort abort", id="each later one"),
    ],
)
async def test_what_comes_soon_after_the_first_signal_repeats_it(
    arrivals: list[tuple[float, int]], done: str, autojump_clock: MockClock
) -> None:
    seen: list[str] = []

    async def signals() -> AsyncIterator[int]:
        for at, number in arrivals:
            await trio.sleep_until(at)
            yield number

    await obey(signals(), stop=lambda _: seen.append("stop"), abort=lambda _: seen.append("abort"))
    assert seen == done.split()


class StoppableCluster:
    """What a signal needs of a cluster."""

    def __init__(self) -> None:
        self.stopped = trio.Event()

    def stop(self) -> None:
        self.stopped.set()


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", [TERM, HUP])
async def test_a_broker_that_is_told_twice_to_end_does_so_in_order(
    number: signal.Signals, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes: list[int] = []
    aborted = trio.Event()
    monkeypatch.setattr("os._exit", lambda code: (codes.append(code), aborted.set()))
    cluster = StoppableCluster()
    async with stopping_on_signal(cluster):  # type: ignore[arg-type]
        signal.raise_signal(number)
        await cluster.stopped.wait()
        signal.raise_signal(number)
        await trio.sleep(REPEAT_SECONDS)
        assert codes == []
        signal.raise_signal(number)
        await aborted.wait()
    assert codes == [128 + number]
    signal.raise_signal(number)  # All is done: a repeat that is late does not matter.


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", [TERM, HUP])
async def test_a_command_that_is_told_twice_to_end_does_so_in_order(
    number: signal.Signals, autojump_clock: MockClock
) -> None:
    async with interruptible() as scope:
        with scope:
            signal.raise_signal(number)
            await trio.sleep_forever()
        signal.raise_signal(number)
        await trio.sleep(REPEAT_SECONDS)
    with pytest.RaisesGroup(KeyboardInterrupt):
        async with interruptible() as scope:
            signal.raise_signal(INT)
            with scope:
                await trio.sleep_forever()
            await trio.sleep(REPEAT_SECONDS)
            signal.raise_signal(INT)
            await trio.sleep_forever()


@pytest.mark.usefixtures("handlers")
async def test_what_ends_in_order_is_told_when_it_is_to_end_now(autojump_clock: MockClock) -> None:
    now = trio.CancelScope(shield=True)
    with pytest.RaisesGroup(KeyboardInterrupt):
        async with interruptible(hurry=now.cancel) as scope:
            with scope, now:
                signal.raise_signal(INT)
                await trio.sleep(REPEAT_SECONDS)
                assert (scope.cancel_called, now.cancel_called) == (True, False)
                signal.raise_signal(INT)
                await trio.sleep_forever()
    assert now.cancelled_caught


@pytest.mark.usefixtures("handlers")
async def test_a_hang_up_that_is_ignored_at_the_start_stays_so(autojump_clock: MockClock) -> None:
    assert heard_signals() == STOP_SIGNALS
    signal.signal(HUP, signal.SIG_IGN)
    assert heard_signals() == (INT, TERM)
    async with interruptible() as scope:
        signal.raise_signal(HUP)
        assert signal.getsignal(HUP) is signal.SIG_IGN
        with scope:
            signal.raise_signal(TERM)
            await trio.sleep_forever()
    cluster = StoppableCluster()
    async with stopping_on_signal(cluster):  # type: ignore[arg-type]
        signal.raise_signal(HUP)
        assert signal.getsignal(HUP) is signal.SIG_IGN
    assert not cluster.stopped.is_set()
    assert signal.getsignal(HUP) is signal.SIG_IGN
