"""What every test may use: async tests under trio, a clock that jumps, goldens, and the command line.

An `async def` test runs in trio; with the `autojump_clock` fixture its sleeps take no time.
"""

from __future__ import annotations

import fcntl
import functools
import gc
import inspect
import os
import re
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import hypothesis
import pytest
import trio.testing
from typer.utils import get_params_from_function

from tests.support import shown_tables
from tests.support.seeds import sow, sow_workers

GOLDEN = Path(__file__).parent / "golden"

SET_BY_USERS = ("COLUMNS", "LINES", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
SET_BY_USERS += ("KCLI_BOOTSTRAP_SERVER", "KCLI_DATA_DIR", "KCLI_PROFILE")

# A busy machine must not fail a test.
ANY_PACE = (hypothesis.HealthCheck.too_slow,)
hypothesis.settings.register_profile("kcli", deadline=None, suppress_health_check=ANY_PACE, max_examples=60)
hypothesis.settings.register_profile(
    "thorough", deadline=None, suppress_health_check=ANY_PACE, max_examples=5000
)
hypothesis.settings.load_profile("kcli")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the golden files that tests compare with"
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log) -> object:
    from tests.support.file_queue import FileQueue

    if config.getoption("dist") != "loadfile":
        return None
    return FileQueue(config, log)


def pytest_configure(config: pytest.Config) -> None:
    # Otherwise every program that a test starts would be compiled again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # Commands print what they print without them, whether a test runs them here or as processes.
    for name in SET_BY_USERS:
        os.environ.pop(name, None)
    sow_workers()
    # Whoever gives tests to processes collects none, so that no other conftest is read there.
    config.pluginmanager.register(shown_tables)
    # Some tests are a thousand clients themselves, more than what a user's shell allows by default.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # A shell that runs tests in the background has them ignore Ctrl-C, and whatever they start as well.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Collect in as many processes at a time as there are processors: the rest find what these have compiled.

    Modules and tests are left out of garbage collection: they stay, and looking at them takes long.
    """
    worker = getattr(session.config, "workerinput", {"workerid": "gw0"})["workerid"]
    turns = sorted(Path(__file__).parent.glob("support/*.py"))
    gc.disable()
    try:
        with turns[int(worker.removeprefix("gw")) % (os.cpu_count() or 1)].open() as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        from tests.support.file_queue import put_in_order

        put_in_order(items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    sow(item.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    sow(item.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Let trio run a test that is a coroutine function, under the clock that the test asked for."""
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        test = pyfuncitem.obj

        @functools.wraps(test)
        def run(**arguments: object) -> None:
            clocks = [value for value in arguments.values() if isinstance(value, trio.abc.Clock)]
            trio.run(functools.partial(test, **arguments), clock=clocks[0] if clocks else None)

        pyfuncitem.obj = run


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    """A clock that jumps to the next deadline as soon as every task waits."""
    return trio.testing.MockClock(autojump_threshold=0)


@pytest.fixture
def hang_ups() -> Iterator[None]:
    """Have SIGHUP end what is started here, and fail the test itself: who runs tests may have it ignored."""

    def unheard(*_: object) -> None:
        pytest.fail("nobody heard the hang-up")

    before = signal.signal(signal.SIGHUP, unheard)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare text with a file under tests/golden; `--update-golden` writes it instead."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return compare


class Finished(NamedTuple):
    """What a run of the command line left."""

    exit_code: int
    out: str
    err: str


LIBRDKAFKA_LOG = re.compile(r"^%\d\|\d+\.\d+\|.*\n", re.MULTILINE)
"""What the threads of a librdkafka client, made by any test of this process, write to the same descriptor."""


@functools.cache
def parameters_of(command: Callable[..., object]) -> dict[str, object]:
    """Return what Typer makes of a command's annotations, which takes it longer than most commands run."""
    return get_params_from_function(command)


@pytest.fixture
def kcli(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Finished]:
    """Run kcli in this process, its terminal 80 columns wide and without colour."""
    from kcli.cli import main

    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("KCLI_BOOTSTRAP_SERVER", raising=False)
    monkeypatch.setattr("typer.main.get_params_from_function", parameters_of)

    def run(*arguments: str, input: bytes = b"") -> Finished:
        with standard_input(input):
            exit_code = main(arguments)
        captured = capfd.readouterr()
        return Finished(exit_code, captured.out, LIBRDKAFKA_LOG.sub("", captured.err))

    return run


class standard_input:
    """Make file descriptor 0 a pipe that holds `data` while inside."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __enter__(self) -> None:
        self.saved = os.dup(0)
        with os.fdopen(os.memfd_create("stdin"), "w+b", buffering=0) as file:
            file.write(self.data)
            file.seek(0)
            os.dup2(file.fileno(), 0)

    def __exit__(self, *_: object) -> None:
        os.dup2(self.saved, 0)
        os.close(self.saved)
