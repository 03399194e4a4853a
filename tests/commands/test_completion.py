"""Completion: the scripts in the repository are the program's, shells can use them, clusters may be slow."""

from __future__ import annotations

import json
import os
import pty
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kcli.commands.completion import SCRIPTS
from tests.commands.fake_groups import FakeGroups
from tests.commands.fake_transactions import FakeTransactions
from tests.conftest import Finished
from tests.support.toolchain import need
from tests.support.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parent.parent.parent

Complete = Callable[[str], list[str]]


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_scripts_in_the_repository_are_those_of_the_program(
    shell: str, kcli: Callable[..., Finished]
) -> None:
    finished = kcli("completion", shell)
    assert finished.out == (ROOT / "completions" / f"kcli.{shell}").read_text()
    as_json = json.loads(kcli("completion", shell, "-o", "json").out)
    assert as_json == {"shell": shell, "script": finished.out}


@pytest.fixture
def complete(kcli: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch) -> Complete:
    """Return the candidates for the last word of a line, as bash's script asks for them."""

    def candidates(line: str) -> list[str]:
        words = line.split(" ")
        monkeypatch.setenv("_KCLI_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", "\n".join(words))
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        with pytest.raises(SystemExit):
            kcli()
        return []

    return candidates


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("kcli to", ["topics"]),
        ("kcli topics d", ["describe", "delete"]),
        ("kcli topics describe --under-m", ["--under-min-isr-partitions"]),
        ("kcli topics list -o ", ["table", "text", "json"]),
        ("kcli completion ", ["bash", "zsh", "fish"]),
        ("kcli topics describe or", ["orders", "orders-2"]),
        ("kcli configs describe --topic cl", ["clicks"]),
        ("kcli consume nothing", []),
        ("kcli consumer-groups re", ["reset-offsets", "remove-members"]),
        ("kcli consumer-groups describe bil", ["billing", "billing-test"]),
        ("kcli consumer-groups reset-offsets --group au", ["audit"]),
        ("kcli reassign-partitions generate or", ["orders", "orders-2"]),
        ("kcli reassign-partitions generate orders --strategy ", ["minimal", "spread"]),
        ("kcli configs describe --group au", ["audit"]),
        ("kcli configs alter orders --add min", ["min.insync.replicas"]),
        ("kcli configs alter orders --add retention.ms=1,min", ["retention.ms=1,min.insync.replicas"]),
        ("kcli configs alter --group billing --delete cons", ["consumer.session.timeout.ms"]),
        ("kcli topics create new --config cl", ["cleanup.policy"]),
        ("kcli cluster un", ["unregister"]),
        ("kcli produce orders -z ", ["none", "gzip", "snappy", "lz4", "zstd"]),
        ("kcli trans", ["transactions"]),
        ("kcli transactions d", ["describe", "describe-producers"]),
        ("kcli transactions describe-producers cl", ["clicks"]),
        ("kcli spark-ex", ["spark-export"]),
        ("kcli spark-export or", ["orders", "orders-2"]),
        ("kcli spark-export orders --engine ", ["spark", "local"]),
        ("kcli spark-export orders --on-corrupt d", ["dead-letter"]),
        ("kcli spark-import out --topic cl", ["clicks"]),
    ],
)
def test_bash_is_told_the_candidates(
    line: str,
    expected: list[str],
    complete: Complete,
    groups: FakeGroups,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kcli.commands.shared.completion.TIME_LIMIT_S", PATIENCE_SECONDS)
    for name in ("orders", "orders-2", "clicks"):
        groups.add(name, [1])
    for name in ("billing", "billing-test", "audit"):
        groups.add_group(name)
    complete(line)
    assert capfd.readouterr().out.split() == expected


@pytest.mark.parametrize("line", ["describe pay", "describe ledger pay", "force-terminate pay"])
def test_transactional_ids_are_completed(
    line: str,
    complete: Complete,
    transactions: FakeTransactions,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kcli.commands.shared.completion.TIME_LIMIT_S", PATIENCE_SECONDS)
    complete(f"kcli transactions {line}")
    assert capfd.readouterr().out.split() == ["payments-1", "payments-2"]


def completed(*words: str) -> tuple[subprocess.CompletedProcess[bytes], float]:
    """Complete in a process; return it and its duration in seconds."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "_KCLI_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    started = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-m", "kcli"], env=environment, cwd=ROOT, capture_output=True, check=False
    )
    return process, time.monotonic() - started


def test_a_broker_that_does_not_answer_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        process, with_broker = completed("kcli", "topics", "describe", "-b", address, "or")
    _, without = completed("kcli", "topics", "des")
    assert (process.returncode, process.stdout.strip(), process.stderr) == (0, b"", b"")
    assert with_broker - without < 10


def test_no_broker_at_all_is_no_error() -> None:
    process, _ = completed("kcli", "topics", "describe", "-b", "127.0.0.1:1", "or")
    assert (process.returncode, process.stdout.strip(), process.stderr) == (0, b"", b"")


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put this kcli first in the PATH of shells."""
    program = tmp_path / "kcli"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kcli "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


@pytest.mark.usefixtures("on_path")
def test_bash_completes_with_the_script() -> None:
    need("bash")
    script = (
        "source completions/kcli.bash; COMP_WORDS=(kcli topics li); COMP_CWORD=2; "
        "_kcli_completion kcli; echo ${COMPREPLY[@]}"
    )
    output = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, check=True)
    assert output.stdout == b"list\n"


@pytest.mark.usefixtures("on_path")
def test_fish_completes_with_the_script() -> None:
    need("fish")
    script = "source completions/kcli.fish; complete -C 'kcli topics li'"
    output = subprocess.run(["fish", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    (line,) = output.stdout.splitlines()
    name, help_text = line.split("\t")
    assert (name, help_text.startswith("List topics")) == ("list", True)


@pytest.mark.usefixtures("on_path")
def test_zsh_completes_with_the_script() -> None:
    need("zsh")
    terminal, of_shell = pty.openpty()
    environment = {**os.environ, "PS1": "READY> ", "TERM": "dumb"}
    standard = {"stdin": of_shell, "stdout": of_shell, "stderr": of_shell}
    with subprocess.Popen(
        ["zsh", "-f", "-i"], cwd=ROOT, env=environment, start_new_session=True, **standard
    ) as shell:
        os.close(of_shell)
        try:
            screen = Screen(terminal)
            screen.wait_for(b"READY> ")
            # The terminal echoes the input, so the awaited word is not typed completely.
            load = b"autoload -U compinit; compinit -u -D; source completions/kcli.zsh; echo LOA''DED\n"
            os.write(terminal, load)
            screen.wait_for(b"LOADED")
            # It reads keys again.
            screen.wait_for(b"READY> ")
            os.write(terminal, b"kcli topics li\t")
            screen.wait_for(b"kcli topics list")
        finally:
            shell.kill()
            os.close(terminal)


class Screen:
    """What a terminal shows."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._unseen = b""

    def wait_for(self, wanted: bytes) -> None:
        """Wait for a text after the last awaited one; fail with the screen's content."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while wanted not in self._unseen:
            ready, _, _ = select.select([self._terminal], [], [], max(0, deadline - time.monotonic()))
            assert ready, self._unseen
            self._unseen += os.read(self._terminal, 4096)
        self._unseen = self._unseen.partition(wanted)[2]


def test_profiles_are_completed(
    complete: Complete,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "kcli").mkdir()
    (tmp_path / "kcli" / "profiles.toml").write_text("[staging]\n[stage-2]\n[production]\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    complete("kcli topics list --profile sta")
    assert capfd.readouterr().out.split() == ["staging", "stage-2"]
