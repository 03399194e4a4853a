"""One Produce request: how batches travel in it, and what its response says of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.client.metadata import NewLeader, Node
from kcli.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from kcli.protocol.topics import TopicPartition
from kcli.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from kcli.client.config import ProducerConfig
    from kcli.client.metadata import ClusterMetadata
    from kcli.client.producer_batch import ProducerBatch
    from kcli.client.versions import NodeVersions
    from kcli.protocol.messages.produce import ProduceResponse

MAX_VERSION_BY_NAME = 12
"""The last Produce version that names topics; later ones need their ids."""

NO_ANSWER = PartitionProduceResponse(index=-1, error_code=-1, base_offset=-1)
"""What a response that leaves a partition out says of it."""


def produce_request(
    batches: list[ProducerBatch],
    cluster: ClusterMetadata,
    *,
    config: ProducerConfig,
    versions: NodeVersions,
) -> tuple[ProduceRequest, int]:
    """Return the request for batches that are built, at most one of a partition, and its version.

    Raises `UnsupportedVersion`.
    """
    topics: dict[str, TopicProduceData] = {}
    has_ids = True
    for batch in batches:
        name, index = batch.partition
        data = topics.get(name)
        if data is None:
            known = cluster.topics.get(name)
            topic_id = known.topic_id if known is not None else ZERO_UUID
            has_ids = has_ids and topic_id != ZERO_UUID
            data = topics[name] = TopicProduceData(name=name, topic_id=topic_id, partition_data=[])
        if batch.data is not None:
            data.partition_data.append(PartitionProduceData(index=index, records=batch.data))
    version = versions.choose(
        ProduceRequest,
        min_version=7 if config.compression_type == "zstd" else 3,
        max_version=None if has_ids else MAX_VERSION_BY_NAME,
    )
    request = ProduceRequest(
        transactional_id=None,
        acks=config.required_acks,
        timeout_ms=config.request_timeout_ms,
        topic_data=list(topics.values()),
    )
    return request, version


def answers_of(
    request: ProduceRequest, response: ProduceResponse
) -> tuple[dict[tuple[str, int], PartitionProduceResponse], list[NewLeader]]:
    """Return what a response says of each partition, and who leads where the broker does not (KIP-951)."""
    names = {data.topic_id: data.name for data in request.topic_data}
    answers: dict[tuple[str, int], PartitionProduceResponse] = {}
    leaders: list[NewLeader] = []
    for topic in response.responses:
        name = topic.name or names.get(topic.topic_id, "")
        for answer in topic.partition_responses:
            answers[name, answer.index] = answer
            leader = answer.current_leader
            if leader.leader_id >= 0:
                partition = TopicPartition(name, answer.index)
                leaders.append(NewLeader(partition, leader.leader_id, leader.leader_epoch))
    return answers, leaders


def nodes_of(response: ProduceResponse) -> list[Node]:
    """Return the nodes that a response says the new leaders are on."""
    return [Node(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints]
