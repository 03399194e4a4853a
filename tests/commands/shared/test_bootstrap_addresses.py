"""The brokers that a command asks: from its option, the variable, its properties or the default."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Never

import pytest

from kcli.commands.export.source_options import ConnectionChoice, SourceChoice
from kcli.commands.shared.session import addresses
from kcli.errors import KcliError
from tests.conftest import Finished

LINES = [
    "topics create new",
    "topics list",
    "topics describe",
    "topics alter orders --partitions 3",
    "topics delete orders",
    "configs describe orders",
    "configs alter orders --add retention.ms=1",
    "produce orders",
    "consume orders",
    "consumer-groups list",
    "consumer-groups describe billing",
    "consumer-groups reset-offsets billing --to-earliest --all-topics",
    "consumer-groups delete billing",
    "consumer-groups delete-offsets billing --topic orders",
    "consumer-groups members billing",
    "consumer-groups remove-members billing --all-members",
    "consumer-groups clone billing copy",
    "reassign-partitions generate orders --broker-list 1,2",
    "reassign-partitions execute plan.json",
    "reassign-partitions verify plan.json",
    "reassign-partitions list",
    "reassign-partitions cancel plan.json",
    "preferred-replica-election",
    "delete-records orders:0:1",
    "get-offsets orders",
    "log-dirs describe",
    "log-dirs move orders:0 --broker 1 --to /data",
    "cluster id",
    "cluster nodes",
    "cluster unregister 3",
    "cluster api-versions",
]
PLAN = {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1]}]}


@pytest.fixture(autouse=True)
def asked_brokers(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    """Make every connection fail with its addresses."""

    def connect(bootstrap: str, *_: object, timeout_ms: int | None) -> Never:
        raise KcliError(f"asked {bootstrap}")

    # It imports `connect`: import it before the patch, so that it keeps the real one.
    monkeypatch.setattr("kcli.spark.source.brokers.cluster_access.connect", connect)
    monkeypatch.setattr("kcli.client.client.connect", connect)
    monkeypatch.delenv("KCLI_BOOTSTRAP_SERVER", raising=False)
    (here / "client.properties").write_text("bootstrap.servers=file:1,file:2\n")
    (here / "plan.json").write_text(json.dumps(PLAN))


@pytest.mark.parametrize("line", LINES)
def test_a_property_names_the_brokers_of_every_command(line: str, kcli: Callable[..., Finished]) -> None:
    words = shlex.split(line)
    shown = kcli(*words, "--command-config", "client.properties").err
    assert "error: asked file:1,file:2\n" in shown
    assert "error: asked line:3\n" in kcli(*words, "-X", "bootstrap.servers=line:3").err
    assert "error: asked localhost:9092\n" in kcli(*words).err


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        pytest.param("produce orders --producer-property bootstrap.servers=a:1", "a:1", id="producer"),
        pytest.param("produce orders --producer.config client.properties", "file:1,file:2", id="its file"),
        pytest.param("consume orders --consumer-property bootstrap.servers=a:1", "a:1", id="consumer"),
        pytest.param("consume orders --consumer.config client.properties", "file:1,file:2", id="its file"),
        pytest.param(
            "topics list --command-config client.properties -X bootstrap.servers=a:1",
            "a:1",
            id="the line before the file",
        ),
        pytest.param("topics list -X bootstrap.servers=a:1 -b b:2", "b:2", id="the option before both"),
        pytest.param(
            "topics list -X bootstrap.servers=a:1 -b localhost:9092",
            "localhost:9092",
            id="the usual one, given",
        ),
    ],
)
def test_the_option_counts_before_the_line_and_this_before_the_file(
    words: str, asked: str, kcli: Callable[..., Finished]
) -> None:
    assert f"error: asked {asked}\n" in kcli(*shlex.split(words)).err


@pytest.mark.parametrize(("variable", "asked"), [("env:1", "env:1"), ("", "a:1")])
def test_the_variable_counts_before_properties(
    variable: str, asked: str, kcli: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KCLI_BOOTSTRAP_SERVER", variable)
    assert f"error: asked {asked}\n" in kcli("topics", "list", "-X", "bootstrap.servers=a:1").err


def test_properties_that_name_no_broker_leave_the_usual_one() -> None:
    assert addresses(None, {"client.id": "x"}) == "localhost:9092"


@pytest.mark.parametrize(
    ("option", "variable", "asked"),
    [(None, "", "'a:1'"), (None, "env:1", "'env:1'"), ("b:2", "env:1", "'b:2'")],
)
def test_an_export_asks_the_same_brokers_as_other_commands(
    option: str | None, variable: str, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KCLI_BOOTSTRAP_SERVER", variable)
    choice = SourceChoice(["orders"], bootstrap_server=option)
    connection = ConnectionChoice(command_property=["bootstrap.servers=a:1"])
    assert f"ClusterAccess({asked}," in repr(choice.open(connection))
