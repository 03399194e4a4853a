"""The clients of the interop matrix: how each is run, and what it can do.

Every client is a program with one command line:

    PROGRAM create  BOOTSTRAP TOPIC PARTITIONS
    PROGRAM produce BOOTSTRAP TOPIC PARTITION:CODEC:ACKS:IDEMPOTENT:FILE ...
    PROGRAM consume BOOTSTRAP OUTPUT TOPIC:PARTITION:COUNT ...

Files hold records as `tests.support.records` describes. A program ends with 0 when every record was
acknowledged, or read to the count; with anything else and a reason on standard error when not.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.apache_kafka import java_command
from tests.support.records import Shape
from tests.support.toolchain import INTEROP, go_program, java_classes, need, node_directory

if TYPE_CHECKING:
    from collections.abc import Callable

REPOSITORY = INTEROP.parent.parent
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PROGRAM_TIMEOUT_SECONDS = 300


class ClientFailed(AssertionError):
    """A client program ended with an error."""


@dataclass(frozen=True, slots=True)
class Client:
    """One client library."""

    name: str
    command: Callable[[], list[str]]
    shape: Shape = field(default_factory=Shape)
    codecs: tuple[str, ...] = CODECS
    idempotence: bool = True
    creates_topics: bool = True
    reads_headers: bool = True
    headers_as_text: bool = False

    def run(self, *arguments: str) -> None:
        """Run the program; ClientFailed shows what it said."""
        done = subprocess.run(
            [*self.command(), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROGRAM_TIMEOUT_SECONDS,
            text=True,
            errors="replace",
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONWARNINGS": "default"},
            check=False,
        )
        if done.returncode != 0:
            shown = " ".join(arguments)[:300]
            raise ClientFailed(f"{self.name} {shown}: ended with {done.returncode}\n{done.stdout[-2500:]}")


def _python(name: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, str(INTEROP / "python" / f"{name}_client.py")]


def _kcat() -> list[str]:
    need("kcat")
    return [sys.executable, str(INTEROP / "kcat" / "client.py")]


def _java(version: str) -> Callable[[], list[str]]:
    def command() -> list[str]:
        classes = java_classes("clients-0.10", "KafkaClient")
        return java_command(f"clients-{version}", "KafkaClient", "-Xmx192m", classes=classes)

    return command


def _go(name: str) -> Callable[[], list[str]]:
    return lambda: [str(go_program(name))]


def _node() -> list[str]:
    return ["node", str(Path(node_directory()) / "client.js")]


OLD_CODECS = CODECS[:4]

CLIENTS = (
    Client("confluent-kafka", _python("confluent")),
    Client("kafka-python", _python("kafka_python"), Shape(null_header_values=False, both_null=False)),
    Client("aiokafka", _python("aiokafka"), Shape(both_null=False)),
    Client(
        "kcat",
        _kcat,
        Shape(timestamps=False, empty=False, same_headers=True),
        creates_topics=False,
        headers_as_text=True,
    ),
    Client("Java 4.3.1", _java("4.3")),
    Client("Java 3.9", _java("3.9")),
    Client("Java 2.8", _java("2.8")),
    Client("Java 1.1", _java("1.1"), codecs=OLD_CODECS),
    Client(
        "Java 0.10.2",
        _java("0.10"),
        Shape(headers=False),
        codecs=OLD_CODECS,
        idempotence=False,
        creates_topics=False,
        reads_headers=False,
    ),
    Client(
        "Java 0.10.0",  # It sends no ApiVersions.
        _java("0.10.0"),
        Shape(headers=False),
        codecs=OLD_CODECS,
        idempotence=False,
        creates_topics=False,
        reads_headers=False,
    ),
    Client("franz-go", _go("franz")),
    Client("sarama", _go("sarama")),
    Client("KafkaJS", _node, Shape(null_header_values=False)),
    Client("kcli", _python("kcli")),
)
