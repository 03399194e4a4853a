"""Apache Kafka's own command-line tools against kcli, and against Apache Kafka to prove the tests."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import eventually, first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.interop.conftest import AnyBroker
    from tests.support.apache_kafka import KafkaTools, ToolResult

pytestmark = pytest.mark.interop


@pytest.fixture
def tool(kafka_tool: KafkaTools, broker: AnyBroker) -> Iterator[BoundTools]:
    """Apache's tools bound to the broker; topics named `tool-…` are deleted afterwards."""
    bound = BoundTools(kafka_tool, broker.bootstrap)
    yield bound
    bound("kafka-topics", "--delete", "--if-exists", "--topic", "tool-.*")
    # The next test may make a topic of the same name.
    bound.shows(lambda names: not any(name.startswith("tool-") for name in names), "kafka-topics", "--list")


class BoundTools:
    """Runs tools against one broker."""

    def __init__(self, tools: KafkaTools, bootstrap: str) -> None:
        self.tools = tools
        self.bootstrap = bootstrap

    def __call__(self, name: str, *arguments: str | Path, stdin: bytes = b"") -> ToolResult:
        return self.tools(name, "--bootstrap-server", self.bootstrap, *arguments, stdin=stdin)

    def done(self, name: str, *arguments: str | Path, stdin: bytes = b"") -> list[str]:
        """Run a tool that must succeed; its lines."""
        result = self(name, *arguments, stdin=stdin)
        assert result.code == 0, result
        return result.lines

    def shows(self, is_wanted: Callable[[list[str]], bool], name: str, *arguments: str) -> list[str]:
        """The lines of a tool once they are as wanted: controllers answer before the node has heard of it."""
        return first(lambda: self.done(name, *arguments), is_wanted, f"{name} {' '.join(arguments)}")

    def create(self, topic: str, partitions: int = 1) -> None:
        """Create a topic and see every partition led.

        A broker that refuses a producer's first batch because the partition is not there yet, and then takes
        the second, leaves an idempotent producer retrying the first until its delivery times out.
        """
        self.done("kafka-topics", "--create", "--topic", topic, "--partitions", str(partitions))
        eventually(
            lambda: len(self("kafka-get-offsets", "--topic", topic).lines) == partitions,
            f"every partition of {topic} is led",
        )

    def produce(self, topic: str, *lines: str) -> None:
        """Produce lines."""
        self.done("kafka-console-producer", "--topic", topic, stdin="".join(f"{x}\n" for x in lines).encode())


TOPIC_ID = re.compile(r"TopicId: \S{22}")


def test_topics_create_list_describe_alter_delete(tool: BoundTools) -> None:
    created = tool.done(
        "kafka-topics",
        *("--create", "--topic", "tool-orders", "--partitions", "3", "--replication-factor", "1"),
        *("--config", "retention.ms=60000", "--config", "max.message.bytes=20000"),
    )
    assert created == ["Created topic tool-orders."]
    tool.shows(lambda names: "tool-orders" in names, "kafka-topics", "--list")
    tool.done("kafka-topics", "--alter", "--topic", "tool-orders", "--partitions", "5")
    describe = ("kafka-topics", "--describe", "--topic", "tool-orders")
    described = tool.shows(lambda lines: len(lines) == 6, *describe)
    *head, configs = TOPIC_ID.sub("TopicId: *", described[0]).split("\t")
    assert head == ["Topic: tool-orders", "TopicId: *", "PartitionCount: 5", "ReplicationFactor: 1"]
    # A cluster with the eligible-leader-replicas feature fixes min.insync.replicas, and says so.
    shown = set(configs.removeprefix("Configs: ").split(",")) - {"min.insync.replicas=1"}
    assert shown == {"max.message.bytes=20000", "retention.ms=60000"}
    partition = "Leader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: "
    assert described[1:] == [f"\tTopic: tool-orders\tPartition: {n}\t{partition}" for n in range(5)]
    tool.done("kafka-topics", "--delete", "--topic", "tool-orders")
    tool.shows(lambda names: "tool-orders" not in names, "kafka-topics", "--list")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--create", "--topic", "tool-twice"), "TopicExistsException"),
        (("--create", "--topic", "tool bad"), "InvalidTopicException"),
        (
            ("--create", "--topic", "tool-wide", "--replication-factor", "9"),
            "InvalidReplicationFactorException",
        ),
        (("--create", "--topic", "tool-none", "--config", "no.such=1"), "InvalidConfigurationException"),
        (
            ("--create", "--topic", "tool-none", "--config", "retention.ms=x"),
            "Invalid value x for configuration retention.ms",
        ),
        (("--alter", "--topic", "tool-twice", "--partitions", "1"), "InvalidPartitionsException"),
        (("--describe", "--topic", "tool-missing"), "does not exist"),
    ],
)
def test_topics_refusals(tool: BoundTools, arguments: tuple[str, ...], message: str) -> None:
    tool.create("tool-twice", 2)
    result = tool("kafka-topics", *arguments)
    assert result.code == 1
    assert message in result.output + result.errors


def test_topics_create_by_replica_assignment(tool: BoundTools) -> None:
    tool.done("kafka-topics", "--create", "--topic", "tool-placed", "--replica-assignment", "1,1,1")
    tool.shows(lambda names: "tool-placed" in names, "kafka-topics", "--list")
    described = tool.done("kafka-topics", "--describe", "--topic", "tool-placed")
    assert "PartitionCount: 3" in described[0]


def test_topic_configs(tool: BoundTools) -> None:
    tool.create("tool-configs")
    entity = ("--entity-type", "topics", "--entity-name", "tool-configs")
    altered = tool.done(
        "kafka-configs",
        *(*entity, "--alter", "--add-config", "retention.ms=1000,cleanup.policy=[compact,delete]"),
    )
    assert altered == ["Completed updating config for topic tool-configs."]
    described = tool.shows(lambda lines: len(lines) == 3, "kafka-configs", *entity, "--describe")
    assert described == [
        "Dynamic configs for topic tool-configs are:",
        "  cleanup.policy=compact,delete sensitive=false synonyms={"
        "DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}",
        "  retention.ms=1000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000}",
    ]
    tool.done("kafka-configs", *entity, "--alter", "--delete-config", "retention.ms,cleanup.policy")
    described = tool.shows(lambda lines: len(lines) == 1, "kafka-configs", *entity, "--describe")
    assert described == ["Dynamic configs for topic tool-configs are:"]
    every = tool.done("kafka-configs", *entity, "--describe", "--all")
    assert (
        "  segment.bytes=1073741824 sensitive=false synonyms={DEFAULT_CONFIG:log.segment.bytes=1073741824}"
        in every
    )
    refused = tool("kafka-configs", *entity, "--alter", "--add-config", "segment.bytes=one")
    assert refused.code == 1
    assert "InvalidConfigurationException" in refused.output + refused.errors


def test_broker_configs(tool: BoundTools) -> None:
    everyone = ("--entity-type", "brokers", "--entity-default")
    one = ("--entity-type", "brokers", "--entity-name", "1")
    tool.done("kafka-configs", *everyone, "--alter", "--add-config", "log.retention.ms=86400000")
    tool.done("kafka-configs", *one, "--alter", "--add-config", "log.retention.ms=43200000")
    line = (
        "  log.retention.ms=43200000 sensitive=false synonyms={"
        "DYNAMIC_BROKER_CONFIG:log.retention.ms=43200000, "
        "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=86400000"
    )

    def shows(beginning: str) -> bool:
        return any(shown.startswith(beginning) for shown in tool.done("kafka-configs", *one, "--describe"))

    # The controller answers before the node has heard of it.
    eventually(lambda: shows(line), line)
    for entity in (one, everyone):
        tool.done("kafka-configs", *entity, "--alter", "--delete-config", "log.retention.ms")
    eventually(lambda: not shows("  log.retention.ms="), "no value of its own")
    refused = tool("kafka-configs", *one, "--alter", "--add-config", "broker.id=7")
    assert refused.code == 1


def test_get_offsets_and_delete_records(tool: BoundTools, tmp_path: Path) -> None:
    tool.create("tool-offsets", 2)
    tool.produce("tool-offsets", *(f"line {n}" for n in range(20)))
    offsets = ("kafka-get-offsets", "--topic", "tool-offsets", "--time")
    ends = [int(line.rpartition(":")[2]) for line in tool.done(*offsets, "latest")]
    assert sum(ends) == 20
    busy = ends.index(max(ends))
    wanted = {"topic": "tool-offsets", "partition": busy, "offset": 5}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
    deleted = tool.done("kafka-delete-records", "--offset-json-file", plan)
    assert f"partition: tool-offsets-{busy}\tlow_watermark: 5" in deleted
    assert f"tool-offsets:{busy}:5" in tool.done(*offsets, "earliest")
    assert [line for line in tool.done(*offsets, "max-timestamp") if f":{busy}:" in line] != []
    assert f"tool-offsets:{busy}:5" in tool.done(*offsets, "1000000000000")
    wanted["offset"] = 50
    plan.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
    refused = tool("kafka-delete-records", "--offset-json-file", plan)
    assert "OffsetOutOfRangeException" in refused.output + refused.errors


def test_log_dirs(tool: BoundTools) -> None:
    tool.create("tool-sizes", 2)
    tool.produce("tool-sizes", "one", "two")
    described = tool.done("kafka-log-dirs", "--describe", "--topic-list", "tool-sizes")
    report = json.loads(described[-1])
    (directory,) = report["brokers"][0]["logDirs"]
    assert directory["error"] is None
    sizes = {entry["partition"]: entry["size"] for entry in directory["partitions"]}
    assert sorted(sizes) == ["tool-sizes-0", "tool-sizes-1"]
    assert sum(sizes.values()) > 0


def test_broker_api_versions(tool: BoundTools) -> None:
    shown = "\n".join(tool.done("kafka-broker-api-versions"))
    assert re.search(r"^127\.0\.0\.1:\d+ \(id: 1 rack: null isFenced: false\) -> \($", shown, re.MULTILINE)
    assert "Produce(0): 0 to 13 [usable: 13]" in shown
    assert re.search(r"Fetch\(1\): \d+ to 18 \[usable: 18\]", shown)
    assert "UNKNOWN" not in shown


def test_cluster_id(tool: BoundTools) -> None:
    (shown,) = tool.tools("kafka-cluster", "cluster-id", "--bootstrap-server", tool.bootstrap).lines
    assert re.fullmatch(r"Cluster ID: [\w-]{22}", shown)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_console_producer_and_consumer(tool: BoundTools, codec: str) -> None:
    tool.create("tool-console")
    lines = [f"trace:{n}\tkey-{n}\tvalue {n} ü" for n in range(50)]
    tool.done(
        "kafka-console-producer",
        *("--topic", "tool-console", "--compression-codec", codec),
        *("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"),
        stdin="\n".join(lines).encode(),
    )
    read = tool.done(
        "kafka-console-consumer",
        *("--topic", "tool-console", "--partition", "0", "--offset", "10", "--max-messages", "40"),
        *("--formatter-property", "print.key=true", "--formatter-property", "print.headers=true"),
        *("--timeout-ms", "60000"),
    )
    assert read == lines[10:]


def test_perf_tools(tool: BoundTools) -> None:
    tool.create("tool-perf", 3)
    produced = tool.done(
        "kafka-producer-perf-test",
        *("--topic", "tool-perf", "--num-records", "20000", "--record-size", "200", "--throughput", "-1"),
        *("--command-property", "compression.type=lz4"),
    )
    assert produced[-1].startswith("20000 records sent")
    consumed = tool.done(
        "kafka-consumer-perf-test", "--topic", "tool-perf", "--num-records", "20000", "--timeout", "60000"
    )
    figures = [field.strip() for field in consumed[-1].split(",")]
    assert int(figures[4]) == 20000
