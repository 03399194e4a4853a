"""Clients that send requests without waiting for answers: nodes go on copying from one another meanwhile."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.hostile_records import large_batch, produce_request
from tests.support.kcli_cluster import NODES, KcliCluster
from tests.support.producing import end_offsets
from tests.support.raw_client import RawClient, request_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.apache_kafka import KafkaTools

pytestmark = pytest.mark.interop

LEADER, *FOLLOWERS = range(1, NODES + 1)
LAG_LIMIT_MS = 30_000
MIN_COPIED = 8
"""How many records, one after another, reach all in-sync replicas during the flood. Measured: 38."""
BATCHES, BATCH_BYTES = 100, 900_000
QUESTIONS, NAMES = 100, 1000
SETTINGS = {
    "replica.lag.time.max.ms": str(LAG_LIMIT_MS),
    "auto.leader.rebalance.enable": "false",
    "auto.create.topics.enable": "false",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KcliCluster]:
    """Three nodes: `copied` is on all of them, `flood` on the one that leads both."""
    running = KcliCluster(tmp_path, settings=SETTINGS)
    running.broker.start()
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    for topic, replicas in {"copied": [LEADER, *FOLLOWERS], "flood": [LEADER]}.items():
        wanted = NewTopic(topic, num_partitions=1, replica_assignment=[replicas])
        admin.create_topics([wanted])[topic].result(60)
    yield running
    assert running.broker.stop() == 0


class Flood:
    """The same request again and again on one connection, none of which waits for an answer."""

    def __init__(self, bootstrap: str, frame: bytes, count: int) -> None:
        self.answers = 0
        self._client = RawClient(bootstrap, timeout=60)
        self._frame, self._count = frame, count
        self._threads = [threading.Thread(target=each) for each in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        for _ in range(self._count):
            self._client.send(self._frame)

    def _receive(self) -> None:
        while self.answers < self._count and self._client.receive_frame() is not None:
            self.answers += 1

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes."""
        return not any(thread.is_alive() for thread in self._threads)

    def close(self) -> None:
        """Close the connection, when everything is answered."""
        for thread in self._threads:
            thread.join()
        self._client.close()


class CopiedRecords:
    """Records that are acknowledged once every in-sync replica has them, one after another."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.taken_ms: list[float] = []
        self._topic = topic
        self._failures: list[KafkaError] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})

    def produce(self) -> None:
        """Produce one and wait for its acknowledgement."""
        started = time.perf_counter()
        self._producer.produce(self._topic, b"value", partition=0, on_delivery=self._delivered)
        assert self._producer.flush(60) == 0
        assert self._failures == []
        self.taken_ms.append((time.perf_counter() - started) * 1000)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failures.append(error)


def in_sync_changes(tools: KafkaTools, cluster: KcliCluster) -> list[str]:
    """The records in the metadata log by which partitions changed, as Apache Kafka's tool prints them."""
    (log,) = (cluster.broker.data / f"node-{LEADER}" / "__cluster_metadata-0").glob("*.log")
    printed = tools("kafka-dump-log", "--cluster-metadata-decoder", "--files", log)
    assert "TOPIC_RECORD" in printed.output
    return [line for line in printed.lines if "PARTITION_CHANGE_RECORD" in line]


def test_replication_goes_on_while_clients_flood_every_port(
    cluster: KcliCluster, kafka_tool: KafkaTools, show: Callable[[str], None]
) -> None:
    stored = request_frame(produce_request("flood", large_batch(BATCH_BYTES)), 9)
    names = [MetadataRequestTopic(name=f"{number}{'x' * 200}") for number in range(NAMES)]
    asked = request_frame(MetadataRequest(topics=names), 9)
    copied = CopiedRecords(cluster.bootstraps[LEADER], "copied")
    copied.produce()
    alone_ms = copied.taken_ms.pop()
    started = time.perf_counter()
    with ExitStack() as stack:
        floods = [Flood(cluster.bootstraps[LEADER], stored, BATCHES)]
        floods += [Flood(bootstrap, asked, QUESTIONS) for bootstrap in cluster.bootstraps.values()]
        for flood in floods:
            stack.callback(flood.close)
        while not all(flood.is_over for flood in floods):
            copied.produce()
    taken_ms = (time.perf_counter() - started) * 1000
    longest_ms = max(copied.taken_ms)
    show(
        f"a flood of {taken_ms:.0f} ms: each of {len(copied.taken_ms)} records was copied in "
        f"{longest_ms:.0f} ms at most, one before it in {alone_ms:.0f} ms"
    )
    assert [flood.answers for flood in floods] == [BATCHES] + [QUESTIONS] * NODES
    assert end_offsets(cluster.bootstrap, "flood")[0] == (0, BATCHES)
    assert len(copied.taken_ms) >= MIN_COPIED
    assert in_sync_changes(kafka_tool, cluster) == []
