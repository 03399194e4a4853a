"""Members of groups that commit their offsets in transactions, of several clients.

Each is the only member of the group of the topic's name, in one of the two protocols, and has read a record
of the topic's partition 0. What the client refuses comes as `Refused`.
"""

from __future__ import annotations

import queue
import sys
from typing import TYPE_CHECKING, Protocol

import confluent_kafka

from tests.support.apache_kafka import java_command
from tests.support.processes import ChildProcess
from tests.support.toolchain import INTEROP, java_classes

if TYPE_CHECKING:
    from pathlib import Path

DEADLINE_SECONDS = 60.0


class Refused(Exception):
    """What a client said instead of doing what it was told."""


class TransactionalMember(Protocol):
    """A consumer in a group, and a producer whose transactions have the group's offsets."""

    def begin(self) -> None: ...

    def offsets(self, position: int) -> None:
        """Send the position in partition 0 in the name of the member."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def leave(self) -> None:
        """Leave the group; the producer goes on with what it knew of the member."""

    def close(self) -> None: ...


class LibrdkafkaMember:
    def __init__(self, bootstrap: str, protocol: str, topic: str) -> None:
        self._topic = topic
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": topic,
                "group.protocol": protocol,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.subscribe([topic])
        message = self._consumer.poll(DEADLINE_SECONDS)
        assert message is not None, "no record came"
        assert message.error() is None, message.error()
        self._metadata = self._consumer.consumer_group_metadata()
        self._producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
        self._producer.init_transactions(DEADLINE_SECONDS)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def offsets(self, position: int) -> None:
        wanted = [confluent_kafka.TopicPartition(self._topic, 0, position)]
        try:
            self._producer.send_offsets_to_transaction(wanted, self._metadata, DEADLINE_SECONDS)
        except confluent_kafka.KafkaException as error:
            raise Refused(error.args[0].name()) from error

    def commit(self) -> None:
        self._producer.commit_transaction(DEADLINE_SECONDS)

    def abort(self) -> None:
        self._producer.abort_transaction(DEADLINE_SECONDS)

    def leave(self) -> None:
        self._consumer.close()

    def close(self) -> None:
        del self._producer


def java(version: str) -> list[str]:
    """The command line of Java's members."""
    classes = java_classes("clients-2.8", "TransactionalMember")
    return java_command(f"clients-{version}", "TransactionalMember", "-Xmx128m", classes=classes)


def kafka_python() -> list[str]:
    """The command line of kafka-python's members."""
    return [sys.executable, str(INTEROP / "python" / "kafka_python_transactional_member.py")]


class MemberProgram:
    """A process that is one member after another; `TransactionalMember.java` describes its commands."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._child = ChildProcess(command, stderr=log, on_line=self._lines.put)

    def do(self, *words: object) -> None:
        self._child.write_line(" ".join(map(str, words)))
        answer = self._lines.get(timeout=2 * DEADLINE_SECONDS)
        assert answer is not None, f"{words}: {self._child.errors[-3000:]}"
        if answer != "ok":
            raise Refused(answer.removeprefix("refused "))

    def kill(self) -> None:
        self._child.kill()


class ProgramMember:
    def __init__(self, program: MemberProgram, bootstrap: str, protocol: str, topic: str) -> None:
        self._program = program
        program.do("join", bootstrap, protocol, topic)

    def begin(self) -> None:
        self._program.do("begin")

    def offsets(self, position: int) -> None:
        self._program.do("offsets", position)

    def commit(self) -> None:
        self._program.do("commit")

    def abort(self) -> None:
        self._program.do("abort")

    def leave(self) -> None:
        self._program.do("leave")

    def close(self) -> None:
        self._program.do("close")
