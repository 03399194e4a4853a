"""Apache Kafka's `kafka-storage` on directories of kcli, and kcli on directories that the tool formatted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.support.apache_kafka import random_cluster_id
from tests.support.kcli_broker import KcliBroker
from tests.support.processes import ProcessFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.apache_kafka import KafkaTools, ToolResult

pytestmark = pytest.mark.interop

NODES = 2


class StorageTool:
    """The tool, with a file of properties such as a server of Apache Kafka's has."""

    def __init__(self, tools: KafkaTools, directory: Path) -> None:
        self._tools = tools
        self._properties = directory / "server.properties"

    def __call__(self, *words: str, node_id: int, log_dirs: list[Path]) -> ToolResult:
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "controller.quorum.voters": f"{node_id}@127.0.0.1:9093",
            "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": ",".join(map(str, log_dirs)),
        }
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return self._tools("kafka-storage", *words, "-c", self._properties)


@pytest.fixture
def storage_tool(kafka_tool: KafkaTools, tmp_path: Path) -> StorageTool:
    return StorageTool(kafka_tool, tmp_path)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KcliBroker, list[Path]]]:
    """A process of several nodes with two log directories each, and where those are."""
    directory = tmp_path_factory.mktemp("storage-tool")
    roots = [directory / "fast", directory / "slow"]
    broker = KcliBroker(
        directory,
        arguments=("--port", "0", "--nodes", str(NODES)),
        settings={"log.dirs": ",".join(map(str, roots))},
    )
    broker.start()
    yield broker, roots
    assert broker.stop() == 0


def cluster_id(tools: KafkaTools, bootstrap: str) -> str:
    """The id of a running cluster, as `kafka-cluster` prints it."""
    (line,) = tools("kafka-cluster", "cluster-id", "--bootstrap-server", bootstrap).lines
    return line.removeprefix("Cluster ID: ")


def without_directory_id(lines: list[str]) -> list[str]:
    return [re.sub(r"directory\.id=[\w-]{22},", "directory.id=*,", line) for line in lines]


@pytest.mark.parametrize("node_id", range(1, NODES + 1))
def test_the_directories_of_a_node_are_formatted_for_it(
    nodes: tuple[KcliBroker, list[Path]], kafka_tool: KafkaTools, storage_tool: StorageTool, node_id: int
) -> None:
    broker, roots = nodes
    log_dirs = [root / f"node-{node_id}" for root in roots]
    told = storage_tool("info", node_id=node_id, log_dirs=log_dirs)
    assert (told.code, without_directory_id(told.lines)) == (
        0,
        [
            "Found log directories:",
            *(f"  {path}" for path in log_dirs),
            "",
            f"Found metadata: {{cluster.id={cluster_id(kafka_tool, broker.bootstrap)}, "
            f"directory.id=*, node.id={node_id}, version=1}}",
            "",
        ],
    )


def test_directories_of_different_nodes_are_told_apart(
    nodes: tuple[KcliBroker, list[Path]], storage_tool: StorageTool
) -> None:
    _, roots = nodes
    told = storage_tool("info", node_id=1, log_dirs=[roots[0] / "node-1", roots[1] / "node-2"])
    assert told.code == 1
    assert "  Mismatched node IDs between storage directories." in told.lines


@pytest.mark.parametrize(
    ("is_own", "reason"),
    [(True, "is already formatted"), (False, "Invalid cluster.id in")],
    ids=["own", "other"],
)
def test_the_directories_of_a_node_are_not_formatted_again(
    nodes: tuple[KcliBroker, list[Path]],
    kafka_tool: KafkaTools,
    storage_tool: StorageTool,
    is_own: bool,
    reason: str,
) -> None:
    broker, roots = nodes
    path = roots[0] / "node-1"
    before = (path / "meta.properties").read_bytes()
    wanted = cluster_id(kafka_tool, broker.bootstrap) if is_own else random_cluster_id()
    refused = storage_tool("format", "-t", wanted, node_id=1, log_dirs=[path])
    assert refused.code == 1
    assert reason in refused.errors
    assert (path / "meta.properties").read_bytes() == before


def test_a_directory_that_the_tool_formatted_is_taken_as_it_is(
    new_kcli_broker: Callable[..., KcliBroker], kafka_tool: KafkaTools, storage_tool: StorageTool
) -> None:
    broker = new_kcli_broker()
    log_dirs = [broker.node_directory]
    chosen = random_cluster_id()
    assert storage_tool("format", "-t", chosen, node_id=1, log_dirs=log_dirs).code == 0
    formatted = storage_tool("info", node_id=1, log_dirs=log_dirs)
    broker.start()
    assert cluster_id(kafka_tool, broker.bootstrap) == chosen
    assert broker.stop() == 0
    assert storage_tool("info", node_id=1, log_dirs=log_dirs) == formatted


def test_a_directory_that_the_tool_formatted_for_another_node_is_refused(
    new_kcli_broker: Callable[..., KcliBroker], storage_tool: StorageTool
) -> None:
    broker = new_kcli_broker()
    log_dirs = [broker.node_directory]
    assert storage_tool("format", "-t", random_cluster_id(), node_id=7, log_dirs=log_dirs).code == 0
    with pytest.raises(ProcessFailed):
        broker.start()
    assert "belongs to node 7, not 1" in broker.messages()
