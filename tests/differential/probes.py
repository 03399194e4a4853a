"""Requests that show what another request has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kcli.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from kcli.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kcli.protocol.messages.describe_groups import DescribeGroupsRequest
from kcli.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kcli.protocol.messages.list_groups import ListGroupsRequest
from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.differential.requests import Request
from tests.differential.world import TOPICS, TRANSACTIONAL_IDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.differential.world import World


def _offsets(request: Any, world: World) -> Request:
    """The ends of every log."""
    topics = [
        ListOffsetsTopic(
            name=world.topic(name),
            partitions=[
                ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(TOPICS[name][0])
            ],
        )
        for name in TOPICS
    ]
    return Request("ListOffsets", 8, ListOffsetsRequest(replica_id=-1, topics=topics))


def _starts(request: Any, world: World) -> Request:
    """The beginnings of the logs whose records are deleted."""
    topics = [
        ListOffsetsTopic(
            name=each.name,
            partitions=[
                ListOffsetsPartition(partition_index=index, timestamp=-2)
                for index in sorted({row.partition_index for row in each.partitions})
            ],
        )
        for each in {topic.name: topic for topic in request.topics}.values()
    ]
    return Request("ListOffsets", 8, ListOffsetsRequest(replica_id=-1, topics=topics))


def _metadata(request: Any, world: World) -> Request:
    """Every topic."""
    return Request("Metadata", 12, MetadataRequest(topics=None, allow_auto_topic_creation=False))


def _configs(request: Any, world: World) -> Request:
    """The configurations that topics of this world have."""
    names = {each.resource_name for each in request.resources if each.resource_name.startswith(world.prefix)}
    resources = [
        DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None)
        for name in sorted(names)
    ]
    return Request("DescribeConfigs", 4, DescribeConfigsRequest(resources=resources))


def _quotas(request: Any, world: World) -> Request:
    """All quotas."""
    return Request("DescribeClientQuotas", 1, DescribeClientQuotasRequest(components=[], strict=False))


def _group(request: Any, world: World) -> Request:
    """A group of the classic protocol."""
    return Request("DescribeGroups", 5, DescribeGroupsRequest(groups=[request.group_id]))


def _consumer_group(request: Any, world: World) -> Request:
    """A group of the consumer protocol."""
    return Request("ConsumerGroupDescribe", 1, ConsumerGroupDescribeRequest(group_ids=[request.group_id]))


def _committed(request: Any, world: World) -> Request:
    """The committed offsets of a group."""
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=None)
    return Request("OffsetFetch", 8, OffsetFetchRequest(groups=[group]))


def _transactions(request: Any, world: World) -> Request:
    """Every transactional id of the world."""
    ids = [world.transactional_id(name) for name in TRANSACTIONAL_IDS]
    return Request("DescribeTransactions", 0, DescribeTransactionsRequest(transactional_ids=ids))


def _groups(request: Any, world: World) -> Request:
    """All groups."""
    return Request("ListGroups", 5, ListGroupsRequest())


PROBES: dict[str, Callable[[Any, World], Request]] = {
    "Produce": _offsets,
    "DeleteRecords": _starts,
    "CreateTopics": _metadata,
    "DeleteTopics": _metadata,
    "CreatePartitions": _metadata,
    "AlterPartitionReassignments": _metadata,
    "AlterConfigs": _configs,
    "IncrementalAlterConfigs": _configs,
    "AlterClientQuotas": _quotas,
    "JoinGroup": _group,
    "SyncGroup": _group,
    "LeaveGroup": _group,
    "Heartbeat": _group,
    "ConsumerGroupHeartbeat": _consumer_group,
    "OffsetCommit": _committed,
    "OffsetDelete": _committed,
    "DeleteGroups": _groups,
    "InitProducerId": _transactions,
    "AddPartitionsToTxn": _transactions,
    "AddOffsetsToTxn": _transactions,
    "EndTxn": _transactions,
    "WriteTxnMarkers": _offsets,
}
"""By the API that changes something."""


def probe_of(request: Request, world: World) -> Request | None:
    """The request that shows the effect of another one, None if it has none."""
    probe = PROBES.get(request.api)
    return None if probe is None else probe(request.body, world)
