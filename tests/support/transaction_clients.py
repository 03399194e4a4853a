"""The transactional program of each client, driven through the lines that `transaction_program` describes."""

from __future__ import annotations

import queue
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support.apache_kafka import java_command
from tests.support.processes import ChildProcess
from tests.support.toolchain import INTEROP, go_program, java_classes, need, node_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

REPOSITORY = INTEROP.parent.parent
ANSWER_SECONDS = 120.0
Row = tuple[int, str, str]
"""Offset, key and value of a record."""


class Refused(Exception):
    """What a client said instead of doing what it was told."""


def _python(name: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, str(INTEROP / "python" / f"{name}_transactions.py")]


def _java(version: str) -> Callable[[], list[str]]:
    def command() -> list[str]:
        classes = java_classes("clients-2.8", "TransactionClient")
        return java_command(f"clients-{version}", "TransactionClient", "-Xmx128m", classes=classes)

    return command


def _go(name: str) -> Callable[[], list[str]]:
    return lambda: [str(go_program(f"{name}-transactions"))]


PROGRAMS: dict[str, Callable[[], list[str]]] = {
    "Java 4.3.1": _java("4.3"),
    "Java 3.9": _java("3.9"),
    "Java 2.8": _java("2.8"),
    "confluent-kafka": _python("confluent"),
    "franz-go": _go("franz"),
    "kafka-python": _python("kafka_python"),
    "aiokafka": _python("aiokafka"),
    "sarama": _go("sarama"),
    "KafkaJS": lambda: ["node", str(node_directory() / "transactions.js")],
    "kcli": _python("kcli"),
}


class TransactionClient:
    """One running program."""

    def __init__(self, name: str, log: Path) -> None:
        self.name = name
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._child = ChildProcess(
            PROGRAMS[name](),
            stderr=log,
            environment={"PYTHONPATH": str(REPOSITORY), "NODE_NO_WARNINGS": "1"},
            on_line=self._lines.put,
        )
        self._is_ready = False

    def do(self, command: str, **options: object) -> list[str]:
        """Have a command performed; the lines before its answer. `Refused` has what the client says."""
        if not self._is_ready:
            self._answer("start")
            self._is_ready = True
        words = [command, *(f"{name}={value}" for name, value in options.items())]
        self._child.write_line(" ".join(words))
        *lines, last = self._answer(command)
        if last != "ok":
            raise Refused(f"{self.name} {command}: {last.removeprefix('refused ')}")
        return lines

    def refusal(self, command: str, **options: object) -> str:
        """What the client says to a command that it refuses."""
        try:
            self.do(command, **options)
        except Refused as refused:
            return str(refused).removeprefix(f"{self.name} {command}: ")
        raise AssertionError(f"{self.name} performed {command} {options}")

    def _answer(self, command: str) -> list[str]:
        lines: list[str] = []
        while True:
            try:
                line = self._lines.get(timeout=ANSWER_SECONDS)
            except queue.Empty:
                line = None
            if line is None:
                raise AssertionError(f"{self.name} {command}: no answer {self._child.errors[-3000:]}")
            lines.append(line)
            if not line.startswith("record "):
                return lines

    def read(self, bootstrap: str, isolation: str, wanted: Sequence[tuple[str, int, int]]) -> list[list[Row]]:
        """The records of partitions (topic, index, offset of the last record), read from their starts."""
        words = ",".join(f"{topic}:{partition}:{last}" for topic, partition, last in wanted)
        found: list[list[Row]] = [[] for _ in wanted]
        for line in self.do("read", bootstrap=bootstrap, isolation=isolation, wanted=words):
            _, slot, offset, key, value = line.split(" ")
            found[int(slot)].append((int(offset), key, value))
        return found

    def kill(self) -> None:
        """SIGKILL."""
        self._child.kill()


class Kcat:
    """kcat as a reader; its producer knows no transactions."""

    name = "kcat"

    def read(self, bootstrap: str, isolation: str, wanted: Sequence[tuple[str, int, int]]) -> list[list[Row]]:
        """The records of partitions, one kcat for each topic, which ends at the end of each partition."""
        need("kcat")
        found: dict[tuple[str, int], list[Row]] = {place[:2]: [] for place in wanted}
        for topic in dict.fromkeys(topic for topic, *_ in wanted):
            command = ["kcat", "-C", "-q", "-e", "-b", bootstrap, "-t", topic, "-o", "beginning"]
            command += ["-f", "%p %o %k %s\n", "-X", f"isolation.level={isolation}"]
            command += ["-X", "fetch.wait.max.ms=50"]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=ANSWER_SECONDS)
            for line in done.stdout.decode().splitlines():
                partition, offset, key, value = line.split(" ")
                found[topic, int(partition)].append((int(offset), key, value))
        return list(found.values())
