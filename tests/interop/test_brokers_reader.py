"""Splits read from Apache Kafka: transactions of several producers, and records deleted meanwhile."""

from __future__ import annotations

import random

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient

from kcli.spark.source.brokers.brokers_source import BrokersSource
from kcli.spark.source.data_loss import DataLoss
from kcli.spark.source.ranges.offset_specs import RangeRules
from kcli.spark.source.ranges.resolve import resolve
from kcli.spark.source.ranges.selection import Subscribe
from kcli.spark.source.source import SplitLimits
from kcli.spark.split import OffsetInterval, ReadCounters, Reading
from tests.support.apache_kafka import ApacheKafka
from tests.support.producing import create_topic
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop

SECONDS = 60.0
TRANSACTIONS = 60


def rows_of(
    bootstrap: str,
    topic: str,
    rules: RangeRules,
    limits: SplitLimits,
    properties: dict[str, str] | None = None,
) -> list[tuple[int, bytes]]:
    """Read a topic of one partition as a plan of ours does."""
    source = BrokersSource(bootstrap, properties, fail_on_data_loss=rules.fail_on_data_loss)
    resolved = resolve(source, Subscribe((topic,)), rules)
    splits = source.splits(resolved.ranges, limits, read_committed=rules.read_committed)
    reading = Reading(columns=("offset", "value"), read_committed=rules.read_committed)
    return [
        (row["offset"], row["value"])
        for split in sorted(splits, key=lambda split: split.start)
        for batch in source.reader().read(split, reading, ReadCounters())
        for row in batch.to_pylist()
    ]


def consumed(bootstrap: str, topic: str, isolation: str) -> list[tuple[int, bytes]]:
    """Read it as librdkafka does, up to the end that this isolation level has."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": isolation,
         "enable.partition.eof": True, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )  # fmt: skip
    found: list[tuple[int, bytes]] = []
    try:
        consumer.assign([Position(topic, 0, 0)])
        while True:
            message = consumer.poll(SECONDS)
            assert message is not None, "no end of the partition"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            found.append((message.offset() or 0, message.value() or b""))
    finally:
        consumer.close()


@pytest.fixture(scope="module")
def transactions(apache_kafka: ApacheKafka) -> str:
    """A topic that three transactional producers and a plain one took turns to write; one is still open."""
    topic = "brokers-reader-transactions"
    create_topic(apache_kafka.bootstrap, topic)
    chance = random.Random(11)
    settings = {"bootstrap.servers": apache_kafka.bootstrap}
    plain = Producer({**settings, "linger.ms": 0})
    # Longer than any test here takes: the one that is left open stays so.
    lasting = {**settings, "linger.ms": 0, "transaction.timeout.ms": 900_000}
    writers = [Producer({**lasting, "transactional.id": f"brokers-reader-{index}"}) for index in range(3)]
    for writer in writers:
        writer.init_transactions(SECONDS)
    busy: set[int] = set()
    end = 0

    def write(producer: Producer) -> None:
        nonlocal end
        count = chance.randrange(1, 20)
        for _ in range(count):
            producer.produce(topic, b"%030d" % chance.getrandbits(64), partition=0)
        assert producer.flush(SECONDS) == 0
        end += count

    def finish(index: int, how: str) -> None:
        nonlocal end
        getattr(writers[index], f"{how}_transaction")(SECONDS)
        end += 1

    for _ in range(TRANSACTIONS):
        index = chance.randrange(4)
        if index == 3:
            write(plain)
        elif index not in busy:
            writers[index].begin_transaction()
            write(writers[index])
            busy.add(index)
        else:
            busy.remove(index)
            finish(index, chance.choice(("commit", "abort")))
    for index in sorted(busy)[1:]:
        finish(index, "abort")
    if not busy:
        writers[0].begin_transaction()
        write(writers[0])
    write(plain)
    # The coordinator answers first, and marks the end of the transaction in the partition afterwards.
    consumer = Consumer({**settings, "group.id": "unused", "isolation.level": "read_uncommitted"})
    eventually(
        lambda: consumer.get_watermark_offsets(Position(topic, 0), SECONDS) == (0, end),
        "every transaction has its marker",
    )
    consumer.close()
    return topic


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("fetch_bytes", ["300", "8388608"])
@pytest.mark.parametrize("limits", [SplitLimits(), SplitLimits(max_records=37)], ids=["one split", "many"])
def test_transactions_are_read_as_librdkafka_reads_them(
    apache_kafka: ApacheKafka, transactions: str, isolation: str, fetch_bytes: str, limits: SplitLimits
) -> None:
    rules = RangeRules(read_committed=isolation == "read_committed")
    properties = {"max.partition.fetch.bytes": fetch_bytes}
    rows = rows_of(apache_kafka.bootstrap, transactions, rules, limits, properties)
    assert rows == consumed(apache_kafka.bootstrap, transactions, isolation)
    assert rows


def test_records_deleted_after_the_plan_are_data_loss(apache_kafka: ApacheKafka) -> None:
    topic = "brokers-reader-deleted"
    create_topic(apache_kafka.bootstrap, topic)
    producer = Producer({"bootstrap.servers": apache_kafka.bootstrap, "linger.ms": 100})
    for number in range(100):
        producer.produce(topic, b"%d" % number, partition=0)
    producer.flush(SECONDS)
    strict = BrokersSource(apache_kafka.bootstrap)
    tolerant = BrokersSource(apache_kafka.bootstrap, fail_on_data_loss=False)
    resolved = resolve(strict, Subscribe((topic,)), RangeRules())
    (split,) = strict.splits(resolved.ranges, SplitLimits(), read_committed=False)
    admin = AdminClient({"bootstrap.servers": apache_kafka.bootstrap})
    deleted = admin.delete_records([Position(topic, 0, 30)])
    assert [future.result(SECONDS).low_watermark for future in deleted.values()] == [30]

    reading = Reading(columns=("value",))
    with pytest.raises(DataLoss, match="offsets 0 to 29 are gone, there are 30 to 99"):
        list(strict.reader().read(split, reading, ReadCounters()))
    counters = ReadCounters()
    rows = [row for rows in tolerant.reader().read(split, reading, counters) for row in rows.to_pylist()]
    assert [int(row["value"]) for row in rows] == list(range(30, 100))
    assert counters.missing == [OffsetInterval(0, 30)]
