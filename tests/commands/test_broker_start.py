"""`kcli broker start`: lines that need no Typer say to the broker what Typer would have said."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kcli.cli import main
from kcli.commands import broker, broker_start
from kcli.commands.broker_line import parse_start
from kcli.commands.broker_start import StartOptions
from kcli.commands.shortcut import run_shortcut
from tests.conftest import Finished

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
    "--no-ephemeral",
    "--unknown 1",
    "-o json",
    "--output json",
    "somewhere",
    "--",
]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[StartOptions]:
    """What the broker was told; it does not start."""
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
    "line",
    [
        "--ephemeral --daemon",
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
