"""Apache Kafka 4.3.1 itself: a broker of one node, and its command-line tools in one JVM."""

from __future__ import annotations

import base64
import subprocess
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.class_archive import ClassArchive
from tests.support.ports import free_port
from tests.support.processes import ChildProcess, ProcessFailed, wait_for_port
from tests.support.toolchain import java_classes, java_libraries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

NEWEST, OLDER, OLDEST = "apache-kafka", "apache-kafka-4.1", "apache-kafka-3.9"
"""Modules of `interop/java`: 4.3.1, 4.1.1, and 3.9.2, which has no feature `transaction.version`."""

RELEASES = {OLDEST: "3.9"}
"""The release to format a directory for, where the tool's own is too new."""

BROKER_HEAP = "320m"
START_TIMEOUT_SECONDS = 180.0
TOOL_TIMEOUT_SECONDS = 180.0
JVM_OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    # What the JVM itself has to say would otherwise stand among the lines of the program.
    "-XX:+DisplayVMOutputToStderr",
    "-Xlog:disable",
    "-Xlog:all=warning:stderr",
    # Whatever the user's language is.
    "-Duser.language=en",
    "-Duser.country=US",
    "-Dfile.encoding=UTF-8",
)

TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
}


def java_command(module: str, main: str, *options: str, classes: Path | None = None) -> list[str]:
    """The command line of a JVM with one module's jars."""
    path = f"{java_libraries() / module}/*"
    return ["java", *JVM_OPTIONS, *options, "-cp", path if classes is None else f"{classes}:{path}", main]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """How a tool ended and what it said."""

    code: int
    output: str
    errors: str

    @property
    def lines(self) -> list[str]:
        """Standard output by line."""
        return self.output.splitlines()


class KafkaTools:
    """Apache Kafka's tools, run one after another in one JVM that starts with the first of them."""

    def __init__(self, directory: Path) -> None:
        self._log = directory / "tools.log"
        self._process: subprocess.Popen[str] | None = None

    def __call__(self, tool: str, *arguments: str | Path, stdin: bytes = b"") -> ToolResult:
        """Run one tool; its output and exit code."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        words = [stdin, TOOLS[tool].encode(), *(str(argument).encode() for argument in arguments)]
        process.stdin.write(" ".join(base64.b64encode(word).decode() for word in words) + "\n")
        process.stdin.flush()
        timer = threading.Timer(TOOL_TIMEOUT_SECONDS, process.kill)
        timer.start()
        try:
            answer = process.stdout.readline()
        finally:
            timer.cancel()
        if not answer:
            self.close()
            raise ProcessFailed(f"{tool} {arguments}: no answer\n{self._log.read_text()[-3000:]}")
        code, output, errors = answer.rstrip("\n").split(" ")
        return ToolResult(
            int(code),
            base64.b64decode(output).decode(errors="replace"),
            base64.b64decode(errors).decode(errors="replace"),
        )

    def _start(self) -> subprocess.Popen[str]:
        classes = java_classes("apache-kafka", "ToolDriver")
        with self._log.open("ab") as sink:
            process = subprocess.Popen(
                java_command("apache-kafka", "ToolDriver", "-Xmx256m", classes=classes),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                text=True,
            )
        self._process = process
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            self.close()
            raise ProcessFailed(f"the tool driver did not start\n{self._log.read_text()[-3000:]}")
        return process

    def close(self) -> None:
        """End the JVM."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


class ApacheKafka:
    """A broker of one node on free ports of the loopback interface.

    Its directory is formatted by its own storage tool, unless `data` names one that was written before. It
    runs in a small JVM that starts fast, unless `jvm_options` ask for another one. `module` has the jars.
    """

    def __init__(
        self,
        directory: Path,
        tools: KafkaTools,
        *,
        settings: Mapping[str, str] | None = None,
        data: Path | None = None,
        jvm_options: Sequence[str] | None = None,
        module: str = NEWEST,
        format_arguments: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self.data = data or directory / "data"
        self._jvm_options = jvm_options
        self._module = module
        self._archive = ClassArchive() if module == NEWEST else None
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._process: ChildProcess | None = None
        controller = free_port()
        self._settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **(settings or {}),
        }
        properties = directory / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._settings.items()))
        self._properties = properties
        if data is None:
            arguments = ("-t", random_cluster_id(), "-c", properties)
            release = ("-r", RELEASES[module]) if module in RELEASES else ()
            formatted = tools("kafka-storage", "format", *arguments, *release, *format_arguments)
            if formatted.code != 0:
                raise ProcessFailed(f"format: {formatted}")

    def start(self) -> None:
        """Start the JVM and wait until the broker takes part in its cluster and listens."""
        process = self.launch()
        wait_for_port(self.port, timeout=START_TIMEOUT_SECONDS, alive=process.is_running)

    def launch(self) -> ChildProcess:
        """Start the JVM without waiting for anything."""
        options = self._jvm_options
        if options is None:
            archive = self._archive.options() if self._archive is not None else ()
            options = (*JVM_OPTIONS, f"-Xmx{BROKER_HEAP}", "-Xms64m", *archive)
        path = f"{java_libraries() / self._module}/*"
        command = ["java", *options, "-cp", path, "kafka.Kafka", str(self._properties)]
        self._process = ChildProcess(command, stderr=self.directory / "broker.log")
        return self._process

    @property
    def process(self) -> ChildProcess:
        """The running JVM."""
        assert self._process is not None
        return self._process

    @property
    def node_directory(self) -> Path:
        """Where its logs are."""
        return self.data

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self._process = None

    def stop(self) -> None:
        """Clean shutdown."""
        if self._process is not None:
            self._process.stop()
            self._process = None
            if self._archive is not None:
                self._archive.keep()


def random_cluster_id() -> str:
    """A cluster id as Kafka writes them: 16 random bytes in unpadded URL-safe base64, no leading dash."""
    import uuid

    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
