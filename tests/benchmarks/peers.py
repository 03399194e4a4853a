"""Peers: kcli and what it is measured against, each in a process of its own.

| name | what |
|---|---|
| kcli | one node, as `kcli broker start` runs it |
| apache | Apache Kafka 4.3.1, with the memory and the collector that its own start script asks for |
| mock | librdkafka's mock cluster: C, in memory |
| kfake | franz-go's fake cluster: Go, in memory |
| drain | no broker at all: bytes over loopback |
| blocking | kcli's own request engine behind one blocking thread, without trio's loop in between |

A peer whose toolchain is missing is left out with a note.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.apache_kafka import ApacheKafka, KafkaTools
from tests.support.kcli_broker import KcliBroker
from tests.support.processes import ChildProcess
from tests.support.raw_client import RawClient
from tests.support.toolchain import go_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

READY_TIMEOUT_SECONDS = 60.0
KFAKE = Path(__file__).parent / "kfake"
APACHE_JVM_OPTIONS = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
"""The defaults of kafka-server-start.sh and kafka-run-class.sh, whose logging would be another matter."""
BROKER_SETTINGS = {"log.segment.delete.delay.ms": "1000"}


@dataclass(frozen=True, slots=True)
class Peer:
    """A running peer."""

    name: str
    bootstrap: str
    process: ChildProcess

    def connect(self) -> RawClient:
        """Open a connection to it."""
        return RawClient(self.bootstrap, timeout=READY_TIMEOUT_SECONDS)


@contextmanager
def running(
    *names: str, settings: Mapping[str, str] | None = None, nodes: int = 1
) -> Iterator[dict[str, Peer]]:
    """Start peers and stop them at the end; `settings` are broker properties for kcli and Apache Kafka."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kcli-benchmarks-")))
        peers = {}
        for name in names:
            own = directory / name
            own.mkdir()
            try:
                peers[name] = stack.enter_context(
                    PEERS[name](own, {**BROKER_SETTINGS, **(settings or {})}, nodes)
                )
            except pytest.skip.Exception as reason:
                print(f"left out: {name}: {reason}", file=sys.stderr)
        yield peers


@contextmanager
def kafka_tools() -> Iterator[KafkaTools | None]:
    """Have Apache Kafka's tools, if there is a Java to run them."""
    with tempfile.TemporaryDirectory(prefix="kcli-benchmarks-") as directory:
        tools = KafkaTools(Path(directory))
        try:
            tools("kafka-consumer-perf-test", "--version")
        except pytest.skip.Exception as reason:
            print(f"left out: Apache Kafka's perf tests: {reason}", file=sys.stderr)
            yield None
            return
        try:
            yield tools
        finally:
            tools.close()


@contextmanager
def _kcli(directory: Path, settings: Mapping[str, str], nodes: int) -> Iterator[Peer]:
    broker = KcliBroker(directory, settings=settings, arguments=("--port", "0", "--nodes", str(nodes)))
    try:
        broker.start()
        yield Peer("kcli", broker.bootstrap, broker.process)
    finally:
        broker.close()


def formatted_apache(directory: Path, settings: Mapping[str, str]) -> ApacheKafka:
    """Return an Apache Kafka broker that is ready to be started."""
    tools = KafkaTools(directory)
    try:
        return ApacheKafka(directory, tools, settings=settings, jvm_options=APACHE_JVM_OPTIONS)
    finally:
        tools.close()


@contextmanager
def _apache(directory: Path, settings: Mapping[str, str], _nodes: int) -> Iterator[Peer]:
    broker = formatted_apache(directory, settings)
    broker.start()
    try:
        yield Peer("apache", broker.bootstrap, broker.process)
    finally:
        broker.process.kill()


def _program(
    name: str, command: Callable[[], Sequence[str | Path]]
) -> Callable[[Path, Mapping[str, str], int], object]:
    """Return what starts a program that prints `ready: host:port`."""

    @contextmanager
    def start(directory: Path, _settings: Mapping[str, str], _nodes: int) -> Iterator[Peer]:
        process = ChildProcess([*command(), directory], stderr=directory / "log")
        try:
            line = process.wait_for_line(
                lambda line: line.startswith("ready:"), timeout=READY_TIMEOUT_SECONDS, what="ready line"
            )
            yield Peer(name, line.split()[1], process)
        finally:
            process.kill()

    return start


PEERS: dict[str, Callable[[Path, Mapping[str, str], int], object]] = {
    "kcli": _kcli,
    "apache": _apache,
    "mock": _program("mock", lambda: (sys.executable, "-m", "tests.benchmarks.mock_cluster")),
    "kfake": _program("kfake", lambda: (go_program(".", KFAKE),)),
    "drain": _program("drain", lambda: (sys.executable, "-m", "tests.benchmarks.drain")),
    "blocking": _program("blocking", lambda: (sys.executable, "-m", "tests.benchmarks.blocking_broker")),
}
