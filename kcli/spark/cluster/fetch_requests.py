"""Fetch requests about one partition, without a session, and what their answers say of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.client.network.connection import Disconnected
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.uuids import ZERO_UUID
from kcli.spark.ranges.data_loss import name_of

if TYPE_CHECKING:
    from kcli.protocol.messages.fetch import FetchResponse, PartitionData
    from kcli.spark.split import TopicPartition

_MAX_VERSION_BY_NAME = 12
"""Later versions name topics by their ids."""


def fetch_request(
    partition: TopicPartition,
    topic_id: bytes,
    offset: int,
    *,
    max_bytes: int,
    leader_epoch: int = -1,
    read_committed: bool = False,
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    rack: str = "",
) -> FetchRequest:
    """Return a request for the records of one partition from an offset on."""
    wanted = FetchPartition(
        partition=partition.partition,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=int(read_committed),
        topics=[FetchTopic(topic=partition.topic, topic_id=topic_id, partitions=[wanted])],
        rack_id=rack,
    )


def max_fetch_version(topic_id: bytes) -> int | None:
    """Return the last version that can name a topic, None for no limit."""
    return _MAX_VERSION_BY_NAME if topic_id == ZERO_UUID else None


def partition_data(response: FetchResponse, partition: TopicPartition) -> PartitionData:
    """Return the answer about the one partition asked for; raise `KafkaError` for one about none."""
    if response.error_code:
        raise KafkaError(ErrorCode.of(response.error_code))
    for topic in response.responses:
        for data in topic.partitions:
            if data.partition_index == partition.partition and topic.topic in ("", partition.topic):
                return data
    raise Disconnected(f"the broker left {name_of(partition)} out of its answer")
