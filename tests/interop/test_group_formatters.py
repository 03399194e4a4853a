"""The formatters of the coordinators' topics print what Apache Kafka's console consumer prints of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kcli.protocol.topics import partition_for
from tests.support.forensic_topics import consume_as_group, write_transactional_offsets
from tests.support.producing import create_topic, delete_topic, end_offsets, produce
from tests.support.records import FIRST_TIMESTAMP, TestRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Finished
    from tests.support.apache_kafka import ApacheKafka, KafkaTools
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

TOPIC = "formatted"
GROUPS = {"formatted-kcli": "classic", "formatted-other": "classic", "formatted-modern": "consumer"}
JAVA_CLASSES = {
    "offsets": "org.apache.kafka.tools.consumer.OffsetsMessageFormatter",
    "group-metadata": "org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter",
    "transaction-log": "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter",
}


@pytest.fixture(params=["apache_kafka", "kcli_broker"])
def broker(request: pytest.FixtureRequest) -> KcliBroker | ApacheKafka:
    """Each of the two brokers."""
    found: KcliBroker | ApacheKafka = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def run(
    kcli: Callable[..., Finished], broker: KcliBroker | ApacheKafka, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[str]]:
    """Run kcli against the broker; it must succeed. Its lines."""
    monkeypatch.setenv("KCLI_BOOTSTRAP_SERVER", broker.bootstrap)

    def lines(*arguments: str) -> list[str]:
        finished = kcli(*arguments)
        assert finished.exit_code == 0, finished
        return finished.out.splitlines()

    return lines


@pytest.fixture
def groups(broker: KcliBroker | ApacheKafka, run: Callable[..., list[str]]) -> Iterator[dict[str, int]]:
    """Groups of both protocols that committed, one of which is deleted again; the partition of each."""
    create_topic(broker.bootstrap, TOPIC, 2)
    records = [TestRecord(partition, -1, FIRST_TIMESTAMP, None, b"x") for partition in (0, 1)]
    produce(broker.bootstrap, TOPIC, records)
    run("consume", TOPIC, "--group", "formatted-kcli", "--from-beginning", "--max-messages", "2")
    consume_as_group(broker.bootstrap, TOPIC, "formatted-other")
    consume_as_group(broker.bootstrap, TOPIC, "formatted-modern", group_protocol="consumer")
    run("consumer-groups", "delete", "formatted-other")
    described = run("topics", "describe", "__consumer_offsets", "-o", "json")
    count = len(json.loads(described[0])["topics"][0]["partitions"])
    yield {group: partition_for(group, count) for group in GROUPS}
    delete_topic(broker.bootstrap, TOPIC)


def original(
    tools: KafkaTools, broker: KcliBroker | ApacheKafka, topic: str, partition: int, formatter: str
) -> list[str]:
    """What the console consumer prints: objects one behind the other, without anything in between."""
    begin, end = end_offsets(broker.bootstrap, topic)[partition]
    result = tools(
        "kafka-console-consumer",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic),
        *("--partition", str(partition), "--offset", "earliest"),
        *("--max-messages", str(end - begin), "--timeout-ms", "20000"),
        *("--formatter", JAVA_CLASSES[formatter]),
    )
    assert result.code == 0, result
    decoder, text, position, objects = json.JSONDecoder(), result.output.strip(), 0, []
    while position < len(text):
        _, end = decoder.raw_decode(text, position)
        objects.append(text[position:end].strip())
        position = end
    return objects


def ours(run: Callable[..., list[str]], topic: str, partition: int, formatter: str) -> list[str]:
    return run(
        *("consume", topic, "--partition", str(partition), "--offset", "earliest", "--until-end"),
        *("--formatter", formatter),
    )


@pytest.mark.parametrize("formatter", ["offsets", "group-metadata"])
def test_groups_look_as_in_the_original(
    formatter: str,
    broker: KcliBroker | ApacheKafka,
    kafka_tool: KafkaTools,
    groups: dict[str, int],
    run: Callable[..., list[str]],
) -> None:
    seen = set()
    for partition in sorted(set(groups.values())):
        theirs = original(kafka_tool, broker, "__consumer_offsets", partition, formatter)
        assert ours(run, "__consumer_offsets", partition, formatter)[: len(theirs)] == theirs
        assert ours(run, "__consumer_offsets", partition, JAVA_CLASSES[formatter])[: len(theirs)] == theirs
        for shown in map(json.loads, theirs):
            seen.add((shown["key"]["data"]["group"], shown["value"] is None))
    # A tombstone of what was deleted; records of the other protocol's groups are not metadata of this one.
    expected = {("formatted-kcli", False), ("formatted-other", False), ("formatted-other", True)}
    assert expected <= seen
    assert (("formatted-modern", False) in seen) is (formatter == "offsets")


def test_transactions_look_as_in_the_original(
    broker: KcliBroker | ApacheKafka, kafka_tool: KafkaTools, run: Callable[..., list[str]]
) -> None:
    create_topic(broker.bootstrap, TOPIC, 1)
    write_transactional_offsets(broker.bootstrap, TOPIC, "formatted-transactions")
    count = len(end_offsets(broker.bootstrap, "__transaction_state"))
    partition = partition_for("formatted-transactions-offsets", count)
    theirs = original(kafka_tool, broker, "__transaction_state", partition, "transaction-log")
    # The last transaction may have come to its end in between.
    for formatter in ("transaction-log", JAVA_CLASSES["transaction-log"]):
        assert ours(run, "__transaction_state", partition, formatter)[: len(theirs)] == theirs
    assert any("formatted-transactions-offsets" in line for line in theirs)
    delete_topic(broker.bootstrap, TOPIC)
