"""The metadata log of several nodes, through changes of everything, as Apache Kafka's dump tool prints it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kcli.control_socket import ask

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.apache_kafka import KafkaTools
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

NODES = 6
QUICK = {"broker.heartbeat.interval.ms": "200", "broker.session.timeout.ms": "1500"}


def live_through_changes(broker: KcliBroker, tools: KafkaTools, tmp_path: Path) -> None:
    """Create, grow, configure, move and delete topics, while nodes come and go and the controller moves."""
    server = ("--bootstrap-server", broker.bootstrap)
    for name in ("kept", "gone"):
        numbers = ("--partitions", "4", "--replication-factor", "3")
        assert tools("kafka-topics", *server, "--create", "--topic", name, *numbers).code == 0
    assert tools("kafka-topics", *server, "--alter", "--topic", "kept", "--partitions", "6").code == 0
    tools("kafka-configs", *server, "--alter", "--topic", "kept", "--add-config", "retention.ms=60000")
    ask(broker.data, "node.move-controller", timeout_seconds=20, node=3)
    plan = tmp_path / "plan.json"
    plan.write_text('{"version":1,"partitions":[{"topic":"kept","partition":0,"replicas":[4,5,6]}]}')
    moved = tools("kafka-reassign-partitions", *server, "--execute", "--reassignment-json-file", plan)
    assert "Successfully started" in moved.output
    ask(broker.data, "node.stop", timeout_seconds=40, node=2)
    ask(broker.data, "node.kill", timeout_seconds=20, node=3)
    assert tools("kafka-topics", *server, "--delete", "--topic", "gone").code == 0
    ask(broker.data, "node.start", timeout_seconds=40, node=3)
    ask(broker.data, "node.start", timeout_seconds=40, node=2)
    added = ask(broker.data, "node.add", timeout_seconds=40, rack="r")
    ask(broker.data, "node.remove", timeout_seconds=40, node=added["node"])


def dumped(tools: KafkaTools, path: Path) -> list[str]:
    """What the dump tool says of a metadata log, without the line that names the file."""
    result = tools("kafka-dump-log", "--cluster-metadata-decoder", "--files", path)
    assert result.code == 0, result
    assert "Could not read" not in result.output
    return [line for line in result.lines if not line.startswith("Dumping ")]


def test_every_copy_is_what_kafkas_dump_tool_prints_the_same_of(
    tmp_path: Path, kafka_tool: KafkaTools, new_kcli_broker: Callable[..., KcliBroker]
) -> None:
    broker = new_kcli_broker(arguments=["--nodes", str(NODES)], settings=QUICK)
    broker.start()
    live_through_changes(broker, kafka_tool, tmp_path)
    assert broker.stop() == 0
    copies = [
        next((broker.data / f"node-{node}" / "__cluster_metadata-0").glob("*.log"))
        for node in range(1, NODES + 1)
    ]
    assert len({path.read_bytes() for path in copies}) == 1
    lines = dumped(kafka_tool, copies[0])
    text = "\n".join(lines)
    for kind in (
        *("FEATURE_LEVEL_RECORD", "REGISTER_BROKER_RECORD", "BROKER_REGISTRATION_CHANGE_RECORD"),
        *("UNREGISTER_BROKER_RECORD", "TOPIC_RECORD", "PARTITION_RECORD", "PARTITION_CHANGE_RECORD"),
        *("CONFIG_RECORD", "REMOVE_TOPIC_RECORD"),
    ):
        assert f'"type":"{kind}"' in text
    terms = [line for line in lines if "LeaderChange" in line]
    assert [int(re.findall(r'"leaderId":(\d+)', line)[0]) for line in terms[:2]] == [1, 3]
    assert re.findall(r'"voterId":(\d+)', terms[0])[:NODES] == [str(node) for node in range(1, NODES + 1)]
