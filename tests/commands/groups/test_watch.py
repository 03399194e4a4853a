"""`--watch`: blocks one below the other, or in place on a terminal, until the user interrupts."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import trio

from kcli.commands.groups.watch import watch_below, watch_in_place
from kcli.commands.shared.options import OutputFormat
from kcli.commands.shared.output import Table
from kcli.errors import KcliError
from tests.support.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[3]


class Count(NamedTuple):
    """The watched result."""

    groups: Sequence[int]
    failures: Sequence[KcliError] = ()

    def lines(self) -> list[str]:
        return [f"count {number}" for number in self.groups]

    def tables(self) -> list[Table]:
        return [Table(("Count",), [(number,) for number in self.groups], "title")]


class Clock:
    """Returns the results in order, and interrupts after the last."""

    def __init__(self, *results: Count | KcliError) -> None:
        self.results = list(results)
        self.times = iter(f"at {second}" for second in range(100))

    async def take(self) -> Count:
        if not self.results:
            raise KeyboardInterrupt
        result = self.results.pop(0)
        if isinstance(result, KcliError):
            raise result
        return result

    def time_text(self) -> str:
        return next(self.times)


async def watched(clock: Clock, output: OutputFormat) -> None:
    with pytest.raises(KeyboardInterrupt):
        await watch_below(clock.take, 5, output, clock.time_text)


async def test_text_comes_in_blocks(
    autojump_clock: trio.testing.MockClock, capfd: pytest.CaptureFixture[str]
) -> None:
    clock = Clock(Count([1]), Count([2]), KcliError("lost"), Count([3], [KcliError("partly", hint="so")]))
    started = trio.current_time()
    await watched(clock, OutputFormat.TEXT)
    captured = capfd.readouterr()
    assert captured.out == "at 0\ncount 1\n\nat 1\ncount 2\n\nat 2\ncount 3\n"
    assert captured.err == "error: lost\nerror: partly\nhint: so\n"
    assert trio.current_time() - started == pytest.approx(20)


async def test_json_is_a_document_a_line(
    autojump_clock: trio.testing.MockClock, capfd: pytest.CaptureFixture[str]
) -> None:
    await watched(Clock(Count([1]), Count([2])), OutputFormat.JSON)
    assert capfd.readouterr().out == '{"groups": [1], "failures": []}\n{"groups": [2], "failures": []}\n'


@pytest.mark.parametrize("first", [KcliError("lost"), Count([], [KcliError("lost")])])
async def test_what_fails_at_once_is_not_watched(
    first: Count | KcliError, autojump_clock: trio.testing.MockClock
) -> None:
    with pytest.raises(KcliError, match="lost"):
        await watch_below(Clock(first).take, 5, OutputFormat.TEXT, lambda: "now")


async def test_a_terminal_shows_the_latest_table(
    autojump_clock: trio.testing.MockClock,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    clock = Clock(Count([1]), KcliError("lost"), Count([22], [KcliError("partly")]))
    with pytest.raises(KeyboardInterrupt):
        await watch_in_place(clock.take, 5, clock.time_text)
    shown = capfd.readouterr().out
    assert "title" in shown
    assert shown.index("error: lost") < shown.index("22") < shown.index("error: partly")


PROGRAM = """
import sys
from kcli.commands.groups import description
from kcli.commands.groups.head import GroupHead, StatesView
from kcli.commands.shared import session
from contextlib import asynccontextmanager

@asynccontextmanager
async def open_client(*_, profile=None, timeout_ms=None):
    yield None

async def describe_live(*_, **__):
    return StatesView([GroupHead("billing", "Classic", "Empty", None, None, None, None, 0)])

session.open_client = open_client
description.describe_live = describe_live
from kcli.cli import main
sys.exit(main(["consumer-groups", "describe", "billing", "--state", "--watch", sys.argv[1]]))
"""


@pytest.mark.parametrize("on_terminal", [False, True])
def test_an_interrupt_ends_it_quietly(on_terminal: bool) -> None:
    reader, writer = pty.openpty() if on_terminal else os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "0.1"],
        cwd=ROOT,
        stdout=writer,
        stderr=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(writer)
    try:
        shown = b""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while shown.count(b"billing") < 2:
            ready, _, _ = select.select([reader], [], [], max(0, deadline - time.monotonic()))
            assert ready, shown
            piece = os.read(reader, 4096)
            assert piece, shown
            shown += piece
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()
        os.close(reader)
    assert (process.returncode, errors) == (130, b"")


def test_a_reader_that_goes_away_ends_it_before_the_next_look() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "3600"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        for line in iter(process.stdout.readline, b""):
            if b"billing" in line:
                break
        process.stdout.close()
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, errors) == (0, b"")
