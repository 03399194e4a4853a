"""`kcli broker start`: lines that need no Typer give the broker the same options as Typer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kcli.cli import main
from kcli.commands.broker import app as broker
from kcli.commands.broker import start as broker_start
from kcli.commands.broker.start import StartOptions, parse_start
from kcli.commands.shortcut import run_shortcut
from kcli.errors import UsageError
from kcli.protocol.records.record_walk import RECORD_WALK
from kcli.security.jaas import PLAIN_MODULE
from tests.conftest import Finished
from tests.support.kcli_broker import READY_TIMEOUT_SECONDS, KcliBroker
from tests.support.processes import STOP_TIMEOUT_SECONDS
from tests.support.waiting import eventually

LINES = [
    "",
    "--port 0",
    "--port=9093 --nodes=3",
    "--nodes 1 --nodes 100 --host 127.0.0.1 --rack a,b",
    "--ephemeral --adopt --verbose",
    "--daemon --data-dir data",
    "--data-dir=data/of=it --config server.properties",
    "--override a=1 --override=b=2 --override a=3",
    "--scenario steps.yaml --override a=",
    "--durable --ephemeral",
    "--tls auto --client-auth=requested",
    "--sasl --user alice=secret --user @users --jaas-config server.jaas",
    "--port 0 --sasl=PLAIN --user=alice=a=b",
    "--sasl PLAIN,GSSAPI --acls",
    "--acls --sasl",
]

FOR_TYPER = [
    "--help",
    "-h",
    "--port",
    "--port -1",
    "--port 65536",
    "--port +1",
    "--port ٣",
    "--nodes 0",
    "--nodes 101",
    "--nodes two",
    "--host=",
    "--host -v",
    "--ephemeral=yes",
    "--user",
    "--jaas-config",
    "--sasl PLAIN word",
    "--no-ephemeral",
    "--unknown 1",
    "-o json",
    "--output json",
    "somewhere",
    "--",
]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[StartOptions]:
    """The options that the broker gets; it does not start."""
    told: list[StartOptions] = []
    for module in (broker, broker_start):
        monkeypatch.setattr(module, "start_broker", told.append)
    return told


@pytest.mark.parametrize("directory", [None, "", "elsewhere"], ids=["unset", "empty", "set"])
@pytest.mark.parametrize("line", LINES)
def test_both_ways_say_the_same(
    line: str, directory: str | None, told: list[StartOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    if directory is None:
        monkeypatch.delenv("KCLI_DATA_DIR", raising=False)
    else:
        monkeypatch.setenv("KCLI_DATA_DIR", directory)
    words = ["broker", "start", *line.split()]
    assert run_shortcut(words) == 0
    assert main(words) == 0
    assert told[0] == told[1]


@pytest.mark.parametrize("line", FOR_TYPER)
def test_any_other_line_is_typers(line: str, told: list[StartOptions]) -> None:
    assert parse_start(line.split()) is None
    assert run_shortcut(["broker", "start", *line.split()]) is None
    assert told == []


@pytest.mark.parametrize(
    ("line", "as_json"), [("-o json", True), ("-o text", False), ("-o table", False), ("", False)]
)
def test_the_ready_line_can_be_json(line: str, as_json: bool, told: list[StartOptions]) -> None:
    assert main(["broker", "start", "--port", "0", *line.split()]) == 0
    assert told == [StartOptions(port=0, as_json=as_json)]


def test_a_broker_that_speaks_json(tmp_path: Path, kcli: Callable[..., Finished]) -> None:
    running = KcliBroker(tmp_path, arguments=["--nodes", "2", "-o", "json"])
    try:
        line = running.launch().wait_for_line(bool, timeout=READY_TIMEOUT_SECONDS, what="ready line")
        data = ["--data-dir", str(running.data), "-o", "json"]
        ready, status = json.loads(line), json.loads(kcli("broker", "status", *data).out)
        for said in (ready, status):
            said["nodes"] = [(each["node"], each["host"], each["port"]) for each in said["nodes"]]
            assert said["file_descriptors"].pop("open") > 0
        assert {**ready, "failures": []} == status
        assert ready["pid"] == running.process.pid
        assert ready["record_walk"] == RECORD_WALK
        stopped = kcli("broker", "stop", *data)
        assert json.loads(stopped.out) == {
            "stopped": True,
            "data_dir": str(running.data),
            "pid": running.process.pid,
        }
        assert running.process.process.wait(timeout=STOP_TIMEOUT_SECONDS) == 0
    finally:
        running.close()


@pytest.mark.parametrize("nodes", ["1", "2"])
def test_a_broker_with_its_logs_elsewhere_says_where_other_commands_find_it(
    nodes: str, tmp_path: Path, kcli: Callable[..., Finished]
) -> None:
    settings = {"log.dirs": f"{tmp_path}/fast,{tmp_path}/slow"}
    running = KcliBroker(tmp_path, arguments=["--nodes", nodes], settings=settings)
    try:
        data = running.start().ready_line.rpartition(" data ")[2].strip()
        assert data == str(running.data)
        status = kcli("broker", "status", "--data-dir", data)
        assert (status.exit_code, f" data {data} pid " in status.out) == (0, True)
        assert kcli("broker", "stop", "--data-dir", data) == Finished(0, "", "")
        assert running.process.process.wait(timeout=STOP_TIMEOUT_SECONDS) == 0
    finally:
        running.close()


def test_a_second_broker_on_a_data_directory_leaves_the_first_one_its_socket(
    tmp_path: Path, kcli: Callable[..., Finished]
) -> None:
    running = KcliBroker(tmp_path, settings={"log.dirs": f"{tmp_path}/one"})
    second = KcliBroker(tmp_path, settings={"log.dirs": f"{tmp_path}/two"})
    second.log = tmp_path / "second.log"
    try:
        running.start()
        assert second.launch().process.wait(timeout=READY_TIMEOUT_SECONDS) == 1
        in_use = f"error: `{running.data}` is in use by process {running.process.pid}\n"
        assert in_use in second.messages()
        assert kcli("broker", "node", "list", "--data-dir", str(running.data)).exit_code == 0
    finally:
        second.close()
        running.close()


@pytest.mark.usefixtures("hang_ups")
def test_a_hang_up_stops_a_broker_in_order(tmp_path: Path) -> None:
    running = KcliBroker(tmp_path, arguments=["--ephemeral"])
    try:
        data = Path(running.start().ready_line.rpartition(" data ")[2])
        assert data.is_dir()
        assert running.process.stop(signal.SIGHUP) == 0
        assert "stopping: SIGHUP" in running.messages()
        assert not data.exists()
    finally:
        running.close()


@pytest.mark.parametrize(
    ("line", "refused", "address"),
    [
        ("--port 19192", "port", "localhost:19192"),
        ("--port 0", "port", "localhost:0"),
        ("--host 127.0.0.1", "host", "127.0.0.1:9092"),
        ("--host ::1", "host", "[::1]:9092"),
        ("--host 127.0.0.1 --port 1", "port", "127.0.0.1:1"),
    ],
)
def test_an_address_beside_listeners_is_refused(
    line: str, refused: str, address: str, tmp_path: Path, kcli: Callable[..., Finished]
) -> None:
    config = tmp_path / "server.properties"
    config.write_text("listeners=PLAINTEXT://localhost:9092\n")
    finished = kcli("broker", "start", "--ephemeral", "--config", str(config), *line.split())
    assert (finished.exit_code, finished.out) == (2, "")
    assert finished.err.splitlines() == [
        f"error: `--{refused}` and `listeners` exclude each other",
        f"hint: name the {refused} in `listeners`, or use "
        f"`--override listeners=PLAINTEXT://{address}` instead of it",
    ]


def test_a_durable_broker_flushes_every_record(kcli: Callable[..., Finished]) -> None:
    properties = {"num.partitions": "3"}
    broker_start.make_durable(properties)
    assert properties == {"num.partitions": "3", "log.flush.interval.messages": "1"}
    broker_start.make_durable(properties)
    finished = kcli(
        "broker", "start", "--ephemeral", "--durable", "--override", "log.flush.interval.messages=5"
    )
    assert (finished.exit_code, finished.out) == (2, "")
    assert finished.err.splitlines() == [
        "error: `--durable` and `log.flush.interval.messages=5` exclude each other",
        "hint: leave one of them out",
    ]


def test_an_ephemeral_daemon_is_found_and_stopped_like_any_other_and_leaves_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    kcli = (sys.executable, "-m", "kcli", "broker")
    start = (*kcli, "start", "--daemon", "--ephemeral", "--port", "0", "--data-dir", str(data))
    started = subprocess.run(start, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert started.stdout.endswith(f"data {data}\n")
    again = subprocess.run(start, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (again.returncode, again.stderr.splitlines()[0]) == (
        2,
        f"error: `{data}` is not empty, and the end of an ephemeral broker removes its directory",
    )
    status = subprocess.run([*kcli, "status", "--data-dir", str(data)], capture_output=True, check=False)
    assert status.returncode == 0
    subprocess.run([*kcli, "stop", "--data-dir", str(data)], check=True)
    assert not data.exists()


def test_a_daemon_is_the_program_that_started_it(tmp_path: Path) -> None:
    """In a clone it is the installed package, not the source; elsewhere not whatever has that name."""
    (tmp_path / "kcli").mkdir()
    (tmp_path / "kcli" / "__main__.py").write_text("raise SystemExit('another program')\n")
    data = tmp_path / "data"
    program = [sys.executable, "-P", "-m", "kcli", "broker"]
    start = [*program, "start", "--daemon", "--ephemeral", "--port", "0", "--data-dir", str(data)]
    subprocess.run(start, check=True, cwd=tmp_path)
    subprocess.run([*program, "stop", "--data-dir", str(data)], check=True)


def test_an_ephemeral_daemon_that_gets_a_signal_removes_its_directory(tmp_path: Path) -> None:
    data = tmp_path / "data"
    start = [sys.executable, "-m", "kcli", "broker", "start", "--daemon", "--ephemeral", "--port", "0"]
    start += ["--data-dir", str(data), "-o", "json"]
    ready = json.loads(subprocess.run(start, capture_output=True, check=True).stdout)
    os.kill(ready["pid"], signal.SIGTERM)
    eventually(lambda: not data.exists(), "the end of the directory")


def test_an_ephemeral_daemon_takes_no_directory_with_data(
    kcli: Callable[..., Finished], tmp_path: Path
) -> None:
    (tmp_path / "mine").write_text("mine")
    finished = kcli("broker", "start", "--daemon", "--ephemeral", "--data-dir", str(tmp_path))
    assert finished.exit_code == 2
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize(
    "line",
    [
        "--ephemeral --daemon",
        "--ephemeral --port 1 --override listeners=PLAINTEXT://:9092",
        "--ephemeral --port 0 --host 0.0.0.0",
        "--ephemeral --rack a,,b",
        "--ephemeral --nodes 3 --port 65534",
        "--ephemeral --override num.partition=1",
        "--ephemeral --override num.partitions",
        "--ephemeral --config nowhere",
        "--ephemeral --scenario nowhere",
        "--data-dir /dev/null --port 0",
    ],
)
def test_errors_are_told_as_with_typer(
    line: str, kcli: Callable[..., Finished], capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["broker", "start", *line.split()]
    expected = kcli(*words)
    assert expected.exit_code in (1, 2)
    code = run_shortcut(words)
    captured = capfd.readouterr()
    assert (code, captured.out, captured.err) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            StartOptions(sasl="", override=("listeners=PLAINTEXT://localhost:0",)),
            "`--sasl`, but no listener in `listeners` has SASL",
        ),
        (
            StartOptions(sasl="PLAIN", override=("sasl.enabled.mechanisms=PLAIN,GSSAPI",)),
            "`--sasl PLAIN` and `sasl.enabled.mechanisms=PLAIN,GSSAPI` exclude each other",
        ),
        (StartOptions(sasl="", override=("listeners=here",)), "invalid entry `here` in `listeners`"),
        (StartOptions(user=("alice=a",)), "user `alice` could not log in: no listener has SASL"),
    ],
)
def test_logins_that_nothing_asks_for_are_refused(options: StartOptions, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        broker_start.start_broker(options)
    assert caught.value.message == message


def test_users_of_the_environment_may_log_in_at_listeners_with_sasl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KCLI_USERS", "alice=a bob=b")
    properties: dict[str, str] = {}
    options = StartOptions(sasl="", user=("carol=c",))
    broker_start.add_sasl(options, properties)
    stored = broker_start.add_users(options, properties)
    assert [user.name for user in stored] == ["carol", "carol", "alice", "alice", "bob", "bob"]
    module = properties.pop("listener.name.sasl_plaintext.plain.sasl.jaas.config")
    assert [word for word in module.split() if word.startswith("user_")] == [
        'user_carol="c"',
        'user_alice="a"',
        'user_bob="b";',
    ]
    assert properties == {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"}


def test_a_jaas_file_of_the_environment_counts_without_one_on_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("line", "environment"):
        module = f"{PLAIN_MODULE} required user_{name}={name};"
        (tmp_path / name).write_text(f"KafkaServer {{ {module} }};")
    monkeypatch.setenv("KCLI_JAAS_CONFIG", str(tmp_path / "environment"))
    given = {"listeners": "SASL_PLAINTEXT://:0", "sasl.enabled.mechanisms": "PLAIN"}
    found = []
    for path in (None, tmp_path / "line"):
        properties = dict(given)
        broker_start.add_users(StartOptions(jaas_config=path), properties)
        found.append(properties["listener.name.sasl_plaintext.plain.sasl.jaas.config"].split()[-1])
    assert found == ['user_environment="environment";', 'user_line="line";']
