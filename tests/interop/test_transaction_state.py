"""`__transaction_state` and the coordinator as foreign programs see them: levels, records, time-outs."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from kcli.protocol.topics import partition_for
from tests.support.apache_kafka import KafkaTools
from tests.support.kcli_broker import KcliBroker
from tests.support.producing import create_topic
from tests.support.raw_client import RawClient
from tests.support.raw_transactions import RawTransactions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.interop

PATIENCE_SECONDS = 60.0
RECORDS = 2500
EMPTY, ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT = 0, 1, 2, 4


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KcliBroker]:
    """A broker that looks for transactions over their timeout all the time."""
    running = KcliBroker(
        tmp_path_factory.mktemp("transactions"),
        settings={"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50"},
    )
    running.start()
    yield running
    assert running.stop() == 0


def producer_of(broker: KcliBroker, transactional_id: str, **settings: object) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id, **settings})


def committed(broker: KcliBroker, topic: str, partitions: int) -> int:
    """Read the partitions of a topic up to their ends; return how many committed records there are."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": f"readers-of-{topic}",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)])
    found = 0
    at_end: set[int] = set()
    while len(at_end) < partitions:
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None, f"{found}, {at_end}"
        if message.error() is None:
            found += 1
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            at_end.add(message.partition())
    consumer.close()
    return found


def test_the_first_producer_of_a_fresh_broker_makes_the_topic(broker: KcliBroker) -> None:
    producer_of(broker, "first").init_transactions(PATIENCE_SECONDS)
    topics = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=60).topics
    assert len(topics["__transaction_state"].partitions) == 50


def test_an_idle_transaction_is_aborted_and_its_producer_fenced(broker: KcliBroker) -> None:
    create_topic(broker.bootstrap, "idle", 1)
    producer = producer_of(broker, "idle-producer", **{"transaction.timeout.ms": 1000})
    producer.init_transactions(PATIENCE_SECONDS)
    producer.begin_transaction()
    producer.produce("idle", b"never committed")
    producer.flush(PATIENCE_SECONDS)
    with RawClient(broker.bootstrap) as client:
        aborted = RawTransactions(client, "idle-producer").settled("CompleteAbort")
    assert (aborted.producer_epoch, aborted.transaction_timeout_ms) == (1, 1000)
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction(PATIENCE_SECONDS)
    assert refused.value.args[0].name() in {"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"}
    assert committed(broker, "idle", 1) == 0


def load(broker: KcliBroker, directory: Path, topic: str, transactional_id: str) -> threading.Thread:
    """Let Kafka's own producer write in many transactions, in a JVM of its own; return who waits for it."""

    def run() -> None:
        tools = KafkaTools(directory)
        performed = tools(
            "kafka-producer-perf-test",
            *("--topic", topic, "--num-records", str(RECORDS), "--record-size", "10", "--throughput", "1000"),
            *("--bootstrap-server", broker.bootstrap, "--transactional-id", transactional_id),
            *("--transaction-duration-ms", "20"),
        )
        tools.close()
        assert performed.code == 0, performed.errors[-3000:]

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def change_level(kafka_tool: KafkaTools, broker: KcliBroker, direction: str, level: int) -> None:
    changed = kafka_tool(
        "kafka-features",
        *("--bootstrap-server", broker.bootstrap, direction, "--feature", f"transaction.version={level}"),
    )
    assert changed.code == 0, changed
    assert changed.output.strip() == f"transaction.version was {direction}d to {level}."


def records_of(kafka_tool: KafkaTools, broker: KcliBroker, transactional_id: str) -> list[dict[str, Any]]:
    """Return the records of an id as Apache Kafka's tool reads them: version and data."""
    index = partition_for(transactional_id, 50)
    dumped = kafka_tool(
        "kafka-dump-log",
        *("--files", broker.node_directory / f"__transaction_state-{index}" / f"{0:020}.log"),
        "--transaction-log-decoder",
    )
    assert dumped.code == 0, dumped.errors
    key = f'"transactionalId":"{transactional_id}"'
    return [json.loads(line.partition(" payload: ")[2]) for line in dumped.lines if key in line]


def test_levels_change_under_load_and_nothing_is_lost(
    broker: KcliBroker, kafka_tool: KafkaTools, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, "levels", 3)
    create_topic(broker.bootstrap, "old", 1)
    thread = load(broker, tmp_path, "levels", "under-load")
    old = producer_of(broker, "of-the-first-protocol")
    old.init_transactions(PATIENCE_SECONDS)
    with RawClient(broker.bootstrap) as client:
        RawTransactions(client, "under-load").settled("CompleteCommit")
    changes = (("downgrade", 0), ("upgrade", 1), ("upgrade", 2), ("downgrade", 1), ("upgrade", 2))
    for direction, level in changes:
        change_level(kafka_tool, broker, direction, level)
        old.begin_transaction()
        old.produce("old", b"%d" % level)
        old.commit_transaction(PATIENCE_SECONDS)
    thread.join()
    assert committed(broker, "levels", 3) == RECORDS
    assert committed(broker, "old", 1) == len(changes)

    # The client of the second protocol goes on with it, whatever the level: each transaction has an epoch.
    records = records_of(kafka_tool, broker, "under-load")
    first, *rest = [row for each in records if (row := each["data"])["transactionStatus"] != ONGOING]
    assert (first["transactionStatus"], first["producerEpoch"]) == (EMPTY, 0)
    assert [row["transactionStatus"] for row in rest] == [PREPARE_COMMIT, COMPLETE_COMMIT] * (len(rest) // 2)
    assert [row["producerEpoch"] for row in rest[::2]] == list(range(1, len(rest) // 2 + 1))
    assert {row["clientTransactionVersion"] for row in rest} == {2}
    assert {record["version"] for record in records} == {"1"}
    # At level 0 records have version 0, without the tagged fields.
    records = records_of(kafka_tool, broker, "of-the-first-protocol")
    assert [record["version"] for record in records] == ["1", *["0"] * 3, *["1"] * 12]
    assert {record["data"]["producerEpoch"] for record in records} == {0}
