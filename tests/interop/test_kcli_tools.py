"""kcli's commands against Apache Kafka and against kcli: the original tools' lines, and their effects."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from typer.main import get_command

from kcli.cli import build_app
from tests.support.producing import create_topic, delete_topic, end_offsets, produce, read_partition
from tests.support.records import Shape, generate
from tests.support.waiting import first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import typer.core

    from tests.conftest import Finished
    from tests.interop.conftest import AnyBroker
    from tests.support.apache_kafka import KafkaTools

pytestmark = pytest.mark.interop

SAME_OPTIONS = {
    "kafka-topics": "topics",
    "kafka-configs": "configs",
    "kafka-console-producer": "produce",
    "kafka-console-consumer": "consume",
    "kafka-consumer-groups": "consumer-groups",
    "kafka-get-offsets": "get-offsets",
    "kafka-delete-records": "delete-records",
    "kafka-reassign-partitions": "reassign-partitions",
    "kafka-leader-election": "preferred-replica-election",
    "kafka-dump-log": "dump-log",
    "kafka-log-dirs": "log-dirs",
}
MISSING_OPTIONS = {
    "kafka-configs": {"--bootstrap-controller", "--ip", "--ip-defaults"},
    "kafka-reassign-partitions": {"--bootstrap-controller"},
}
"""There are no quotas of addresses yet, and no node has a listener for controllers alone."""


@pytest.fixture
def run(
    kcli: Callable[..., Finished], broker: AnyBroker, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[str]]:
    """Run kcli against the broker; it must succeed. Its lines."""
    monkeypatch.setenv("KCLI_BOOTSTRAP_SERVER", broker.bootstrap)

    def done(*arguments: str, input: bytes = b"") -> list[str]:
        result = kcli(*arguments, input=input)
        assert result.exit_code == 0, result
        return result.out.splitlines()

    return done


@pytest.fixture
def original(kafka_tool: KafkaTools, broker: AnyBroker) -> Callable[..., list[str]]:
    """Run Apache Kafka's tool against the broker; it must succeed. Its lines."""

    def done(tool: str, *arguments: str, stdin: bytes = b"") -> list[str]:
        result = kafka_tool(tool, "--bootstrap-server", broker.bootstrap, *arguments, stdin=stdin)
        assert result.code == 0, result
        return result.lines

    return done


@pytest.fixture
def topic(broker: AnyBroker) -> Iterator[str]:
    """A topic of four partitions with configurations of its own and some records."""
    config = {
        "retention.ms": "123456789",
        "cleanup.policy": "compact,delete",
        "max.message.bytes": "2000000",
        "compression.type": "lz4",
        "min.cleanable.dirty.ratio": "0.25",
        "message.timestamp.type": "CreateTime",
    }
    create_topic(broker.bootstrap, "described", 4, config)
    records = [record for slot in range(3) for record in generate(1, slot, 50 * slot, Shape(empty=False))]
    produce(broker.bootstrap, "described", [record for record in records if record.key])
    yield "described"
    delete_topic(broker.bootstrap, "described")


def test_topics_describe_is_the_original_text(
    run: Callable[..., list[str]], original: Callable[..., list[str]], topic: str
) -> None:
    assert run("topics", "describe", topic) == original("kafka-topics", "--describe", "--topic", topic)
    # Of several topics the original prints one after another in the order of a hash table.
    for flags in ((), ("--topics-with-overrides",), ("--under-replicated-partitions",)):
        assert sorted(run("topics", "describe", *flags)) == sorted(
            original("kafka-topics", "--describe", *flags)
        )
    assert run("topics", "list") == original("kafka-topics", "--list")


def options_of(command: typer.core.TyperCommand | typer.core.TyperGroup) -> set[str]:
    """The options of a command, or of all in a group; its verbs are options of Kafka's tools."""
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    verbs = getattr(command, "commands", {})
    return options.union({f"--{verb}" for verb in verbs}, *map(options_of, verbs.values()))


@pytest.mark.parametrize("tool", SAME_OPTIONS)
def test_the_options_of_the_original_are_known(tool: str, kafka_tool: KafkaTools) -> None:
    command = get_command(build_app()).commands[SAME_OPTIONS[tool]]
    theirs = set(re.findall(r"^(--[a-z][a-z.-]+)", kafka_tool(tool, "--help").errors, re.MULTILINE))
    assert len(theirs) > 3
    assert theirs - options_of(command) == {"--help", "--version"} | MISSING_OPTIONS.get(tool, set())


def test_configs_describe_is_the_original_text(
    run: Callable[..., list[str]], original: Callable[..., list[str]], topic: str
) -> None:
    entity = ("--entity-type", "topics", "--entity-name", topic)
    assert run("configs", "describe", *entity) == original("kafka-configs", "--describe", *entity)
    every = (*entity, "--all")
    assert run("configs", "describe", *every) == original("kafka-configs", "--describe", *every)


def shown(run: Callable[..., list[str]], wanted: str, *command: str, gone: bool = False) -> list[str]:
    """The lines of a command once a text is in them, or `gone`: controllers answer before nodes know."""
    return first(
        lambda: run(*command), lambda lines: any(wanted in line for line in lines) != gone, " ".join(command)
    )


@pytest.fixture
def configured_group(run: Callable[..., list[str]]) -> Iterator[str]:
    """A group that nobody has joined, with a configuration of its own."""
    describe = ("configs", "describe", "--group", "configured")
    assert run("configs", "alter", "--group", "configured", "--add", "consumer.session.timeout.ms=50000") == [
        "Completed updating config for group configured."
    ]
    shown(run, "consumer.session.timeout.ms=50000", *describe)
    yield "configured"
    run("configs", "alter", "--group", "configured", "--delete", "consumer.session.timeout.ms")
    shown(run, "consumer.session.timeout.ms", *describe, gone=True)


def test_configs_of_groups_are_the_original_text(
    run: Callable[..., list[str]], original: Callable[..., list[str]], configured_group: str
) -> None:
    for entity in (("--group", configured_group), ("--group", configured_group, "--all")):
        assert run("configs", "describe", *entity) == original("kafka-configs", "--describe", *entity)
    every = ("--entity-type", "groups")
    assert sorted(run("configs", "describe", *every)) == sorted(
        original("kafka-configs", "--describe", *every)
    )


def test_levels_of_loggers_are_the_original_text(
    run: Callable[..., list[str]], original: Callable[..., list[str]]
) -> None:
    entity = ("--entity-type", "broker-loggers", "--entity-name", "1")
    before = run("configs", "describe", *entity)
    assert before == original("kafka-configs", "--describe", *entity)
    (level,) = [line.split()[0].removeprefix("root=") for line in before if line.startswith("  root=")]
    done = ["Completed updating config for broker-logger 1."]
    try:
        assert original("kafka-configs", "--alter", *entity, "--add-config", "root=FATAL") == done
        assert "  root=FATAL sensitive=false synonyms={}" in run("configs", "describe", *entity)
    finally:
        assert run("configs", "alter", *entity, "--add", f"root={level}") == done
    assert original("kafka-configs", "--describe", *entity) == before


@pytest.mark.parametrize("kind", ["client-metrics", "groups"])
def test_configs_of_what_does_not_exist_are_the_original_text(
    kind: str, run: Callable[..., list[str]], original: Callable[..., list[str]]
) -> None:
    entity = ("--entity-type", kind, "--entity-name", "nobody")
    assert run("configs", "describe", *entity) == original("kafka-configs", "--describe", *entity)


def test_configs_without_effect_of_groups_are_checked_and_shown(
    run: Callable[..., list[str]], original: Callable[..., list[str]]
) -> None:
    entity = ("--entity-type", "groups", "--entity-name", "shared")
    values = (
        "consumer.assignment.interval.ms=500,share.session.timeout.ms=50000,streams.num.standby.replicas=1"
    )
    original("kafka-configs", "--alter", *entity, "--add-config", values)
    described = run("configs", "describe", *entity)
    assert described == original("kafka-configs", "--describe", *entity)
    assert [line.split()[0] for line in described[1:]] == values.split(",")
    names = ",".join(pair.partition("=")[0] for pair in values.split(","))
    original("kafka-configs", "--alter", *entity, "--delete-config", names)


@pytest.mark.parametrize("broker", ["apache_kafka"], indirect=True)
def test_configs_that_only_apache_kafka_has_are_the_original_text(
    run: Callable[..., list[str]], original: Callable[..., list[str]]
) -> None:
    laptops = ("--client-metrics", "laptops")
    done = ["Completed updating config for client-metric laptops."]
    assert run("configs", "alter", *laptops, "--add", "interval.ms=60000") == done
    described = shown(run, "interval.ms=60000", "configs", "describe", *laptops)
    assert "interval.ms=60000" in described[1]
    assert described == original("kafka-configs", "--describe", *laptops)
    every = run("configs", "describe", "--entity-type", "client-metrics")
    assert every == original("kafka-configs", "--describe", "--entity-type", "client-metrics")
    assert run("configs", "alter", *laptops, "--delete", "interval.ms") == done
    loggers = ("--broker-logger", "1")
    assert run("configs", "describe", *loggers) == original("kafka-configs", "--describe", *loggers)


def test_get_offsets_is_the_original_text(
    run: Callable[..., list[str]], original: Callable[..., list[str]], topic: str
) -> None:
    for time in ("latest", "earliest", "max-timestamp", "-1", "-2", "-6", "1000"):
        theirs = original("kafka-get-offsets", "--topic", topic, "--time", time)
        assert run("get-offsets", topic, "--time", time) == theirs


def test_cluster_is_the_original_text(
    run: Callable[..., list[str]], original: Callable[..., list[str]]
) -> None:
    assert run("cluster", "api-versions") == original("kafka-broker-api-versions")


def test_log_dirs_agrees(
    run: Callable[..., list[str]], original: Callable[..., list[str]], topic: str
) -> None:
    theirs = json.loads(original("kafka-log-dirs", "--describe", "--topic-list", topic)[-1])
    ours = json.loads(run("log-dirs", "describe", "--topic-list", topic, "-o", "text")[-1])
    assert ours == theirs


def test_topics_are_created_altered_and_deleted(
    run: Callable[..., list[str]], original: Callable[..., list[str]]
) -> None:
    assert run("topics", "create", "made", "--partitions", "2", "--config", "retention.ms=5000") == [
        "Created topic made."
    ]
    shown(run, "made", "topics", "list")
    run("topics", "alter", "made", "--partitions", "3")
    run(
        "configs",
        "alter",
        "--entity-type",
        "topics",
        "--entity-name",
        "made",
        "--add-config",
        "segment.ms=9000",
    )
    described = shown(original, "segment.ms=9000", "kafka-topics", "--describe", "--topic", "made")
    assert "PartitionCount: 3" in described[0]
    assert "retention.ms=5000" in described[0]
    assert "segment.ms=9000" in described[0]
    run("topics", "delete", "made")
    assert "made" not in shown(original, "made", "kafka-topics", "--list", gone=True)


def test_delete_records(
    run: Callable[..., list[str]], original: Callable[..., list[str]], broker: AnyBroker, topic: str
) -> None:
    first, end = end_offsets(broker.bootstrap, topic)[2]
    assert (first, end > 5) == (0, True)
    run("delete-records", f"{topic}:2:5")
    assert end_offsets(broker.bootstrap, topic)[2] == (5, end)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produce_and_consume_as_the_original_tools(
    run: Callable[..., list[str]],
    original: Callable[..., list[str]],
    broker: AnyBroker,
    codec: str,
    tmp_path: Path,
) -> None:
    lines = [f"trace:{n},more:x\tkey-{n}\tvalue {n} ü" for n in range(300)]
    text = "".join(f"{line}\n" for line in lines).encode()
    properties = ("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
    shown = (
        *("--formatter-property", "print.key=true", "--formatter-property", "print.headers=true"),
        *("--formatter-property", "print.timestamp=true", "--formatter-property", "print.offset=true"),
        *("--formatter-property", "print.partition=true"),
    )
    create_topic(broker.bootstrap, "lines", 1)
    try:
        assert len(read_partition(broker.bootstrap, "lines", 0)) == 0
        run("produce", "lines", "--compression-codec", codec, *properties, input=text)
        original(
            "kafka-console-producer",
            "--topic",
            "lines",
            "--compression-codec",
            codec,
            *properties,
            stdin=text,
        )
        theirs = original(
            "kafka-console-consumer",
            *("--topic", "lines", "--partition", "0", "--offset", "earliest"),
            *("--max-messages", "600", "--timeout-ms", "60000", *shown),
        )
        ours = run("consume", "lines", "--from-beginning", "--max-messages", "600", *shown)
        assert ours == theirs
        assert [line.split("\t", 3)[3] for line in ours] == lines * 2
    finally:
        delete_topic(broker.bootstrap, "lines")
