"""What clients write for the forensic corpus: topics, transactions and groups with every kind of record.

Timestamps, keys and values never change. Segments roll by timestamp (`segment.ms`), so that a partition has
several of them in a few kilobytes, and `index.interval.bytes` gives each of them several index entries. The
timestamps are of the year 2096: the markers of transactions, which bear the time of day, start no segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.producing import DEADLINE_SECONDS, create_topic
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterable

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_TIMESTAMP = 4_000_000_000_000
HOUR_MS = 3_600_000
SEGMENTED = {
    "segment.ms": str(HOUR_MS),
    "index.interval.bytes": "256",
    "message.timestamp.after.max.ms": str(2**63 - 1),
    "retention.ms": "-1",
}

Row = tuple[bytes | None, bytes | None, list[tuple[str, str | bytes | None]]]

ODD_ROWS: tuple[Row, ...] = (
    (None, b"no key", []),
    (b"no value", None, []),
    (None, None, []),
    (b"", b"", []),
    (b"binary", bytes(range(256)), []),
    ("grüße".encode(), "日本 \U0001f600".encode(), [("größe", b"1"), ("empty", b""), ("null", None)]),
    (b"\xed\xa0\x80\xff\xc3", b"\xf0\x9f\x98 cut\xe2\x82", [("same", b"1"), ("same", b"2")]),
    (b"lines", b"one\ntwo\r\nthree\ttab \x1b[31m", []),
    (b"json", b'{"a": [1, 2, {"b": null}], "c": "\\u00e9"}', [("content-type", b"application/json")]),
    (b"\x00\x00\x00\x2a", b"\x00\x00\x00\x00\x00\x00\x00\x2a", []),
)
"""Keys and values that text cannot show, or only just."""


def rows(first: int, count: int) -> list[Row]:
    """Plain rows that depend on their numbers alone."""
    return [
        (b"key-%d" % (number % 13), b"value %d " % number * (number % 9 + 1), [])
        for number in range(first, first + count)
    ]


class Writer:
    """A producer that makes one batch of every call of `batch`, its records a millisecond apart."""

    def __init__(self, bootstrap: str, topic: str, **config: object) -> None:
        names = {name.replace("_", "."): value for name, value in config.items()}
        self.topic = topic
        self.timestamp = FIRST_TIMESTAMP
        self.producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 10_000, "message.timeout.ms": 60_000, **names}
        )

    def batch(self, content: Iterable[Row], partition: int = 0) -> None:
        """Produce one batch and wait for the answer."""
        failures: list[object] = []
        for key, value, headers in content:
            self.timestamp += 1
            self.producer.produce(
                self.topic,
                value,
                key,
                partition,
                timestamp=self.timestamp,
                headers=headers,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        assert self.producer.flush(DEADLINE_SECONDS) == 0
        assert not failures, failures

    def next_segment(self) -> None:
        """Let the next batch begin a segment of its own."""
        self.timestamp += 2 * HOUR_MS


def write_codecs(bootstrap: str, topic: str, **config: object) -> None:
    """Batches of every codec in two segments, with and without a producer id, odd records among them."""
    create_topic(
        bootstrap, topic, 1, {**SEGMENTED, **{k.replace("_", "."): str(v) for k, v in config.items()}}
    )
    for number, codec in enumerate(CODECS):
        writer = Writer(bootstrap, topic, compression_type=codec, enable_idempotence=number % 2 == 0)
        writer.timestamp += number * 1000
        writer.batch(ODD_ROWS)
        for first in range(0, 60, 20):
            writer.batch(rows(first, 20))
    writer.next_segment()
    for first in range(0, 100, 25):
        writer.batch(rows(first, 25))
    # An older timestamp than the one before it.
    writer.timestamp -= 1000
    writer.batch(rows(100, 3))


def write_more(bootstrap: str, topic: str) -> None:
    """One more batch, in a later leader epoch."""
    writer = Writer(bootstrap, topic, enable_idempotence=True)
    writer.timestamp += 3 * HOUR_MS
    writer.batch(rows(0, 5))


def write_transactions(bootstrap: str, topic: str) -> Writer:
    """Committed, aborted and interleaved transactions in three segments; the last stays open.

    Whoever keeps the writer that is returned keeps it open.
    """
    create_topic(bootstrap, topic, 1, SEGMENTED)
    plain = Writer(bootstrap, topic)
    one, two = (
        Writer(bootstrap, topic, transactional_id=f"{topic}-{name}", compression_type=codec)
        for name, codec in (("one", "lz4"), ("two", "none"))
    )
    for writer in (one, two):
        writer.producer.init_transactions(DEADLINE_SECONDS)
    for number in range(3):
        for writer in (one, two):
            writer.producer.begin_transaction()
            writer.batch(rows(number * 10, 4))
        plain.batch(rows(number, 2))
        two.batch(rows(number * 10 + 4, 3))
        one.producer.abort_transaction(DEADLINE_SECONDS)
        if number == 1:
            two.producer.abort_transaction(DEADLINE_SECONDS)
        else:
            two.producer.commit_transaction(DEADLINE_SECONDS)
        for writer in (plain, one, two):
            writer.next_segment()
    two.producer.begin_transaction()
    two.batch(rows(90, 2))
    plain.batch(rows(92, 1))
    return two


COMPACTION = {
    **SEGMENTED,
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": str(100 * 365 * 24 * HOUR_MS),
}


def write_compacted(bootstrap: str, topic: str) -> None:
    """Keys that are written over, tombstones, and transactions, for the cleaner to thin out."""
    create_topic(bootstrap, topic, 1, COMPACTION)
    plain = Writer(bootstrap, topic, compression_type="zstd")
    two = Writer(bootstrap, topic, transactional_id=f"{topic}-transactions")
    two.producer.init_transactions(DEADLINE_SECONDS)
    for number in range(4):
        plain.batch(rows(number * 7, 20))
        plain.batch(
            [(b"gone-%d" % number, None, []), (b"only-%d" % number, b"", [("round", b"%d" % number)])]
        )
        two.producer.begin_transaction()
        two.batch([(b"in-transaction", b"%d" % number, []), (b"key-%d" % number, b"transactional", [])])
        if number % 2:
            two.producer.commit_transaction(DEADLINE_SECONDS)
        else:
            two.producer.abort_transaction(DEADLINE_SECONDS)
        plain.next_segment()
        two.next_segment()
    plain.batch(rows(0, 3))


def consume_as_group(bootstrap: str, topic: str, group: str, **config: object) -> None:
    """Join, read something, commit with metadata, and leave."""
    names = {name.replace("_", "."): value for name, value in config.items()}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "client.id": f"client of {group}",
            **names,
        }
    )
    try:
        consumer.subscribe([topic])
        eventually(lambda: _receives(consumer), f"{group} receives a record")
        position = TopicPartition(topic, 0, 2, metadata=f"größe of {group}")
        committed = consumer.commit(offsets=[position], asynchronous=False)
        assert committed is not None
        assert committed[0].error is None
    finally:
        consumer.close()


def _receives(consumer: Consumer) -> bool:
    message = consumer.poll(0.2)
    return message is not None and message.error() is None


def write_groups(bootstrap: str, topic: str, *, modern: bool = True) -> None:
    """Groups of both protocols, a static member, and a group that is deleted again."""
    consume_as_group(bootstrap, topic, "classic")
    consume_as_group(bootstrap, topic, "static", group_instance_id="instance-1")
    consume_as_group(
        bootstrap,
        topic,
        "cooperative",
        partition_assignment_strategy="cooperative-sticky",
        client_rack="rack-a",
    )
    if modern:
        consume_as_group(bootstrap, topic, "modern", group_protocol="consumer")
    consume_as_group(bootstrap, topic, "deleted")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_consumer_groups(["deleted"])["deleted"].result(DEADLINE_SECONDS)


def write_transactional_offsets(bootstrap: str, topic: str, group: str) -> None:
    """Offsets that a transaction commits, and some that it takes back."""
    writer = Writer(bootstrap, topic, transactional_id=f"{group}-offsets")
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    writer.producer.init_transactions(DEADLINE_SECONDS)
    try:
        for offset in (3, 4):
            writer.producer.begin_transaction()
            writer.producer.send_offsets_to_transaction(
                [TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), DEADLINE_SECONDS
            )
            if offset == 3:
                writer.producer.commit_transaction(DEADLINE_SECONDS)
            else:
                writer.producer.abort_transaction(DEADLINE_SECONDS)
    finally:
        consumer.close()


def delete_records(bootstrap: str, topic: str, before: int) -> None:
    """Let the log start at an offset inside a segment."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    position = TopicPartition(topic, 0, before)
    admin.delete_records([position])[position].result(DEADLINE_SECONDS)
