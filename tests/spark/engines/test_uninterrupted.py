"""Ctrl-C while a session is made or ended: it waits, and is obeyed then; asked twice, at once."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGTERM

import pytest

from kcli.spark.engines.session import jvm_launches, py4j_silenced, uninterrupted
from kcli.spark.export.stop_request import signals_wait, stop_requests, termination_interrupts
from tests.support.waiting import eventually

Signals = tuple[signal.Signals, ...]

HEARD = (SIGINT, SIGTERM, SIGHUP)


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Whoever runs the tests may have Ctrl-C ignored, and the end of the terminal."""
    before = {one: signal.signal(one, signal.default_int_handler) for one in HEARD}
    yield
    handlers = [signal.signal(one, previous) for one, previous in before.items()]
    assert handlers == [signal.default_int_handler] * 3


class Making:
    """What is made and ended, and the signals that come meanwhile."""

    def __init__(self, making: Signals = (), using: Signals = (), ending: Signals = ()) -> None:
        self.signals = {"made": making, "used": using, "ended": ending}
        self.events: list[str] = []

    def step(self, name: str) -> None:
        for number in self.signals[name]:
            signal.raise_signal(number)
        self.events.append(name)

    def run(self) -> None:
        with uninterrupted(lambda: self.step("made"), lambda _: self.step("ended")):
            self.step("used")


def test_what_nobody_interrupts_is_made_used_and_ended() -> None:
    making = Making()
    making.run()
    assert making.events == ["made", "used", "ended"]


@pytest.mark.parametrize(
    ("signals", "events"),
    [
        ({"making": (SIGINT,)}, ["made", "ended"]),
        ({"making": (SIGTERM,)}, ["made", "ended"]),
        ({"making": (SIGHUP,)}, ["made", "ended"]),
        ({"making": (SIGINT, SIGINT)}, []),
        ({"making": (SIGINT, SIGTERM)}, []),
        ({"using": (SIGINT,)}, ["made", "ended"]),
        ({"ending": (SIGINT,)}, ["made", "used", "ended"]),
        ({"ending": (SIGINT, SIGINT)}, ["made", "used"]),
        ({"making": (SIGINT,), "ending": (SIGINT,)}, ["made", "ended"]),
    ],
)
def test_an_interrupt_waits_and_a_second_one_does_not(signals: dict[str, Signals], events: list[str]) -> None:
    making = Making(**signals)
    with pytest.raises(KeyboardInterrupt):
        making.run()
    assert making.events == events


@pytest.mark.parametrize(
    ("signals", "event"), [((), "used"), ((SIGTERM,), "used"), ((SIGTERM, SIGINT), "cut off")]
)
def test_a_call_that_must_not_be_cut_off_ends_before_a_signal_is_obeyed(signals: Signals, event: str) -> None:
    """By whomever: a plan that runs under `--follow` goes on after a first signal."""
    making = Making(using=signals)
    with stop_requests() as asked:
        try:
            with signals_wait():
                making.step("used")
        except KeyboardInterrupt:
            making.events.append("cut off")
        assert asked.wait(0) == bool(signals)
    assert making.events == [event]


@pytest.mark.parametrize("number", [SIGINT, SIGHUP])
def test_who_ignores_a_signal_goes_on_to_ignore_it(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_IGN)
    making = Making(making=(number, number), ending=(number, number))
    making.run()
    assert making.events == ["made", "used", "ended"]
    assert signal.signal(number, signal.default_int_handler) == signal.SIG_IGN


@pytest.mark.parametrize("interrupts", [termination_interrupts])
@pytest.mark.parametrize("number", [SIGTERM, SIGHUP])
def test_an_export_ends_as_with_ctrl_c(
    number: signal.Signals, interrupts: Callable[[], AbstractContextManager[None]]
) -> None:
    signal.signal(number, unheard)
    with pytest.raises(KeyboardInterrupt), interrupts():
        signal.raise_signal(number)
    assert signal.signal(number, signal.SIG_IGN) is unheard
    with interrupts():
        signal.raise_signal(number)
    assert signal.signal(number, signal.default_int_handler) is signal.SIG_IGN


def unheard(number: int, _: object) -> None:
    pytest.fail(f"nobody heard signal {number}")


def test_what_cannot_be_made_is_not_ended() -> None:
    ended: list[object] = []

    def fail() -> object:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"), uninterrupted(fail, ended.append):
        pass
    assert ended == []


def test_a_process_that_pyspark_starts_is_known_and_killed_with_its_own() -> None:
    from pyspark import java_gateway

    waits = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with jvm_launches(java_gateway) as launches:
        process = java_gateway.Popen(
            ["/bin/sh", "-c", '"$@"; true', "sh", *waits],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,
        )
    with process:
        assert launches.processes == [process]
        assert process.stdout.readline() == b"\n"
        launches.kill()
        launches.kill()
        # Whoever held the other end of the pipe is gone.
        assert process.stdout.read() == b""
        assert process.returncode == -signal.SIGKILL
    assert java_gateway.Popen is subprocess.Popen


def test_only_py4j_is_silenced(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    # A session that other tests have open silences it as well.
    monkeypatch.setattr(logging.getLogger(), "filters", [])
    with py4j_silenced():
        logging.error("KeyboardInterrupt while sending command.")
        logging.error("Exception while sending command.")
        logging.error("something else")
    logging.error("Exception while sending command.")
    assert caplog.messages == ["something else", "Exception while sending command."]


JAVA = """#!/bin/sh
exec 9> {alive}
echo >&9
exec sleep 60
"""

PROGRAM = """
import signal
from kcli.spark.engines.session import SessionSettings, open_session

for one in (signal.SIGINT, signal.SIGTERM):
    signal.signal(one, signal.default_int_handler)
with open_session(SessionSettings()):
    pass
"""


@pytest.fixture
def java(tmp_path: Path) -> Iterator[int]:
    """A Java that never comes up, and a pipe: empty before it runs, held open by it, at its end behind it."""
    home, alive = tmp_path / "java", tmp_path / "alive"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text('JAVA_VERSION="21"\n')
    (home / "bin" / "java").write_text(JAVA.format(alive=alive))
    (home / "bin" / "java").chmod(0o700)
    os.mkfifo(alive)
    pipe = os.open(alive, os.O_RDONLY | os.O_NONBLOCK)
    yield pipe
    os.close(pipe)


def is_gone(pipe: int) -> bool:
    try:
        return os.read(pipe, 1) == b""
    except BlockingIOError:
        return False


def test_a_jvm_that_does_not_come_up_is_gone_after_a_second_interrupt(java: int, tmp_path: Path) -> None:
    environment = os.environ | {"JAVA_HOME": str(tmp_path / "java"), "TMPDIR": str(tmp_path)}
    for name in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        environment.pop(name, None)
    running = subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, stderr=subprocess.PIPE)
    with running:
        eventually(lambda: not is_gone(java) or running.poll() is not None, "Java is started")
        # Two signals of one kind could become one.
        running.send_signal(SIGINT)
        running.send_signal(SIGTERM)
        _, errors = running.communicate()
    assert errors.splitlines()[-1] == b"KeyboardInterrupt"
    eventually(lambda: is_gone(java), "Java has ended")
    assert list(tmp_path.glob("kcli-spark-*.log")) == []
