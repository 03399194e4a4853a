"""Admin calls about brokers: the cluster, API versions, log directories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.client.admin.driver import ask_nodes, check, error_of, retry
from kcli.client.admin.types import (
    ApiVersionRange,
    ClusterDescription,
    ClusterNode,
    FeatureRange,
    LogDirDescription,
    NodeApiVersions,
    ReplicaLog,
)
from kcli.client.network.metadata import ANY, CONTROLLER
from kcli.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kcli.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from kcli.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from kcli.protocol.topics import by_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.client.client import Client
    from kcli.errors import KcliError
    from kcli.protocol.error_codes import KafkaError
    from kcli.protocol.topics import TopicPartition


async def describe_cluster(
    client: Client, *, include_fenced: bool = False, timeout_ms: int | None = None
) -> ClusterDescription:
    """Return the cluster's id, controller and brokers; brokers before 2.8 are asked by Metadata.

    `include_fenced` also lists registered but fenced brokers (KIP-1073); older brokers do not list them.
    """
    if not await client.supports(DescribeClusterRequest):
        return await _cluster_by_metadata(client, timeout_ms)
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False, include_fenced_brokers=include_fenced
    )
    response: DescribeClusterResponse = await client.request(
        ANY, request, timeout_ms=timeout_ms, min_version=2 if include_fenced else 0
    )
    check(response.error_code, response.error_message)
    nodes = [
        ClusterNode(broker.broker_id, broker.host, broker.port, broker.rack, broker.is_fenced)
        for broker in response.brokers
    ]
    return _description(response.cluster_id, response.controller_id, nodes)


async def api_versions(
    client: Client, node_ids: Iterable[int] | None = None, *, timeout_ms: int | None = None
) -> dict[int, NodeApiVersions | KcliError]:
    """Return what each broker advertises, of all brokers or of some."""

    async def ask(node_id: int) -> NodeApiVersions:
        node, negotiated = await client.node_versions(node_id, timeout_ms=timeout_ms)
        return NodeApiVersions(
            node,
            tuple(_version_range(key, low, high) for key, (low, high) in sorted(negotiated.ranges.items())),
            tuple(FeatureRange(*feature) for feature in negotiated.supported_features),
            tuple(FeatureRange(*feature) for feature in negotiated.finalized_features),
            negotiated.finalized_features_epoch,
        )

    return await ask_nodes(client, node_ids, ask)


async def describe_log_dirs(
    client: Client,
    node_ids: Iterable[int] | None = None,
    *,
    partitions: Iterable[TopicPartition] | None = None,
    timeout_ms: int | None = None,
) -> dict[int, tuple[LogDirDescription, ...] | KcliError]:
    """Return the log directories of each broker with their replicas, of all partitions or of some."""
    topics = None
    if partitions is not None:
        topics = [
            DescribableLogDirTopic(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]

    async def ask(node_id: int) -> tuple[LogDirDescription, ...]:
        request = DescribeLogDirsRequest(topics=topics)
        response: DescribeLogDirsResponse = await client.request(node_id, request, timeout_ms=timeout_ms)
        check(response.error_code)
        return tuple(map(_log_dir, response.results))

    return await ask_nodes(client, node_ids, ask)


async def unregister_broker(client: Client, broker_id: int, *, timeout_ms: int | None = None) -> None:
    """Unregister a broker at the controller (KIP-500); a running broker registers again."""

    async def attempt(left_ms: int) -> KafkaError | None:
        request = UnregisterBrokerRequest(broker_id=broker_id)
        response: UnregisterBrokerResponse = await client.request(CONTROLLER, request, timeout_ms=left_ms)
        return error_of(response.error_code, response.error_message)

    await retry(client, attempt, timeout_ms=timeout_ms)


def _version_range(key: int, low: int, high: int) -> ApiVersionRange:
    from kcli.protocol.apis import APIS

    api = APIS.get(key)
    if api is None:
        return ApiVersionRange(key, None, low, high, None)
    return ApiVersionRange(key, api.name, low, high, api.usable(low, high))


async def _cluster_by_metadata(client: Client, timeout_ms: int | None) -> ClusterDescription:
    cluster = await client.metadata((), timeout_ms=timeout_ms)
    nodes = [ClusterNode(node.node_id, node.host, node.port, node.rack) for node in cluster.nodes.values()]
    return _description(cluster.cluster_id, cluster.controller_id, nodes)


def _description(cluster_id: str | None, controller_id: int, nodes: list[ClusterNode]) -> ClusterDescription:
    nodes.sort(key=lambda node: node.node_id)
    return ClusterDescription(cluster_id, controller_id if controller_id >= 0 else None, tuple(nodes))


def _log_dir(result: DescribeLogDirsResult) -> LogDirDescription:
    return LogDirDescription(
        path=result.log_dir,
        replicas=tuple(
            ReplicaLog(
                topic.name, entry.partition_index, entry.partition_size, entry.offset_lag, entry.is_future_key
            )
            for topic in result.topics
            for entry in topic.partitions
        ),
        error=error_of(result.error_code),
        total_bytes=result.total_bytes,
        usable_bytes=result.usable_bytes,
        is_cordoned=result.is_cordoned,
    )
