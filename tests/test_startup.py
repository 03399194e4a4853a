"""Starting is fast: what help and an idle broker must not import. The benchmark `help` measures the time."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kcli.cli import COMMANDS, build_app, main, placeholder, with_named
from tests.support.kcli_broker import KcliBroker

if TYPE_CHECKING:
    from pathlib import Path

SECURITY = ("cryptography", "trustme", "jwt", "kcli.security.certificates", "kcli.security.tls_context")
"""What TLS and tokens need: nobody else waits for it. Trio imports `ssl` itself."""

HEAVY = (
    *SECURITY,
    "ssl",
    "pyspark",
    "pyarrow",
    "numpy",
    "trio",
    "rich",
    "dataclasses",
    "asyncio",
    "logging",
    "kcli.broker",
    "kcli.client",
    "crc32c",
)


def loaded_by(code: str) -> set[str]:
    """Return the modules that are loaded after running `code` in a fresh interpreter."""
    script = f"import json, sys\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout
    return set(json.loads(output.splitlines()[-1]))


def test_importing_the_command_line_loads_nothing_heavy() -> None:
    assert not loaded_by("import kcli.cli") & set(HEAVY)


def test_help_imports_no_command() -> None:
    loaded = loaded_by("from kcli.cli import main\nmain(['--help'])")
    assert not [name for name in loaded if name.startswith("kcli.commands.")]


@pytest.mark.parametrize("command", ["topics", "consumer-groups"])
def test_the_help_of_a_command_loads_nothing_heavy(command: str) -> None:
    loaded = loaded_by(f"from kcli.cli import main\nmain(['{command}', 'describe', '--help'])")
    assert COMMANDS[command][0] in loaded
    assert not loaded & set(HEAVY)


@pytest.mark.parametrize("command", ["spark-export", "spark-import"])
def test_the_help_of_the_spark_commands_loads_nothing_heavy(command: str) -> None:
    loaded = loaded_by(f"from kcli.cli import main\nmain(['{command}', '--help'])")
    assert COMMANDS[command][0] in loaded
    assert not loaded & {*HEAVY, "kcli.spark"}


@pytest.mark.parametrize("command", COMMANDS)
def test_verbs_that_are_not_named_are_listed_as_they_are(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main([command, "--help"])
    listed = capsys.readouterr().out
    build_app()([command, "--help"], prog_name="kcli", standalone_mode=False)
    assert capsys.readouterr().out == listed


def test_verbs_that_are_not_named_are_not_looked_at() -> None:
    from kcli.commands.broker import app as broker

    named = with_named(broker.app, {"node", "list"})
    assert {each.callback for each in named.registered_commands} == {placeholder}
    (node,) = (each.typer_instance for each in named.registered_groups if each.name == "node")
    assert node is not None
    real = [each.name for each in node.registered_commands if each.callback is not placeholder]
    assert real == ["list"]


COMMAND_MODULES = {
    "topics list": 51,
    "topics describe orders": 60,
    "consumer-groups list": 66,
    "get-offsets orders": 53,
}
"""How many modules of kcli a command may load that asks a broker, each a fifth of a millisecond."""

NOT_FOR_A_SHORT_COMMAND = (
    *SECURITY,
    "rich",
    "dataclasses",
    "kcli.broker",
    "kcli.protocol.apis",
    "kcli.protocol.re2",
)


@pytest.mark.parametrize("line", COMMAND_MODULES)
def test_a_short_command_loads_only_what_it_uses(line: str, tmp_path: Path) -> None:
    broker = KcliBroker(tmp_path)
    broker.start()
    try:
        main(["topics", "create", "orders", "-b", broker.bootstrap])
        code = f"from kcli.cli import main\nmain([*{line.split()}, '-b', '{broker.bootstrap}'])"
        loaded = loaded_by(code)
    finally:
        broker.stop()
    own = {name for name in loaded if within(name, "kcli")}
    assert [name for name in loaded for other in NOT_FOR_A_SHORT_COMMAND if within(name, other)] == []
    assert len(own) <= COMMAND_MODULES[line], sorted(own)


# --- a broker ------------------------------------------------------------------------------------

IDLE_MODULES = 200
"""How many modules of kcli a node may have loaded that has no peers, and that nobody has asked for anything.

It has about 190. Each costs 0.2 ms of every start, and 30 KB.
"""

NOT_FOR_AN_IDLE_NODE = (
    *SECURITY,
    "typer",
    "rich",
    "kcli.cli",
    "kcli.client",
    "kcli.broker.faults",
    *(f"kcli.broker.config.inert_{area}_definitions" for area in ("server", "group", "remote", "security")),
    "kcli.broker.coordinator.group_coordinator",
    "kcli.broker.coordinator.consumer.group_manager",
    "kcli.broker.coordinator.classic.group_manager",
)


def test_an_idle_node_has_loaded_nothing_that_it_may_never_need(tmp_path: Path) -> None:
    broker = KcliBroker(tmp_path, environment={"PYTHONPROFILEIMPORTTIME": "1"})
    broker.start()
    broker.stop()
    rows = [line for line in broker.log.read_text().splitlines() if line.startswith("import time:")]
    loaded = {row.rpartition("|")[2].strip() for row in rows}
    own = {name for name in loaded if name.partition(".")[0] == "kcli"}
    assert "kcli.broker.network.socket_server" in own
    assert [name for name in loaded for other in NOT_FOR_AN_IDLE_NODE if within(name, other)] == []
    # The code of an API is found when it is first asked for.
    assert [name for name in own if within(name, "kcli.broker.handlers")] == []
    assert len(own) <= IDLE_MODULES, sorted(own)


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")
