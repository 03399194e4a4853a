"""Lines that need no Typer: they do exactly the same as through Typer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kcli.commands.shared.output import OutputFormat
from kcli.commands.shortcut import Line, parse, run_shortcut
from tests.conftest import Finished
from tests.storage.log_harness import LogHarness
from tests.support.log_files import PAIRS, batch_of, segment

LINES = {
    "dump-log a.log": Line(["a.log"], frozenset(), None),
    "dump-log -o json a.log b.log": Line(["a.log", "b.log"], frozenset(), OutputFormat.JSON),
    "dump-log a --output text --deep-iteration": Line(
        ["a"], frozenset(["--deep-iteration"]), OutputFormat.TEXT
    ),
    "verify-index --deep a": Line(["a"], frozenset(["--deep"]), None),
}
FOR_TYPER = [
    "",
    "topics",
    "topics a",
    "dump-log",
    "dump-log --help",
    "dump-log a -o",
    "dump-log a -o xml",
    "dump-log a -ojson",
    "dump-log a --output=json",
    "dump-log a --summary",
    "dump-log -- a",
    "dump-log --deep a",
    "verify-index a -j 2",
    "verify-index a --print-data-log",
    "verify-index --explain",
]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sound log, a damaged one and a partition, in the current directory."""
    monkeypatch.chdir(tmp_path)
    segment(tmp_path / "sound-0", [batch_of(PAIRS, 10 * number) for number in range(5)])
    segment(tmp_path / "cut-0", [batch_of(PAIRS), batch_of(PAIRS, 10)[:40]])
    harness = LogHarness(tmp_path)
    harness.fill(20)
    harness.stop()


@pytest.mark.parametrize("line", LINES)
def test_a_plain_line_is_understood(line: str) -> None:
    assert parse(line.split()) == LINES[line]


@pytest.mark.parametrize("line", FOR_TYPER)
def test_any_other_line_is_left_alone(line: str) -> None:
    assert parse(line.split()) is None
    assert run_shortcut(line.split()) is None


def test_an_interrupt_while_a_line_is_understood_is_told_in_one(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kcli.commands.shortcut.body_of", interrupted)
    assert run_shortcut(["broker", "start"]) == 130
    assert capfd.readouterr() == ("", "error: interrupted\n")


def test_a_shell_that_wants_a_completion_gets_typers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_KCLI_COMPLETE", "complete_bash")
    assert run_shortcut(["dump-log", "nowhere.log"]) is None


@pytest.mark.parametrize(
    "line",
    [
        "dump-log -o text sound-0",
        "dump-log -o json --print-data-log sound-0",
        "dump-log -o table --deep-iteration sound-0",
        "dump-log -o text cut-0",
        "dump-log -o json --continue cut-0 sound-0",
        "dump-log nowhere.log",
        "dump-log .",
        "verify-index -o text orders-0",
        "verify-index -o json --deep cut-0",
        "verify-index --index-sanity-check -o text orders-0",
        "verify-index --index-sanity-check --deep orders-0",
        "verify-index nowhere",
        "verify-index -o table cut-0 sound-0",
    ],
)
def test_it_prints_and_ends_as_with_typer(
    places: None, kcli: Callable[..., Finished], capfd: pytest.CaptureFixture[str], line: str
) -> None:
    expected = kcli(*line.split())
    code = run_shortcut(line.split())
    captured = capfd.readouterr()
    assert (code, captured.out, captured.err) == expected


def test_the_program_takes_it_and_imports_no_typer(places: None) -> None:
    for line in ("dump-log -o text sound-0", "verify-index -o text orders-0"):
        finished = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "kcli", *line.split()],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "NO_COLOR": "1"},
        )
        assert finished.returncode == 0
        assert finished.stdout
        names = {row.rpartition("|")[2].strip() for row in finished.stderr.splitlines()}
        assert "kcli.commands.shortcut" in names
        assert not names & {"typer", "rich", "trio", "crc32c", "dataclasses"}
