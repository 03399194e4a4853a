"""PidFile: what other commands learn of a running broker, and from a leftover."""

from __future__ import annotations

import fcntl
import json
import os
from typing import TYPE_CHECKING

import pytest

from kcli.broker.process.pid_file import FILE_NAME, PidFile, RunningBroker
from kcli.commands.broker.start import refuse_to_remove
from kcli.errors import KcliError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

BROKER = RunningBroker(4711, "localhost:9092", "cluster", 1_700_000_000_000)


def hold_as_reader(path: Path) -> int:
    """Take the lock that `read` takes for a moment."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def test_a_broker_is_found_until_it_withdraws(tmp_path: Path) -> None:
    published = PidFile(tmp_path)
    assert PidFile(tmp_path).read() is None
    published.lock()
    published.write(BROKER)
    assert PidFile(tmp_path).read() == BROKER
    published.remove()
    assert PidFile(tmp_path).read() is None
    assert not (tmp_path / FILE_NAME).exists()


def test_what_a_killed_broker_left_is_no_broker(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('{"pid": 1}')
    assert PidFile(tmp_path).read() is None


def test_a_broker_that_has_not_written_yet_is_not_ready(tmp_path: Path) -> None:
    with (tmp_path / FILE_NAME).open("w") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)
        assert PidFile(tmp_path).read() is None


def test_a_start_waits_for_a_reader_to_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = hold_as_reader(tmp_path / FILE_NAME)
    monkeypatch.setattr("kcli.broker.process.pid_file.time.sleep", lambda _: os.close(reader))
    published = PidFile(tmp_path)
    published.lock()
    published.write(BROKER)
    assert PidFile(tmp_path).read() == BROKER
    published.remove()


def test_a_start_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.broker.process.pid_file.time.sleep", lambda _: None)
    reader = hold_as_reader(tmp_path / FILE_NAME)
    with pytest.raises(KcliError) as caught:
        PidFile(tmp_path).lock()
    assert caught.value.message == f"`{tmp_path}` is in use by another process"
    os.close(reader)


def test_a_start_names_the_broker_that_has_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kcli.broker.process.pid_file.time.sleep", lambda _: None)
    running = PidFile(tmp_path)
    running.lock()
    running.write(BROKER)
    with pytest.raises(KcliError) as caught:
        PidFile(tmp_path).lock()
    assert caught.value.message == f"`{tmp_path}` is in use by process 4711"
    assert caught.value.hint == "stop that broker, or use another directory"
    assert PidFile(tmp_path).read() == BROKER
    running.remove()


def test_a_start_that_waits_for_an_end_is_found_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = PidFile(tmp_path), PidFile(tmp_path)
    before.lock()
    before.write(BROKER._replace(pid=1))
    monkeypatch.setattr("kcli.broker.process.pid_file.time.sleep", lambda _: before.remove())
    after.lock()
    after.write(BROKER)
    assert PidFile(tmp_path).read() == BROKER
    after.remove()
    assert not (tmp_path / FILE_NAME).exists()


def test_only_what_a_killed_ephemeral_broker_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "left"
    left.mkdir()
    (left / "node-1").mkdir()
    pid_file = PidFile(left)
    pid_file.lock()
    pid_file.write(BROKER._replace(is_ephemeral=True))
    killed = (left / FILE_NAME).read_bytes()
    with pytest.raises(UsageError, match="is not empty"):
        refuse_to_remove(left)  # It lives.
    pid_file.remove()

    (left / FILE_NAME).write_bytes(json.dumps(BROKER._asdict()).encode())
    with pytest.raises(UsageError, match="is not empty"):
        refuse_to_remove(left)  # It kept its data.
    (left / FILE_NAME).write_bytes(killed)
    refuse_to_remove(left)
    assert [*tmp_path.iterdir()] == []
