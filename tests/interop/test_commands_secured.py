"""Every command that talks to a cluster does so over SASL_SSL, with an authorizer, on both brokers."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, NamedTuple

import pytest
import typer.core
from typer.main import get_command

from kcli.cli import build_app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Finished
    from tests.support.guarded_brokers import GuardedApache, GuardedKcli

pytestmark = pytest.mark.interop


class Line(NamedTuple):
    """A command line, how it ends, and what it says; `input` are the lines of standard input."""

    text: str
    says: str = ""
    code: int = 0
    input: bytes = b""


LINES = (
    Line("cluster id", "Cluster ID: "),
    Line("cluster nodes", "localhost:"),
    Line("cluster api-versions", "Produce(0): "),
    Line("cluster unregister 9", "cannot unregister broker 9: ", 1),
    Line("topics create orders --partitions 2", "orders"),
    Line("topics list", "orders"),
    Line("topics describe orders", "PartitionCount: 2"),
    Line("topics alter orders --partitions 3"),
    Line("configs alter orders --add retention.ms=86400000"),
    Line("configs describe orders", "retention.ms=86400000"),
    Line("produce orders", input=b"one\ntwo\nthree\n"),
    Line("produce orders -X transactional.id=payments", input=b"four\n"),
    Line("consume orders --from-beginning --max-messages 4 --timeout-ms 20000", "three"),
    Line("consume orders --group billing --from-beginning --max-messages 4 --timeout-ms 20000", "three"),
    Line("get-offsets orders", "orders:0:"),
    Line("consumer-groups list", "billing"),
    Line("consumer-groups describe billing", "orders"),
    Line("consumer-groups members billing"),
    Line("consumer-groups clone billing copied --execute", "orders"),
    Line("consumer-groups reset-offsets billing --topic orders --to-earliest --execute", "orders"),
    Line("consumer-groups delete-offsets copied --topic orders", "orders"),
    Line("consumer-groups remove-members billing --group-instance-id nobody", "nobody", 1),
    Line("consumer-groups delete billing", "billing"),
    Line("transactions list", "payments"),
    Line("transactions describe payments", "payments"),
    Line("transactions describe-producers orders:0"),
    Line("transactions find-hanging --topic orders"),
    Line("transactions abort orders:0 --start-offset 0", "orders", 1),
    Line("transactions force-terminate payments"),
    Line("reassign-partitions generate orders --broker-list 1", "nothing to change"),
    Line("reassign-partitions execute {plan}", "orders"),
    Line("reassign-partitions verify {plan}", "orders"),
    Line("reassign-partitions list"),
    Line("reassign-partitions cancel {plan}", "orders"),
    Line("preferred-replica-election --all-topic-partitions"),
    Line("log-dirs describe --topic-list orders", "orders"),
    Line("log-dirs move orders:0 --broker 1 --to {data}"),
    Line("acls add --allow-principal User:alice --consumer --topic orders --group g", "alice"),
    Line("acls list --topic orders", "alice"),
    Line("acls explain --principal User:alice --operation Read --topic orders", "allowed"),
    Line("acls remove --allow-principal User:alice --topic orders --force"),
    Line("users create carol", "carol", input=b"carol-s3cret\n"),
    Line("users list", "carol"),
    Line("users delete carol", "carol"),
    Line("spark-export orders --to {out} --engine local"),
    Line("spark-import {out} --topic again"),
    Line("delete-records orders:0:0", "orders"),
    Line("topics delete orders"),
)


@pytest.fixture(scope="module")
def commands() -> dict[str, set[str]]:
    """The options of each command that has `--bootstrap-server`."""

    def below(command: typer.core.TyperCommand, path: tuple[str, ...]) -> Iterator[tuple[str, set[str]]]:
        if isinstance(command, typer.core.TyperGroup):
            for name, inner in command.commands.items():
                yield from below(inner, (*path, name))
        else:
            yield " ".join(path), {option for parameter in command.params for option in parameter.opts}

    every = below(get_command(build_app()), ())
    return {name: options for name, options in every if "--bootstrap-server" in options}


def test_no_command_is_left_out(commands: dict[str, set[str]]) -> None:
    assert [name for name in commands if not any(line.text.startswith(name) for line in LINES)] == []


def test_every_command_takes_a_profile(commands: dict[str, set[str]]) -> None:
    assert [name for name, options in commands.items() if "--profile" not in options] == []


@pytest.mark.parametrize("kind", ["apache", "kcli"])
def test_every_command_works_over_sasl_ssl_with_an_authorizer(
    request: pytest.FixtureRequest, kcli: Callable[..., Finished], tmp_path: Path, kind: str
) -> None:
    guarded: GuardedApache | GuardedKcli = request.getfixturevalue(f"guarded_{kind}")
    config = tmp_path / "client.properties"
    properties = guarded.doors.properties("SASL_SSL")
    config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    plan = tmp_path / "plan.json"
    partitions = [{"topic": "orders", "partition": number, "replicas": [1]} for number in range(3)]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    places = {"plan": plan, "out": tmp_path / "out", "data": guarded.node_directory}
    failures = []
    for line in LINES:
        words = shlex.split(line.text.format(**places))
        finished = kcli(*words, "--command-config", str(config), input=line.input)
        if finished.exit_code != line.code or line.says not in finished.out + finished.err:
            failures.append((line.text, finished))
    assert failures == []
