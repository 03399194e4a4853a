"""FetchPlace: the broker to fetch a partition from, as the metadata of this moment says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.client.network.bootstrap import Unreachable
from kcli.client.network.connection import Disconnected
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.fetch import FetchRequest
from kcli.protocol.messages.list_offsets import EARLIEST, LATEST
from kcli.protocol.topics import TopicPartition as ClientPartition
from kcli.spark.cluster.fetch_requests import max_fetch_version
from kcli.spark.cluster.offset_queries import offsets_at
from kcli.spark.ranges.data_loss import name_of

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.client.network.metadata import Node
    from kcli.errors import KcliError
    from kcli.spark.split import TopicPartition

_READ_COMMITTED_VERSION = 4


@dataclass(frozen=True, slots=True)
class FetchPlace:
    """A broker, the version to speak with it, and what it must know of the partition."""

    node: Node
    version: int
    topic_id: bytes
    leader_epoch: int
    is_leader: bool = True


async def place_of(
    client: Client, partition: TopicPartition, *, read_committed: bool, replica: int = -1
) -> FetchPlace:
    """Return the leader, or that replica if it is alive; raise `KafkaError` while there is none."""
    cluster = await client.metadata({partition.topic})
    if partition.topic in cluster.errors:
        error = cluster.errors[partition.topic]
        raise KafkaError(error, f"{error.description}: {partition.topic}")
    leader = cluster.leader_of(ClientPartition(*partition))
    if leader is None:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{name_of(partition)} has no leader")
    is_leader = replica == leader.leader or replica not in cluster.nodes
    node, versions = await client.node_versions(leader.leader if is_leader else replica)
    topic_id = cluster.topics[partition.topic].topic_id
    version = versions.choose(
        FetchRequest,
        min_version=_READ_COMMITTED_VERSION if read_committed else 0,
        max_version=max_fetch_version(topic_id),
    )
    return FetchPlace(node, version, topic_id, leader.leader_epoch, is_leader)


async def bounds_of(client: Client, partition: TopicPartition) -> tuple[int, int]:
    """Return the first offset of a partition and the one behind its last."""
    earliest = await offsets_at(client, {partition: EARLIEST})
    latest = await offsets_at(client, {partition: LATEST})
    return earliest[partition], latest[partition]


def is_passing(error: KcliError) -> bool:
    """Return whether an error may be gone when the leader is looked up anew."""
    if isinstance(error, KafkaError):
        return error.code in _PASSING
    return isinstance(error, Disconnected | Unreachable)


_PASSING = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
