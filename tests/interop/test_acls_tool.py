"""Apache Kafka's kafka-acls on kcli; what it added keeps clients out, over a restart too."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.apache_kafka import ApacheKafka
from tests.support.producing import create_topic
from tests.support.toolchain import need

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.apache_kafka import KafkaTools
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

OPEN = {"authorizer.class.name": "standard", "super.users": "User:ANONYMOUS"}
GUARDED = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


def kcat(bootstrap: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    need("kcat")
    command = ["kcat", "-b", bootstrap, "-X", "topic.metadata.refresh.interval.ms=200", *arguments]
    return subprocess.run(command, input="one\n", capture_output=True, text=True, timeout=60, check=False)


def test_kafka_acls_adds_lists_and_removes(
    new_kcli_broker: Callable[..., KcliBroker], kafka_tool: KafkaTools
) -> None:
    broker = new_kcli_broker(OPEN).start()

    def acls(*arguments: str) -> list[str]:
        result = kafka_tool("kafka-acls", "--bootstrap-server", broker.bootstrap, *arguments)
        assert result.code == 0, result
        return [line.strip() for line in result.lines if line.strip()]

    acls("--add", "--allow-principal", "User:alice", "--producer", "--topic", "orders")
    acls(
        "--add", "--allow-principal", "User:bob", "--consumer", "--topic", "or",
        "--resource-pattern-type", "prefixed", "--group", "*",
    )  # fmt: skip
    acls(
        "--add",
        "--deny-principal",
        "User:eve",
        "--deny-host",
        "10.0.0.1",
        "--operation",
        "Read",
        "--topic",
        "x",
    )
    listed = acls("--list")
    assert sum(line.startswith("(principal=User:alice, host=*") for line in listed) == 3
    assert "(principal=User:eve, host=10.0.0.1, operation=READ, permissionType=DENY)" in listed
    matching = acls("--list", "--topic", "orders", "--resource-pattern-type", "match")
    assert sum("ResourcePattern(" in line for line in matching) == 2
    acls("--remove", "--force", "--allow-principal", "User:alice", "--producer", "--topic", "orders")
    assert acls("--list", "--principal", "User:alice") == ["ACLs for principal `User:alice`"]
    assert broker.stop() == 0
    broker.start()
    assert acls("--list") == [line for line in listed if "alice" not in line and "orders" not in line]


def test_a_client_that_proves_nothing_may_do_what_its_entries_say(
    new_kcli_broker: Callable[..., KcliBroker], kafka_tool: KafkaTools
) -> None:
    broker = new_kcli_broker(OPEN).start()
    for topic in ("open-1", "closed"):
        create_topic(broker.bootstrap, topic, 1)
    added = kafka_tool(
        "kafka-acls", "--bootstrap-server", broker.bootstrap, "--add", "--allow-principal", "User:ANONYMOUS",
        "--allow-host", "127.0.0.1", "--operation", "All", "--topic", "open-", "--resource-pattern-type",
        "prefixed",
    )  # fmt: skip
    assert added.code == 0, added
    broker.kill()
    broker.configure(GUARDED)
    broker.start()
    written = kcat(broker.bootstrap, "-P", "-t", "open-1")
    assert written.returncode == 0, written
    assert kcat(broker.bootstrap, "-C", "-t", "open-1", "-o", "beginning", "-e").stdout == "one\n"
    listed = kcat(broker.bootstrap, "-L").stdout
    assert "open-1" in listed
    assert "closed" not in listed
    for mode in (("-P",), ("-C", "-e")):
        denied = kcat(broker.bootstrap, *mode, "-t", "closed", "-X", "message.timeout.ms=2000")
        assert denied.returncode != 0
        assert "authorization failed" in denied.stderr.lower()
    assert broker.stop() == 0
    assert "Principal = User:ANONYMOUS is Denied" in broker.log.read_text()


def test_a_broker_with_acls_and_nothing_else_denies(new_kcli_broker: Callable[..., KcliBroker]) -> None:
    broker = new_kcli_broker(arguments=("--acls",)).start()
    listed = kcat(broker.bootstrap, "-L", "-t", "t")
    assert "authorization failed" in listed.stdout.lower()
    assert broker.stop() == 0


def test_entries_go_to_apache_kafka_and_back(
    new_kcli_broker: Callable[..., KcliBroker], kafka_tool: KafkaTools, tmp_path: Path
) -> None:
    def acls(bootstrap: str, *arguments: str) -> list[str]:
        result = kafka_tool("kafka-acls", "--bootstrap-server", bootstrap, *arguments)
        assert result.code == 0, result
        return sorted(line.strip() for line in result.lines if line.strip())

    def add(bootstrap: str, user: str, *more: str) -> None:
        acls(bootstrap, "--add", "--allow-principal", f"User:{user}", "--operation", "All", *more)

    broker = new_kcli_broker(OPEN).start()
    add(broker.bootstrap, "alice", "--topic", "t")
    add(broker.bootstrap, "gone", "--topic", "t")
    add(broker.bootstrap, "bob", "--group", "g", "--resource-pattern-type", "prefixed")
    acls(broker.bootstrap, "--remove", "--force", "--allow-principal", "User:gone", "--topic", "t")
    here = acls(broker.bootstrap, "--list")
    assert broker.stop() == 0
    segment = broker.node_directory / "__cluster_metadata-0" / f"{0:020d}.log"
    dumped = kafka_tool("kafka-dump-log", "--cluster-metadata-decoder", "--files", segment)
    assert dumped.code == 0, dumped
    records = re.findall(r'"type":"(\w*ACCESS_CONTROL_ENTRY_RECORD)"', dumped.output)
    assert sorted(records) == ["ACCESS_CONTROL_ENTRY_RECORD"] * 3 + ["REMOVE_ACCESS_CONTROL_ENTRY_RECORD"]

    apache = ApacheKafka(
        tmp_path,
        kafka_tool,
        data=broker.node_directory,
        settings={**GUARDED, "super.users": "User:ANONYMOUS"},
    )
    apache.start()
    try:
        assert acls(apache.bootstrap, "--list") == here
        add(apache.bootstrap, "carol", "--cluster")
        there = acls(apache.bootstrap, "--list")
    finally:
        apache.stop()
    assert len(there) > len(here)
    broker.start()
    assert acls(broker.bootstrap, "--list") == there
    assert broker.stop() == 0
    assert "not served" not in broker.log.read_text()
