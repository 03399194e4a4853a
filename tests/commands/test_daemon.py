"""`kcli broker start --daemon`: what it says of a broker that does not come up."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

import pytest

from kcli.commands.broker_daemon import LOG_FILE, last_error, start_daemon
from kcli.errors import KcliError

if TYPE_CHECKING:
    from pathlib import Path

EARLIER = "error: the disk was full\n"


def daemon_failure(data_dir: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> KcliError:
    monkeypatch.setattr(sys, "argv", ["kcli", *arguments])
    with pytest.raises(KcliError) as caught:
        start_daemon(data_dir)
    return caught.value


def test_a_broker_that_says_nothing_is_not_given_the_reason_of_an_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / LOG_FILE).write_text(EARLIER)
    # A command that ends at once without a word stands for a broker that was killed.
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
        inert = ("--override", "log.cleaner.threads=2")
        error = daemon_failure(data_dir, monkeypatch, "broker", "start", "--daemon", *where, *inert)
    assert "Address already in use" in error.message
    assert [*tmp_path.iterdir()] == []
    assert "log.cleaner.threads" in capfd.readouterr().err


def test_all_that_a_broker_said_without_an_error_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    broker = tmp_path / "broker"
    broker.write_text("#!/bin/sh\necho one >&2\necho two >&2\n")
    broker.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(broker))
    error = daemon_failure(tmp_path / "data", monkeypatch)
    assert (error.message, error.hint) == ("the broker did not start: it gave no reason", None)
    assert capfd.readouterr().err == "one\ntwo\n"
    assert [*tmp_path.iterdir()] == [broker]


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (b"", ("it gave no reason", None, [])),
        (b"2026 INFO fine\n", ("it gave no reason", None, ["2026 INFO fine"])),
        (b"error: first\nhint: x\nerror: second\nhint: y\n", ("second", "y", ["error: first", "hint: x"])),
        (b"error: first\nhint: x\nerror: second\n", ("second", None, ["error: first", "hint: x"])),
        (b"\xff\xfe\nerror: \xe9\n", ("\ufffd", None, ["\ufffd\ufffd"])),
    ],
)
def test_the_last_error_of_this_run(written: bytes, reason: tuple[object, ...], tmp_path: Path) -> None:
    log_path = tmp_path / LOG_FILE
    log_path.write_bytes(EARLIER.encode() + written)
    assert last_error(log_path, len(EARLIER)) == reason
