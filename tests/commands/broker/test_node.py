"""`kcli broker node`: its output, its requests to the process, and the life of nodes in a real process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kcli.broker.process.pid_file import PidFile, RunningBroker
from kcli.commands.broker import node as broker_node
from kcli.commands.broker.app import BrokerStatus
from kcli.errors import KcliError
from tests.support.kcli_broker import KcliBroker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.commands.conftest import Transcript
    from tests.conftest import Finished

QUICK = {"broker.heartbeat.interval.ms": "100", "broker.session.timeout.ms": "1000"}


def row(node: int, **changed: object) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "node": node,
        "state": "running",
        "ended_by": None,
        "reason": None,
        "host": "localhost",
        "port": 9091 + node,
        "rack": None,
        "fenced": False,
        "is_controller": False,
        "leads": 2,
        "replicas": 6,
        "in_sync": 6,
        "metadata_offset": 41,
        "log_dirs": [f"/data/node-{node}"],
        "listeners": [f"PLAINTEXT://localhost:{9091 + node}"],
    }
    return plain | changed


ROWS = [
    row(1, is_controller=True, rack="a", listeners=["IN:PLAINTEXT://localhost:9092", "SASL_SSL://h:1"]),
    row(2, state="paused", fenced=True, rack="b", leads=0, in_sync=0),
    row(
        3, state="dead", ended_by="failed", reason="node 3 stops: every log directory has failed", fenced=True
    ),
    row(4, state="dead", host=None, port=None, metadata_offset=None),
]


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process with nodes in every state, which obeys except for node 9."""
    answers: dict[str, Any] = {
        "node.list": ROWS,
        "node.add": {"node": 2},
        "node.remove": {"node": 3, "kept": "/data/node-3-removed", "replicas": 0},
    }

    def ask(data_dir: Path, operation: str, *, timeout_seconds: float, **arguments: object) -> Any:
        if arguments.get("node") == 9:
            raise KcliError("there is no node 9", hint="the nodes are 1, 2, 3, 4")
        return answers.get(operation, arguments)

    monkeypatch.setattr(broker_node, "ask", ask)


@pytest.mark.usefixtures("process")
def test_what_it_says(transcript: Transcript) -> None:
    transcript(
        "broker_node",
        "broker node list",
        "broker node list -o table",
        "broker node list -o json",
        "broker node stop 2",
        "broker node kill 2",
        "broker node start 2 -o json",
        "broker node pause 2",
        "broker node resume 2",
        "broker node add",
        "broker node remove 3",
        "broker node stop 9",
        "broker node stop two",
    )


STOPPED = [row(node, state="dead", ended_by="stopped", fenced=True) for node in (2, 3, 4)]


@pytest.mark.parametrize(
    ("rows", "where", "error"),
    [
        pytest.param(ROWS, "running: localhost:9092,localhost:9093", "", id="where nodes run"),
        pytest.param(
            STOPPED,
            "running without a node: localhost:9093,localhost:9094,localhost:9095",
            "error: no node of the broker in `{data}` runs\nhint: `kcli broker node start 2` starts one\n",
            id="where nodes were",
        ),
    ],
)
def test_a_status_tells_what_is_true_now(
    rows: list[dict[str, Any]],
    where: str,
    error: str,
    tmp_path: Path,
    kcli: Callable[..., Finished],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = {"limit": 1000, "reserve": 100, "open": 900, "accepting_stopped": 2}
    answers = {"node.list": rows, "process.file-descriptors": counts}
    monkeypatch.setattr(broker_node, "ask", lambda _, operation, **__: answers[operation])
    pid_file = PidFile(tmp_path)
    pid_file.lock()
    pid_file.write(
        RunningBroker(4711, "localhost:9092,localhost:9093,localhost:9094", "4L6g3nShT", 0, "compiled")
    )
    try:
        status = kcli("broker", "status", "--data-dir", str(tmp_path))
    finally:
        pid_file.remove()
    first, *nodes, descriptors = status.out.splitlines()
    assert first == f"{where} cluster 4L6g3nShT data {tmp_path} pid 4711 record checks compiled"
    assert [line.split(":")[0] for line in nodes] == [f"node {each['node']}" for each in rows]
    assert descriptors == (
        "file descriptors: 900 of 1,000 open; connections had to wait 2 times, because 100 are kept for files"
    )
    assert (status.exit_code, status.err) == (3 if error else 0, error.format(data=tmp_path))


def test_where_no_broker_runs_every_command_says_so(tmp_path: Path, kcli: Callable[..., Finished]) -> None:
    for words in (["list"], ["stop", "1"], ["add"], ["remove", "1"]):
        finished = kcli("broker", "node", *words, "--data-dir", str(tmp_path))
        assert finished.exit_code == 1
        assert finished.err.startswith(f"error: no broker runs in `{tmp_path}`")


def test_the_nodes_of_a_process_come_and_go(tmp_path: Path, kcli: Callable[..., Finished]) -> None:
    arguments = ["--nodes", "3", "--rack", "a,b", "--port", "0"]
    broker = KcliBroker(tmp_path, settings=QUICK, arguments=arguments)
    broker.start()
    data = ["--data-dir", str(broker.data)]

    def node(*words: str) -> str:
        finished = kcli("broker", "node", *words, *data)
        assert finished.exit_code == 0, finished.err
        return finished.out

    def shown() -> dict[int, tuple[str, str, bool]]:
        rows = json.loads(node("list", "-o", "json"))["nodes"]
        return {each["node"]: (each["state"], each["rack"], each["is_controller"]) for each in rows}

    try:
        assert shown() == {1: ("running", "a", True), 2: ("running", "b", False), 3: ("running", "a", False)}
        assert node("kill", "1") == "node 1 killed\n"
        assert shown()[1] == ("dead", "a", False)
        assert shown()[2] == ("running", "b", True)
        assert node("add", "--rack", "c").startswith("node 4 added: 127.0.0.1:")
        assert node("pause", "3") == "node 3 paused\n"
        assert node("resume", "3") == "node 3 resumed\n"
        assert node("stop", "2") == "node 2 stopped\n"
        assert node("start", "1") == "node 1 started\n"
        assert node("remove", "2").startswith("node 2 removed: its data is kept in ")
        status = kcli("broker", "status", *data)
        running = json.loads(node("list", "-o", "json"))["nodes"]
        bootstrap = ",".join(f"{each['host']}:{each['port']}" for each in running)
        assert status.out.startswith(f"running: {bootstrap} cluster ")
        assert [line.split(",")[0] for line in status.out.splitlines()[1:]] == [
            "node 1: running",
            "node 3: running",
            "node 4: running",
        ]
    finally:
        assert broker.stop() == 0
    broker = KcliBroker(tmp_path, settings=QUICK, arguments=["--port", "0"])
    broker.start()
    try:
        assert sorted(shown()) == [1, 3, 4]
    finally:
        assert broker.stop() == 0


@pytest.mark.parametrize(
    ("record_walk", "told"),
    [
        ("compiled", "compiled"),
        ("python", "in Python (slower: reinstall kcli with a C compiler)"),
        ("outdated", "compiled, compaction in Python (slower: reinstall kcli with a C compiler)"),
    ],
)
def test_status_says_how_records_are_checked(record_walk: str, told: str) -> None:
    status = BrokerStatus(running=True, data_dir="data", pid=1, record_walk=record_walk)
    [line] = status.lines()
    assert line.endswith(f" record checks {told}")
