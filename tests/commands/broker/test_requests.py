"""`kcli broker requests`: its output, its end, and the results of a real process."""

from __future__ import annotations

import json
import os
import pty
import signal
import sys
from contextlib import asynccontextmanager, closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

from kcli.broker.process.control_server import ControlServer, LongOperation
from kcli.broker.process.meter_operations import MOST_SECONDS
from kcli.commands.broker import requests as broker_requests
from kcli.control_socket import ask, running_operation
from kcli.errors import KcliError
from tests.commands.broker.control import answering
from tests.support.kcli_broker import KcliBroker
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping
    from pathlib import Path

    from tests.commands.conftest import Transcript
    from tests.conftest import Finished


def times(*values: float) -> dict[str, float]:
    return dict(zip(("mean", "p50", "p99", "max"), values, strict=True))


def row(node: int, api: str, requests: int, **ms: dict[str, float]) -> dict[str, Any]:
    return {"node": node, "api": api, "requests": requests, "per_second": requests / 5, **ms}


FETCHES = {
    "local_ms": times(0.0454, 0.0432, 0.0611, 0.0611),
    "remote_ms": times(500.3, 500.2, 501.04, 501.04),
    "total_ms": times(500.35, 500.25, 501.1, 501.1),
}
ROWS = [
    row(1, "Fetch", 10, **FETCHES),
    row(1, "FetchConsumer", 10, **FETCHES),
    row(
        2,
        "JoinGroup",
        1,
        local_ms=times(*[0.2] * 4),
        remote_ms=times(*[45012.34] * 4),
        total_ms=times(*[45012.54] * 4),
    ),
    row(
        2,
        "Produce",
        12345,
        local_ms=times(0.0121, 0.0109, 0.0433, 12.25),
        remote_ms=times(0, 0, 0, 0),
        total_ms=times(0.0121, 0.0109, 0.0433, 12.25),
    ),
]


async def measure(cluster: object, arguments: Mapping[str, Any]) -> LongOperation:
    """Nodes 1 and 2 got requests, node 3 none."""
    node = arguments.get("node")
    if node == 9:
        raise KcliError("there is no node 9", hint="the nodes are 1, 2, 3")
    rows = [each for each in ROWS if node in (None, each["node"])]
    nodes = [1, 2, 3] if node is None else [node]

    async def until(left: trio.Event) -> dict[str, Any]:
        return {"seconds": float(arguments["seconds"]), "nodes": nodes, "apis": rows}

    return LongOperation(until)


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A control socket that answers at once."""
    monkeypatch.setenv("KCLI_DATA_DIR", str(tmp_path))
    with answering(tmp_path, {"requests.measure": measure}):
        yield


@pytest.mark.usefixtures("process")
def test_what_it_shows(transcript: Transcript) -> None:
    transcript(
        "broker_requests",
        "broker requests",
        "broker requests -o table",
        "broker requests -o json",
        "broker requests --node 1 --seconds 10",
        "broker requests --node 1 -o table",
        "broker requests --node 3",
        "broker requests --node 3 -o table",
        "broker requests --node 3 -o json",
        "broker requests --node 9",
    )


@pytest.mark.parametrize(
    "words",
    ["--seconds 0", "--seconds -1", "--seconds 3601", f"--seconds {10**30}", "--seconds x", "--node -1"],
)
def test_what_makes_no_sense_is_refused(words: str, tmp_path: Path, kcli: Callable[..., Finished]) -> None:
    finished = kcli("broker", "requests", "--data-dir", str(tmp_path), *words.split())
    assert finished.exit_code == 2
    assert finished.err.startswith(f"error: invalid value for `{words.split()[0]}`")


def test_it_asks_for_no_more_than_a_process_measures() -> None:
    assert broker_requests.MOST_SECONDS == MOST_SECONDS


def test_where_no_broker_runs_it_says_so(tmp_path: Path, kcli: Callable[..., Finished]) -> None:
    finished = kcli("broker", "requests", "--data-dir", str(tmp_path))
    assert (finished.exit_code, finished.out) == (1, "")
    assert finished.err.splitlines()[0] == f"error: no broker runs in `{tmp_path}`"


def test_to_be_asked_to_measure_is_no_request(tmp_path: Path, kcli: Callable[..., Finished]) -> None:
    with closing(KcliBroker(tmp_path)) as broker:
        broker.start()
        finished = kcli("broker", "requests", "--seconds", "1", "--data-dir", str(broker.data), "-o", "json")
        assert broker.stop() == 0
    result = json.loads(finished.out)
    assert finished.exit_code == 0
    assert (result["nodes"], result["apis"]) == ([1], [])
    assert 1 <= result["seconds"] < PATIENCE_SECONDS
    assert finished.err == f"no request came and was answered within {result['seconds']:.1f} s\n"


# --- how it ends -----------------------------------------------------------------------------------------


class Process:
    """A process that measures until its client leaves or it ends, and then reports one API."""

    server: ControlServer

    def __init__(self) -> None:
        self.asked, self.left = trio.Event(), trio.Event()

    async def measure(self, cluster: object, arguments: Mapping[str, Any]) -> LongOperation:
        return LongOperation(self._until)

    async def _until(self, left: trio.Event) -> dict[str, Any]:
        self.asked.set()
        await left.wait()
        self.left.set()
        return {"seconds": 2.0, "nodes": [1], "apis": ROWS[:1]}


@contextmanager
def bounded() -> Iterator[None]:
    with trio.fail_after(PATIENCE_SECONDS):
        yield


async def served(process: Process, data_dir: Path, nursery: trio.Nursery) -> list[str]:
    """Serve a control socket; return the command line that measures for an hour."""
    operations = {"requests.measure": process.measure}
    process.server = ControlServer(None, data_dir, operations=lambda: operations)  # type: ignore[arg-type]
    await nursery.start(process.server.run)
    words = ["broker", "requests", "--seconds", str(MOST_SECONDS), "--data-dir", str(data_dir)]
    return [sys.executable, "-m", "kcli", *words]


async def whole(stream: trio.abc.ReceiveStream | None) -> str:
    assert stream is not None
    return b"".join([bytes(data) async for data in stream]).decode()


@asynccontextmanager
async def measuring(data_dir: Path, **options: Any) -> AsyncIterator[tuple[Process, trio.Process]]:
    """A process, and the command that makes it measure."""
    process = Process()
    with bounded():
        async with trio.open_nursery() as nursery:
            command = await served(process, data_dir, nursery)
            child = await trio.lowlevel.open_process(command, stdout=-1, **{"stderr": -1, **options})
            await process.asked.wait()
            yield process, child
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
async def test_an_interrupt_shows_what_was_measured_so_far(number: signal.Signals, tmp_path: Path) -> None:
    async with measuring(tmp_path) as (_, child):
        child.send_signal(number)
        shown, errors = await whole(child.stdout), await whole(child.stderr)
        assert await child.wait() == 130
    assert shown.startswith("Fetch: 10 requests, 2.0/s, local ms mean 0.045 ")
    assert errors == ""


@pytest.mark.parametrize("how", ["killed", "without a reader"])
async def test_nobody_measures_for_one_that_is_gone(how: str, tmp_path: Path) -> None:
    async with measuring(tmp_path) as (process, child):
        if how == "killed":
            child.kill()
        else:
            assert child.stdout is not None
            await child.stdout.aclose()
        await process.left.wait()
        assert await whole(child.stderr) == ""
        assert await child.wait() == (-signal.SIGKILL if how == "killed" else 0)


async def test_a_process_that_is_stopped_meanwhile_has_told_what_it_measured(tmp_path: Path) -> None:
    process = Process()
    with bounded():
        async with trio.open_nursery() as nursery:
            command = await served(process, tmp_path, nursery)
            child = await trio.lowlevel.open_process(command, stdout=-1, stderr=-1)
            await process.asked.wait()
            await process.server.finish()
            nursery.cancel_scope.cancel()
        shown, errors = await whole(child.stdout), await whole(child.stderr)
        assert await child.wait() == 1
    assert shown.startswith("Fetch: 10 requests, 2.0/s, local ms mean 0.045 ")
    assert errors == (
        "error: the broker was stopped after 2.0 s of 3600\nhint: the results are those until then\n"
    )


def test_a_broker_that_is_stopped_answers_first(tmp_path: Path) -> None:
    with closing(KcliBroker(tmp_path)) as broker:
        broker.start()
        with running_operation(broker.data, "requests.measure", seconds=MOST_SECONDS) as operation:
            # Its answer comes after the start of the measurement.
            ask(broker.data, "node.list", timeout_seconds=PATIENCE_SECONDS)
            assert broker.stop() == 0
            answer = operation.result(timeout_seconds=PATIENCE_SECONDS)
    assert (answer["nodes"], answer["apis"]) == ([1], [])
    assert 0 < answer["seconds"] < PATIENCE_SECONDS


async def test_a_process_that_ends_meanwhile_is_missed(tmp_path: Path) -> None:
    process = Process()
    with bounded():
        async with trio.open_nursery() as outer:
            async with trio.open_nursery() as nursery:
                command = await served(process, tmp_path, nursery)
                child = await trio.lowlevel.open_process(command, stdout=-1, stderr=-1)
                await process.asked.wait()
                nursery.cancel_scope.cancel()
            shown, errors = await whole(child.stdout), await whole(child.stderr)
            assert await child.wait() == 1
            outer.cancel_scope.cancel()
    assert (shown, errors) == ("", f"error: the broker in `{tmp_path}` ended before it answered\n")


async def test_a_terminal_shows_how_much_of_the_time_is_over(tmp_path: Path) -> None:
    seen = b""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    async with measuring(tmp_path, stderr=theirs, env=environment) as (_, child):
        os.close(theirs)
        while b" of 3600 s" not in seen:
            await trio.lowlevel.wait_readable(ours)
            seen += os.read(ours, 4096)
        child.send_signal(signal.SIGINT)
        assert (await whole(child.stdout)).startswith("Fetch: 10 requests")
        assert await child.wait() == 130
    os.close(ours)
    assert b"measuring" in seen
