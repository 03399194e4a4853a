"""A broker in SIGSTOP: commands fail soon with a clear error, and after SIGCONT it continues."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kcli.control_socket import ask, refuse_stopped
from kcli.errors import KcliError
from tests.conftest import Finished
from tests.support.kcli_broker import KcliBroker

Kcli = Callable[..., Finished]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KcliBroker]:
    broker = KcliBroker(tmp_path, arguments=("--port", "0"))
    broker.start()
    try:
        yield broker
    finally:
        broker.close()


def test_it_is_told_and_goes_on(broker: KcliBroker, kcli: Kcli) -> None:
    directory = ("--data-dir", str(broker.data))
    pid = broker.process.pid
    told = Finished(
        1,
        "",
        f"error: the broker does not answer: process {pid} is stopped\n"
        f"hint: `kill -CONT {pid}` lets it go on\n",
    )
    os.kill(pid, signal.SIGSTOP)
    for line in ("status", "node list", "node kill 1", "fault list", "stop"):
        assert kcli("broker", *line.split(), *directory) == told
    # No request is left from before.
    os.kill(pid, signal.SIGCONT)
    assert kcli("broker", "node", "list", *directory).exit_code == 0
    assert "killed" not in broker.messages()
    assert "stopping" not in broker.messages()


@pytest.mark.parametrize("goes_on", [True, False])
def test_one_that_is_stopped_while_it_is_asked(
    goes_on: bool, broker: KcliBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def look(process_id: int) -> None:
        nonlocal looks
        looks += 1
        if looks == 2 and goes_on:
            os.kill(process_id, signal.SIGCONT)
        refuse_stopped(process_id)
        if looks == 1:
            os.kill(process_id, signal.SIGSTOP)

    monkeypatch.setattr("kcli.control_socket.SILENT_SECONDS", 0.01)
    monkeypatch.setattr("kcli.control_socket.refuse_stopped", look)
    if goes_on:
        rows = ask(broker.data, "node.list", timeout_seconds=30)
        assert [row["node"] for row in rows] == [1]
    else:
        with pytest.raises(KcliError, match="is stopped"):
            ask(broker.data, "node.list", timeout_seconds=30)
    assert looks >= 2
