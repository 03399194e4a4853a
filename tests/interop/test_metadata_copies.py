"""The metadata log of several nodes, through changes of everything, as Apache Kafka's own tools print it."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from kcli.broker.metadata.metadata_log import MetadataLog
from kcli.broker.metadata.metadata_replay import replay
from kcli.control_socket import ask
from kcli.protocol.configs import ConfigResourceType
from kcli.protocol.uuids import uuid_to_text
from tests.support.apache_kafka import java_command
from tests.support.waiting import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kcli.broker.metadata.metadata_image import MetadataImage, PartitionRegistration
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
    ask(broker.data, "node.move-controller", timeout_seconds=60, node=3)
    plan = tmp_path / "plan.json"
    plan.write_text('{"version":1,"partitions":[{"topic":"kept","partition":0,"replicas":[4,5,6]}]}')
    moved = tools("kafka-reassign-partitions", *server, "--execute", "--reassignment-json-file", plan)
    assert "Successfully started" in moved.output
    ask(broker.data, "node.stop", timeout_seconds=60, node=2)
    ask(broker.data, "node.kill", timeout_seconds=60, node=3)
    assert tools("kafka-topics", *server, "--delete", "--topic", "gone").code == 0
    ask(broker.data, "node.start", timeout_seconds=60, node=3)
    ask(broker.data, "node.start", timeout_seconds=60, node=2)
    added = ask(broker.data, "node.add", timeout_seconds=60, rack="r")
    ask(broker.data, "node.remove", timeout_seconds=60, node=added["node"])


def dumped(tools: KafkaTools, path: Path) -> list[str]:
    """What the dump tool says of a metadata log, without the line that names the file."""
    result = tools("kafka-dump-log", "--cluster-metadata-decoder", "--files", path)
    assert result.code == 0, result
    assert "Could not read" not in result.output
    return [line for line in result.lines if not line.startswith("Dumping ")]


def image_in(log_directory: Path) -> MetadataImage:
    """What a log directory's copy of the metadata log says to kcli."""
    log = MetadataLog.open(str(log_directory), node_id=1, wall_ms=lambda: 0, report=pytest.fail)
    try:
        return replay(log.replay())
    finally:
        log.close()


def as_the_shell_prints(partition: PartitionRegistration) -> str:
    """A partition in the words of Kafka's `PartitionRegistration`."""
    lists = {
        "replicas": partition.replicas,
        "directories": [uuid_to_text(each) for each in partition.directories],
        "isr": partition.isr,
        "removingReplicas": partition.removing,
        "addingReplicas": partition.adding,
        "elr": partition.elr,
        "lastKnownElr": partition.last_known_elr,
    }
    words = [f"{name}=[{', '.join(map(str, values))}]" for name, values in lists.items()]
    words += [f"leader={partition.leader}", f"leaderRecoveryState={partition.recovery_state.name}"]
    words += [f"leaderEpoch={partition.leader_epoch}", f"partitionEpoch={partition.partition_epoch}"]
    return f"PartitionRegistration({', '.join(words)})"


def shell_answers(path: Path, commands: Sequence[str]) -> list[str]:
    """What Kafka's metadata shell prints for each command, asked one after another of one log."""
    finished = subprocess.run(
        [*java_command("apache-kafka", "org.apache.kafka.shell.MetadataShell"), "--snapshot", str(path)],
        input="".join(f"{command}\n" for command in (*commands, "exit")),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    _, *answers = re.split("^>> ", finished.stdout, flags=re.MULTILINE)
    return [answer.rstrip("\n") for answer in answers[: len(commands)]]


def assert_shell_sees(path: Path, image: MetadataImage) -> None:
    """Compare what Kafka's metadata shell makes of a log with an image."""
    expected = {
        "ls /image/cluster/brokers": list(map(str, sorted(image.brokers))),
        "ls /image/topics/byName": sorted(image.topics),
    }
    for topic in image.topics.values():
        directory = f"/image/topics/byName/{topic.name}"
        expected[f"cat {directory}/id"] = [uuid_to_text(topic.topic_id)]
        for index, partition in enumerate(topic.partitions):
            expected[f"cat {directory}/{index}"] = [as_the_shell_prints(partition)]
    for name, level in image.features.items():
        if name != "metadata.version":
            expected[f"cat /image/features/finalized_{name}"] = [str(level)]
    for (kind, name), values in image.configs.items():
        resource = ":".join(filter(None, (ConfigResourceType(kind).name, name)))
        for key, value in values.items():
            expected[f"cat /image/configs/{resource}/{key}"] = [value]
    # The shell does not wait for its own loader, and may answer by what it has read so far.
    seen: dict[str, list[str]] = {}

    def agree() -> bool:
        answers = shell_answers(path, list(expected))
        seen.clear()
        seen.update(zip(expected, map(str.splitlines, answers), strict=False))
        return seen == expected

    eventually(agree, f"the shell prints {expected}", seen=lambda: seen)


def test_every_copy_is_what_kafkas_tools_print_the_same_of(
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
    assert_shell_sees(copies[0], image_in(broker.data / "node-1"))
    terms = [line for line in lines if "LeaderChange" in line]
    assert [int(re.findall(r'"leaderId":(\d+)', line)[0]) for line in terms[:2]] == [1, 3]
    assert re.findall(r'"voterId":(\d+)', terms[0])[:NODES] == [str(node) for node in range(1, NODES + 1)]
