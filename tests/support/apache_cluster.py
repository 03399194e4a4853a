"""Apache Kafka 4.3.1 as a cluster: three brokers in a JVM each, on loopback.

A controller runs beside each of them, or beside those that `voters` names: with (1,) the others are stopped
without an election of controllers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.apache_kafka import JVM_OPTIONS, random_cluster_id
from tests.support.class_archive import ClassArchive
from tests.support.ports import free_port
from tests.support.processes import ChildProcess, ProcessFailed, wait_for_port
from tests.support.toolchain import java_libraries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.support.apache_kafka import KafkaTools

HEAP = ("-Xmx256m", "-Xms96m")
START_TIMEOUT_SECONDS = 180.0

SETTINGS = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.leader.rebalance.enable": "false",
    "broker.heartbeat.interval.ms": "500",
    "replica.fetch.wait.max.ms": "100",
}


class ApacheNode:
    """One JVM; its ports and log directories stay the same over restarts."""

    def __init__(self, node_id: int, directory: Path, *, log_dirs: int) -> None:
        self.node_id = node_id
        self.port = free_port()
        self.quorum_address = f"127.0.0.1:{free_port()}"
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.log_dirs = [directory / f"data-{number}" for number in range(log_dirs)]
        self.properties = directory / "server.properties"
        self._log = directory / "broker.log"
        self._process: ChildProcess | None = None
        self._archive = ClassArchive()

    def write(self, settings: Mapping[str, str], *, is_voter: bool) -> None:
        """Write its server.properties."""
        listener = f"PLAINTEXT://{self.bootstrap}"
        own = {
            **SETTINGS,
            "node.id": str(self.node_id),
            "process.roles": "broker,controller" if is_voter else "broker",
            "listeners": f"{listener},CONTROLLER://{self.quorum_address}" if is_voter else listener,
            "advertised.listeners": listener,
            "log.dirs": ",".join(map(str, self.log_dirs)),
            **settings,
        }
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in own.items()))

    def launch(self) -> None:
        """Start the JVM without waiting for anything."""
        path = f"{java_libraries() / 'apache-kafka'}/*"
        options = (*JVM_OPTIONS, *HEAP, *self._archive.options())
        command = ["java", *options, "-cp", path, "kafka.Kafka", str(self.properties)]
        self._process = ChildProcess(command, stderr=self._log)

    def wait(self) -> None:
        """Wait until it takes part in the cluster: it listens from then on."""
        assert self._process is not None
        wait_for_port(self.port, timeout=START_TIMEOUT_SECONDS, alive=self._process.is_running)

    def start(self) -> None:
        """Start the JVM and wait until it takes part in the cluster."""
        self.launch()
        self.wait()

    def stop(self) -> None:
        """Clean shutdown: it hands its leaders over first."""
        if self._process is not None:
            self._process.stop()
            self._process = None
            self._archive.keep()

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process = None


class ApacheCluster:
    """Nodes 1 to `nodes`; `bootstrap` names all of them."""

    def __init__(
        self,
        directory: Path,
        tools: KafkaTools,
        *,
        nodes: int = 3,
        voters: Sequence[int] | None = None,
        log_dirs: int = 1,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.nodes: dict[int, ApacheNode] = {}
        for node_id in range(1, nodes + 1):
            own = directory / f"node-{node_id}"
            own.mkdir()
            self.nodes[node_id] = ApacheNode(node_id, own, log_dirs=log_dirs)
        self.bootstrap = ",".join(node.bootstrap for node in self.nodes.values())
        voters = list(self.nodes) if voters is None else voters
        quorum = ",".join(f"{node_id}@{self.nodes[node_id].quorum_address}" for node_id in voters)
        cluster_id = random_cluster_id()
        for node in self.nodes.values():
            own_settings = {"controller.quorum.voters": quorum, **(settings or {})}
            node.write(own_settings, is_voter=node.node_id in voters)
            formatted = tools("kafka-storage", "format", "-t", cluster_id, "-c", node.properties)
            if formatted.code != 0:
                raise ProcessFailed(f"format: {formatted}")

    def start(self) -> None:
        """Start all nodes and wait for them."""
        for node in self.nodes.values():
            node.launch()
        for node in self.nodes.values():
            node.wait()

    def kill(self) -> None:
        """SIGKILL all of them."""
        for node in self.nodes.values():
            node.kill()
