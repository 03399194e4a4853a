"""Clusters of three nodes as benchmarks see them: `KcliCluster` in one process, Apache Kafka's in three.

Both lose nodes as by `kill -9` and get them back; what their partitions are like is asked of every node.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.benchmarks.wire import BenchmarkFailed
from tests.support.apache_cluster import ApacheCluster
from tests.support.apache_kafka import KafkaTools
from tests.support.kcli_cluster import NODES, KcliCluster
from tests.support.raw_client import RawClient

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import ExitStack
    from pathlib import Path

    from kcli.protocol.messages.metadata import MetadataResponsePartition

TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 0.01
CREATE_TOPICS_VERSION = 4
METADATA_VERSION = 7


class Cluster(Protocol):
    """Some nodes, by id."""

    @property
    def bootstraps(self) -> Mapping[int, str]:
        """The address of each node that is there."""
        ...

    def kill_node(self, node_id: int) -> None:
        """End a node without a goodbye."""
        ...

    def start_node(self, node_id: int) -> None:
        """Start a node that was killed."""
        ...


class ApacheNodes:
    """The nodes of an Apache Kafka cluster, each in a JVM of its own."""

    def __init__(self, cluster: ApacheCluster) -> None:
        self._cluster = cluster
        self._dead: set[int] = set()

    @property
    def bootstraps(self) -> dict[int, str]:
        """The address of each node that is there."""
        nodes = self._cluster.nodes
        return {node_id: node.bootstrap for node_id, node in nodes.items() if node_id not in self._dead}

    def kill_node(self, node_id: int) -> None:
        """SIGKILL."""
        self._dead.add(node_id)
        self._cluster.nodes[node_id].kill()

    def start_node(self, node_id: int) -> None:
        """Start the JVM again."""
        self._cluster.nodes[node_id].start()
        self._dead.discard(node_id)


def start_kcli(directory: Path, stack: ExitStack, settings: Mapping[str, str]) -> Cluster:
    """Start kcli's nodes; `stack` ends them."""
    directory.mkdir()
    cluster = KcliCluster(directory, settings=settings)
    stack.callback(cluster.broker.close)
    cluster.broker.start()
    return cluster


def start_apache(directory: Path, stack: ExitStack, settings: Mapping[str, str]) -> Cluster:
    """Start Apache Kafka's nodes; `stack` ends them."""
    directory.mkdir()
    tools = KafkaTools(directory)
    try:
        cluster = ApacheCluster(directory, tools, nodes=NODES, settings=settings)
    finally:
        tools.close()
    stack.callback(cluster.kill)
    cluster.start()
    return ApacheNodes(cluster)


def create_topic(
    cluster: Cluster, topic: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> None:
    """Create a topic with a replica on every node."""
    created = CreatableTopic(
        name=topic,
        num_partitions=partitions,
        replication_factor=NODES,
        assignments=[],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in (configs or {}).items()],
    )
    request = CreateTopicsRequest(topics=[created], timeout_ms=int(TIMEOUT_SECONDS * 1000))
    with RawClient(cluster.bootstraps[1], timeout=TIMEOUT_SECONDS) as client:
        result = client.ask(request, CREATE_TOPICS_VERSION).topics[0]
    if result.error_code != ErrorCode.NONE:
        raise BenchmarkFailed(f"{topic} cannot be created: {result.error_message}")


def wait_until_led(cluster: Cluster, topic: str, *, partitions: int = 1, in_sync: int = 1) -> None:
    """Return once every node says that all partitions have a leader, and so many replicas in sync."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    for bootstrap in cluster.bootstraps.values():
        with RawClient(bootstrap, timeout=TIMEOUT_SECONDS) as client:
            while not _is_led(client, topic, partitions=partitions, in_sync=in_sync):
                if time.monotonic() > deadline:
                    raise BenchmarkFailed(f"{topic} has not {in_sync} replicas in sync on {bootstrap}")
                time.sleep(POLL_SECONDS)


def _is_led(client: RawClient, topic: str, *, partitions: int, in_sync: int) -> bool:
    found = _partitions(client, topic)
    return len(found) == partitions and all(
        each.error_code == ErrorCode.NONE and each.leader_id > 0 and len(each.isr_nodes) >= in_sync
        for each in found
    )


def leader_of(cluster: Cluster, topic: str) -> int:
    """Return the node that leads partition 0."""
    bootstrap = next(iter(cluster.bootstraps.values()))
    with RawClient(bootstrap, timeout=TIMEOUT_SECONDS) as client:
        (partition,) = _partitions(client, topic)
    return partition.leader_id


def _partitions(client: RawClient, topic: str) -> list[MetadataResponsePartition]:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    partitions: list[MetadataResponsePartition] = client.ask(request, METADATA_VERSION).topics[0].partitions
    return partitions
