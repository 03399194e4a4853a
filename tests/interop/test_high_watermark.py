"""What kafka-python's consumer gets to see of records that not every in-sync replica has: nothing."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.kcli_cluster import NODES, KcliCluster
from tests.support.waiting import eventually, first

if TYPE_CHECKING:
    from collections.abc import Iterator

# kafka-python reads its schemas in a way that newer Pythons warn of, and not before it is imported.
pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated")]

LEADER, *FOLLOWERS = range(1, NODES + 1)
COUNT = 5
ACKNOWLEDGE_SECONDS = 30
LOOK_MS = 300
"""How long a consumer waits for what it must not see: three fetches."""
SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "replica.fetch.wait.max.ms": "200",
    # Who copies nothing is out of sync when a test says so.
    "replica.lag.time.max.ms": "600000",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KcliCluster]:
    """Three nodes that all topics are on; the first leads."""
    running = KcliCluster(tmp_path_factory.mktemp("high-watermark"), settings=SETTINGS)
    running.broker.start()
    yield running
    assert running.broker.stop() == 0


def create(cluster: KcliCluster, topic: str, *, min_in_sync: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    wanted = NewTopic(
        topic,
        num_partitions=1,
        replica_assignment=[[LEADER, *FOLLOWERS]],
        config={"min.insync.replicas": str(min_in_sync)},
    )
    admin.create_topics([wanted])[topic].result(ACKNOWLEDGE_SECONDS)


def in_sync(cluster: KcliCluster, topic: str) -> list[int]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstraps[LEADER]})
    return sorted(admin.list_topics(topic, ACKNOWLEDGE_SECONDS).topics[topic].partitions[0].isrs)


def produce(cluster: KcliCluster, topic: str, start: int, *, acks: int | str) -> None:
    """Produce records by number; each is acknowledged with the number as its offset."""
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstraps[LEADER], acks=acks, enable_idempotence=False
    )
    sent = [producer.send(topic, b"%d" % number, partition=0) for number in range(start, start + COUNT)]
    assert [each.get(ACKNOWLEDGE_SECONDS).offset for each in sent] == list(range(start, start + COUNT))
    producer.close()


class Reader:
    """A consumer of partition 0 from its beginning."""

    def __init__(self, consumer: Any, topic: str) -> None:
        from kafka import TopicPartition

        self._consumer = consumer
        self._partition = TopicPartition(topic, 0)
        self._values: list[int] = []
        consumer.assign([self._partition])
        consumer.seek(self._partition, 0)

    def has_read(self, count: int) -> bool:
        """Whether so many records are read, and the high watermark and the end are there, too."""
        return self.look() == (list(range(count)), count, count)

    def look(self) -> tuple[list[int], int | None, int]:
        """Wait for records: everything read so far, the high watermark and the end as they were told."""
        for messages in self._consumer.poll(timeout_ms=LOOK_MS).values():
            self._values += [int(message.value) for message in messages]
        end = self._consumer.end_offsets([self._partition])[self._partition]
        return self._values, self._consumer.highwater(self._partition), end


@contextmanager
def reading(cluster: KcliCluster, topic: str) -> Iterator[Reader]:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstraps[LEADER],
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
        fetch_max_wait_ms=LOOK_MS // 3,
    )
    try:
        yield Reader(consumer, topic)
    finally:
        consumer.close()


def sees(reader: Reader, count: int) -> None:
    """Wait until the consumer sees so many records."""
    eventually(lambda: reader.has_read(count), f"{count} records", seen=reader.look)


def log_size(cluster: KcliCluster, node: int, topic: str) -> int:
    return (cluster.broker.data / f"node-{node}" / f"{topic}-0" / f"{0:020}.log").stat().st_size


def test_what_the_followers_have_not_copied_is_not_seen(cluster: KcliCluster) -> None:
    create(cluster, "copied", min_in_sync=1)
    produce(cluster, "copied", 0, acks="all")
    with reading(cluster, "copied") as reader:
        sees(reader, COUNT)
        one, other = [cluster.freeze(node) for node in FOLLOWERS]
        produce(cluster, "copied", COUNT, acks=1)
        assert reader.has_read(COUNT)
        cluster.clear(one)
        whole = log_size(cluster, LEADER, "copied")
        eventually(lambda: log_size(cluster, FOLLOWERS[0], "copied") == whole, "the first has everything")
        # The other is in sync as well: `replica.lag.time.max.ms` is far away.
        assert reader.has_read(COUNT)
        assert in_sync(cluster, "copied") == [LEADER, *FOLLOWERS]
        cluster.clear(other)
        sees(reader, 2 * COUNT)


def test_what_too_few_are_in_sync_for_is_not_seen(cluster: KcliCluster) -> None:
    topics = {"one-enough": 1, "two-needed": 2}
    for topic, needed in topics.items():
        create(cluster, topic, min_in_sync=needed)
        produce(cluster, topic, 0, acks="all")
    with reading(cluster, "one-enough") as one, reading(cluster, "two-needed") as two:
        for reader in (one, two):
            sees(reader, COUNT)
        faults = [cluster.freeze(node) for node in FOLLOWERS]
        for topic in topics:
            produce(cluster, topic, COUNT, acks=1)
        assert one.has_read(COUNT)
        assert two.has_read(COUNT)
        for node in FOLLOWERS:
            cluster.stop_node(node)
        sees(one, 2 * COUNT)
        first(lambda: in_sync(cluster, "two-needed"), lambda nodes: nodes == [LEADER], "the leader is alone")
        assert two.has_read(COUNT)
        cluster.clear(*faults)
        cluster.start_node(FOLLOWERS[0])
        sees(two, 2 * COUNT)
        cluster.start_node(FOLLOWERS[1])
