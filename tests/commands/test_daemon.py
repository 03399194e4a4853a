"""`kcli broker start --daemon`: what it says of a broker that does not come up."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    ("written", "reason", "hint"),
    [
        (b"", "it gave no reason", None),
        (b"2026 INFO fine\n", "it gave no reason", None),
        (b"error: first\nhint: x\nerror: second\nhint: y\n", "second", "y"),
        (b"error: first\nhint: x\nerror: second\n", "second", None),
        (b"\xff\xfe\nerror: \xe9\n", "\ufffd", None),
    ],
)
def test_the_last_error_of_this_run(written: bytes, reason: str, hint: str | None, tmp_path: Path) -> None:
    log_path = tmp_path / LOG_FILE
    log_path.write_bytes(EARLIER.encode() + written)
    assert last_error(log_path, len(EARLIER)) == (reason, hint)
