"""What the README shows is what a reader gets: its first commands, run by a shell against a new broker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.kcli_broker import KcliBroker
from tests.support.ports import free_ports

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

MASKS = {
    r"\b[\w-]{22}\b": "<id>",
    r"\b\d{13}\b": "<time>",
    r"(localhost|127\.0\.0\.1):\d+": "<broker>",
    r"bytes \d+ to \d+": "<bytes>",
}
"""What differs from one run to the next."""


class Shown(NamedTuple):
    """A command line of the README, and what it says that comes of it."""

    command: str
    output: list[str]


def shown(section: str, block: int = 0) -> list[Shown]:
    """Return the commands of a console block in a section."""
    text = README.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    found: list[Shown] = []
    for line in re.findall(r"```console\n(.*?)```", text, re.DOTALL)[block].splitlines():
        if line.startswith("$ "):
            found.append(Shown(line.removeprefix("$ "), []))
        else:
            found[-1].output.append(line)
    return found


def masked(lines: list[str]) -> list[str]:
    """Return lines without what differs from one run to the next."""
    for pattern, word in MASKS.items():
        lines = [re.sub(pattern, word, line) for line in lines]
    return lines


def environment_of(directory: Path) -> dict[str, str]:
    """Return the environment of a shell that has kcli on its path, which is written into a directory."""
    program = directory / "bin" / "kcli"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kcli "$@"\n')
    program.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a shell that has kcli on its path, and a new broker to talk to."""
    environment = environment_of(tmp_path)
    broker = KcliBroker(tmp_path).start()
    yield {
        **environment,
        "KCLI_BOOTSTRAP_SERVER": broker.bootstrap,
        "KCLI_DATA_DIR": str(broker.data),
    }
    broker.stop()


def run(command: str, shell: dict[str, str]) -> list[str]:
    """Run one command line; return all that it printed."""
    return run_in(ROOT, command, shell)


def run_in(directory: Path, command: str, shell: dict[str, str]) -> list[str]:
    """Run one command line in a directory; return all that it printed."""
    finished = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env=shell,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return finished.stdout.splitlines()


def test_the_first_commands_print_what_the_readme_shows(shell: dict[str, str]) -> None:
    for command, output in shown("Ten commands"):
        assert masked(run(command, shell)) == masked(output), command


def test_a_group_goes_on_as_the_readme_shows(shell: dict[str, str]) -> None:
    for command, _ in shown("Ten commands")[:2]:
        run(command, shell)
    for command, output in shown("Consumer groups"):
        assert masked(run(command, shell)) == masked(output), command


@pytest.mark.parametrize("block", [0, 1], ids=["transactions", "compaction"])
def test_transactions_and_compaction_are_as_the_readme_shows(shell: dict[str, str], block: int) -> None:
    for command, output in shown("Transactions and compaction", block):
        assert masked(run(command, shell)) == masked(output), command


def test_a_secured_broker_is_as_the_readme_shows(tmp_path: Path) -> None:
    environment = environment_of(tmp_path)
    (port,) = free_ports(1)
    environment["KCLI_BOOTSTRAP_SERVER"] = f"localhost:{port}"
    start, *others = shown("A secured broker in one line")
    try:
        (ready,) = run_in(tmp_path, f"{start.command} --port {port}", environment)
        words, expected = ready.split(), start.output[0].split()
        assert [word for word in words if word.isalpha()] == [word for word in expected if word.isalpha()]
        for command, output in others:
            assert masked(run_in(tmp_path, command, environment)) == masked(output), command
    finally:
        run_in(tmp_path, "kcli broker stop", environment)
