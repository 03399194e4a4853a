"""The bar of work in parts: when it begins, and where."""

from __future__ import annotations

import pytest

from kcli.commands.shared.progress import SHORT_SECONDS, STEP_SECONDS, part_bar
from tests.support.terminal import Terminal


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")


def test_short_work_shows_nothing() -> None:
    seconds = [0.0]
    with Terminal() as terminal, part_bar(clock=lambda: seconds[0]) as show:
        assert show is not None
        show("first", 1, 2)
        seconds[0] = SHORT_SECONDS - 0.01
        show("first", 2, 2)
    assert terminal.shown == b""


def test_each_part_has_its_bar_which_moves_in_steps() -> None:
    seconds = [0.0]
    with Terminal() as terminal, part_bar(clock=lambda: seconds[0]) as show:
        assert show is not None
        seconds[0] = SHORT_SECONDS
        show("first", 1, 2)
        show("too soon", 1, 2)
        seconds[0] += STEP_SECONDS
        show("second", 3_000_000, 4_000_000)
    assert b"second" in terminal.shown
    assert b"3.0/4.0 MB" in terminal.shown
    assert b"too soon" not in terminal.shown


@pytest.mark.parametrize("name", ["dumb", "unknown"])
def test_a_terminal_that_cannot_move_its_cursor_gets_none(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", name)
    with Terminal(), part_bar() as show:
        assert show is None


def test_without_a_terminal_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    with part_bar() as show:
        assert show is None
    assert capsys.readouterr() == ("", "")
