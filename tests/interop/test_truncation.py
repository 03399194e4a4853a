"""An unclean election: it costs what the new leader lacks, and consumers that had read it are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.apache_kafka import java_command
from tests.support.kcli_cluster import KcliCluster
from tests.support.processes import ChildProcess
from tests.support.producing import read_partition
from tests.support.toolchain import java_classes
from tests.support.waiting import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from confluent_kafka import Consumer

pytestmark = pytest.mark.interop

TOPIC = "revived"
SETTINGS = {
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
    "auto.leader.rebalance.enable": "false",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KcliCluster]:
    running = KcliCluster(tmp_path, settings=SETTINGS)
    running.broker.start()
    yield running
    assert running.broker.stop() == 0


def produce(cluster: KcliCluster, *values: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for value in values:
        producer.produce(TOPIC, value, partition=0)
    assert producer.flush(PATIENCE_SECONDS) == 0


def in_sync(cluster: KcliCluster) -> tuple[int, list[int]]:
    """The leader of partition 0 and who is in sync."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    partition = admin.list_topics(TOPIC, timeout=PATIENCE_SECONDS).topics[TOPIC].partitions[0]
    return partition.leader, sorted(partition.isrs)


def create(cluster: KcliCluster) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, num_partitions=1, replica_assignment=[[2, 3]])])[TOPIC].result(
        PATIENCE_SECONDS
    )


def elect_unclean(cluster: KcliCluster) -> None:
    from confluent_kafka import ElectionType, TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    outcome = admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition(TOPIC, 0)]).result(PATIENCE_SECONDS)
    assert list(outcome.values()) == [None]


@pytest.fixture
def librdkafka(cluster: KcliCluster) -> Iterator[Consumer]:
    """A consumer that may not begin anywhere else by itself."""
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "topic.metadata.refresh.interval.ms": 200,
        }
    )
    yield consumer
    consumer.close()


def lose_what_node_2_has_alone(cluster: KcliCluster) -> None:
    cluster.kill_node(2)
    cluster.start_node(3)
    eventually(lambda: in_sync(cluster)[0] == -1, "nobody leads")
    elect_unclean(cluster)
    produce(cluster, "new")
    eventually(lambda: in_sync(cluster) == (3, [3]), "every node knows that 3 leads alone")


def test_consumers_are_told_from_where_on_the_log_is_another_one(
    cluster: KcliCluster, librdkafka: Consumer, tmp_path: Path
) -> None:
    from confluent_kafka import KafkaError, TopicPartition

    create(cluster)
    produce(cluster, "kept")
    cluster.kill_node(3)
    eventually(lambda: in_sync(cluster) == (2, [2]), "2 is alone")
    produce(cluster, "lost", "lost", "lost")

    module = "clients-4.3"
    command = java_command(
        module, "TruncatedConsumer", "-Xmx128m", classes=java_classes(module, "TruncatedConsumer")
    )
    java = ChildProcess([*command, cluster.bootstrap, TOPIC], stderr=tmp_path / "java")
    librdkafka.assign([TopicPartition(TOPIC, 0, 0)])
    assert [each.value() for each in librdkafka.consume(4, timeout=PATIENCE_SECONDS)] == [
        b"kept",
        *[b"lost"] * 3,
    ]
    java.wait_for_line(lambda line: line == "read 3 lost", timeout=PATIENCE_SECONDS, what="last record")

    lose_what_node_2_has_alone(cluster)

    message = librdkafka.poll(PATIENCE_SECONDS)
    assert message is not None
    assert message.error().code() == KafkaError._AUTO_OFFSET_RESET
    assert "truncation" in message.error().str()
    told = java.wait_for_line(lambda line: not line.startswith("read"), timeout=PATIENCE_SECONDS, what="end")
    assert told == "truncated 1"
    java.process.wait(timeout=PATIENCE_SECONDS)
    java.kill()
    assert [each.value for each in read_partition(cluster.bootstrap, TOPIC, 0)] == [b"kept", b"new"]
