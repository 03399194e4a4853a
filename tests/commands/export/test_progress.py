"""Progress of an export: what is counted, and the lines that tell of it where there is no terminal."""

from __future__ import annotations

import errno
import os
import pty

import pytest

from kcli.commands.export.progress import TimedLines, WorkProgress, progress_text, work_progress
from kcli.commands.shared.formatting import size_text, time_text
from kcli.spark.export.log.receipt import Counters, Receipt, SplitRead


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def receipt(rows: int, size: int) -> Receipt:
    return Receipt(
        plan=1, plan_id="p", index=0, attempt="a",
        reads=(SplitRead(topic="t", partition=0, start=0, end=rows),),
        counters=Counters(rows=rows, bytes_read=size),
    )  # fmt: skip


def test_what_tasks_tell_and_what_their_receipts_say_is_counted_once() -> None:
    progress = WorkProgress(lambda _: None)
    progress.planned(2, 1000)
    progress.advanced(10, 100)
    assert (progress.rows, progress.bytes) == (10, 100)
    progress.finished(receipt(40, 400))
    assert (progress.rows, progress.bytes, progress.splits_done) == (40, 400, 1)
    progress.advanced(25, 250)
    assert (progress.rows, progress.bytes) == (40, 400)
    progress.finished(receipt(60, 600))
    assert (progress.rows, progress.bytes, progress.done) == (100, 1000, 1.0)


def test_a_line_every_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    progress = WorkProgress(TimedLines("exporting"), clock)
    progress.planned(3, 4_000_000_000)
    for second in range(36):
        clock.now = 100 + second
        progress.advanced(100_000, 50_000_000)
    assert capsys.readouterr().err.splitlines() == [
        "exporting: 1,100,000 rows, 550.0 MB of 4.0 GB (13%), 55.0 MB/s, 1m03s left",
        "exporting: 2,100,000 rows, 1.1 GB of 4.0 GB (26%), 52.5 MB/s, 56s left",
        "exporting: 3,100,000 rows, 1.6 GB of 4.0 GB (38%), 51.7 MB/s, 47s left",
    ]


def test_work_of_which_the_rows_are_known() -> None:
    clock = Clock()
    progress = WorkProgress(lambda _: None, clock)
    progress.total_rows = 400
    progress.advance(100, 5000)
    clock.now += 10
    assert progress_text(progress) == "100 rows of 400, 5.0 kB (25%), 500 B/s, 30s left"


def test_nothing_is_promised_while_nobody_knows_how_much_there_is() -> None:
    progress = WorkProgress(lambda _: None, Clock())
    assert progress.done is None
    assert progress_text(progress) == "0 rows, 0 B, 0 B/s"
    progress.rows = 1
    assert progress_text(progress) == "1 row, 0 B, 0 B/s"


def test_no_terminal_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with work_progress("exporting") as progress:
        progress.planned(1, 100)
        progress.advanced(1, 100)
    assert capsys.readouterr() == ("", "")


def everything_on(terminal: int) -> bytes:
    """Return all that a terminal showed whose other end is closed; it comes in pieces."""
    shown = b""
    with os.fdopen(terminal, "rb", buffering=0) as ours:
        while True:
            try:
                shown += ours.read(4096)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                return shown


def test_a_terminal_shows_a_bar_and_what_is_noted_above_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", buffering=1) as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        with work_progress("exporting") as progress:
            progress.planned(1, 1000)
            progress.advanced(5, 500)
            progress.note("something to know")
    shown = everything_on(ours).decode()
    assert "5 rows, 500 B of 1.0 kB (50%)" in shown
    assert "something to know" in shown


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_600, "1.0 MB"),
        (123_456_789, "123.5 MB"),
        (2e18, "2000.0 PB"),
    ],
)
def test_sizes(size: float, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0s"), (59.6, "1m00s"), (125, "2m05s"), (12000, "3h20m")]
)
def test_times(seconds: float, text: str) -> None:
    assert time_text(seconds) == text
