"""`kcli broker start --daemon`: the errors of a broker that does not start."""

from __future__ import annotations

import fcntl
import os
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from kcli.commands.broker.daemon import (
    LOG_FILE,
    MOST_WARNINGS,
    last_error,
    open_log,
    run_until_ready,
    start_daemon,
)
from kcli.errors import KcliError
from kcli.storage.disk import leads_to

if TYPE_CHECKING:
    from pathlib import Path

EARLIER = "error: the disk was full\n"


def daemon_failure(data_dir: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> KcliError:
    monkeypatch.setattr(sys, "argv", ["kcli", *arguments])
    with pytest.raises(KcliError) as caught:
        start_daemon(data_dir)
    return caught.value


def stand_in(directory: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """Replace the started broker by a shell script."""
    broker = directory / "broker"
    broker.write_text(f"#!/bin/sh\n{script}")
    broker.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(broker))
    return broker


def test_a_broker_that_says_nothing_is_not_given_the_reason_of_an_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / LOG_FILE).write_text(EARLIER)
    # A command that ends at once without output is like a killed broker.
    monkeypatch.setattr(sys, "executable", "/bin/true")
    error = daemon_failure(tmp_path, monkeypatch)
    assert error.message == "the broker did not start: it gave no reason"
    assert (error.hint, error.exit_code) == (f"see {tmp_path / LOG_FILE}", 1)


def test_the_reason_is_the_brokers_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / LOG_FILE).write_text(EARLIER)
    wrong = ("broker", "start", "--daemon", "--data-dir", str(tmp_path), "--override", "num.partition=1")
    error = daemon_failure(tmp_path, monkeypatch, *wrong)
    assert error.message == "the broker did not start: unknown broker config name: num.partition"
    assert (error.hint, error.exit_code) == ("did you mean `num.partitions`?", 2)
    assert (tmp_path / LOG_FILE).read_text().startswith(EARLIER)


@pytest.mark.parametrize("below", ["", "a/b"])
def test_what_a_failed_start_made_goes_and_what_it_logged_is_told(
    below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    data_dir = tmp_path / below
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = ("--data-dir", str(data_dir), "--host", "127.0.0.1", "--port", str(taken.getsockname()[1]))
        inert = ("--override", "num.io.threads=9")
        error = daemon_failure(data_dir, monkeypatch, "broker", "start", "--daemon", *where, *inert)
    assert "Address already in use" in error.message
    assert [*tmp_path.iterdir()] == []
    assert "num.io.threads" in capfd.readouterr().err


def test_all_that_a_broker_said_without_an_error_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    broker = stand_in(tmp_path, monkeypatch, "echo one >&2\necho two >&2\n")
    error = daemon_failure(tmp_path / "data", monkeypatch)
    assert (error.message, error.hint) == ("the broker did not start: it gave no reason", None)
    assert capfd.readouterr().err == "one\ntwo\n"
    assert [*tmp_path.iterdir()] == [broker]


WARNING = "2026-11-25 10:00:00,000 WARNING"


def started_with(
    lines: list[str], data_dir: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> tuple[str, str]:
    """Start a script that writes lines and is ready; return its stdout and stderr."""
    said = data_dir.parent / "said"
    said.write_text("".join(f"{line}\n" for line in lines))
    stand_in(data_dir.parent, monkeypatch, f"cat {said} >&2\necho ready\n")
    monkeypatch.setattr(sys, "argv", ["kcli"])
    start_daemon(data_dir)
    sys.stdout.flush()
    captured = capfd.readouterr()
    return captured.out, captured.err


def test_the_warnings_of_a_start_are_told_when_it_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    (data_dir / LOG_FILE).write_text(f"{WARNING} of an earlier start\n")
    error = "2026-11-25 10:00:00,001 ERROR cannot make the log directory"
    fine = "2026-11-25 10:00:00,002 INFO no WARNING at all"
    lines = [f"{WARNING} `num.io.threads` has no effect", fine, error]
    told = started_with(lines, data_dir, monkeypatch, capfd)
    assert told == ("ready\n", f"{lines[0]}\n{error}\n")


def test_of_too_many_warnings_the_log_has_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = [f"{WARNING} number {number}" for number in range(MOST_WARNINGS + 3)]
    out, err = started_with(lines, tmp_path / "data", monkeypatch, capfd)
    assert out == "ready\n"
    told = [*lines[:MOST_WARNINGS], f"3 more: see {tmp_path / 'data' / LOG_FILE}"]
    assert err.splitlines() == told


def test_the_log_of_a_broker_that_another_start_has_brought_up_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir, gate = tmp_path / "data", tmp_path / "gate"
    os.mkfifo(gate)
    stand_in(tmp_path, monkeypatch, f"read word <{gate}\necho error: in use >&2\n")
    with ThreadPoolExecutor() as starts:
        failed = starts.submit(daemon_failure, data_dir, monkeypatch)
        with gate.open("w"):  # The first start has its log by now, and its broker waits.
            log, is_new = open_log(data_dir / LOG_FILE)
        assert failed.result().message == "the broker did not start: in use"
    with log:
        assert not is_new
        assert leads_to(data_dir / LOG_FILE, log.fileno())


def test_a_broker_holds_the_lock_of_its_log_when_its_command_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    stand_in(tmp_path, monkeypatch, f"echo ready\nread word <{gate}\n")
    log, _ = open_log(tmp_path / LOG_FILE)
    with log:
        assert run_until_ready(log) is None
    with gate.open("w"), (tmp_path / LOG_FILE).open("rb") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    sys.stdout.flush()
    assert capfd.readouterr().out == "ready\n"


def test_a_log_that_was_removed_meanwhile_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / LOG_FILE
    path.touch()
    locked: list[object] = []

    def flock(file: object, _: int) -> None:
        if not locked:
            path.unlink()
        locked.append(file)

    monkeypatch.setattr(fcntl, "flock", flock)
    log, is_new = open_log(path)
    with log:
        assert is_new
        assert leads_to(path, log.fileno())


@pytest.mark.parametrize("name", ["x" * 300, "file/below"])
def test_a_directory_that_cannot_be_made_is_told_and_leaves_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    data_dir = tmp_path / "new" / name if name != "file/below" else tmp_path / name
    error = daemon_failure(data_dir, monkeypatch)
    assert error.message.startswith(f"cannot write to `{data_dir}`: ")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (b"", ("it gave no reason", None, [])),
        (b"2026 INFO fine\n", ("it gave no reason", None, ["2026 INFO fine"])),
        (b"error: first\nhint: x\nerror: second\nhint: y\n", ("second", "y", ["error: first", "hint: x"])),
        (b"error: first\nhint: x\nerror: second\n", ("second", None, ["error: first", "hint: x"])),
        (
            b"one\nerror: first\ntwo\nhint: x\nthree\nhint: y\n",
            ("first", "x", ["one", "two", "three", "hint: y"]),
        ),
        (b"\xff\xfe\nerror: \xe9\n", ("\ufffd", None, ["\ufffd\ufffd"])),
    ],
)
def test_the_last_error_of_this_run(written: bytes, reason: tuple[object, ...], tmp_path: Path) -> None:
    log_path = tmp_path / LOG_FILE
    log_path.write_bytes(EARLIER.encode() + written)
    with log_path.open("rb") as log:
        assert last_error(log, len(EARLIER)) == reason
