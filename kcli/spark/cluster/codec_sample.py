"""The codec of one batch, as a sample of how a topic is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.protocol.compression.codecs import Codec
from kcli.protocol.record import CorruptRecord
from kcli.protocol.records.batch import iter_batches
from kcli.protocol.topics import TopicPartition as ClientPartition
from kcli.spark.cluster.fetch_requests import fetch_request, max_fetch_version, partition_data

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.spark.split import TopicPartition

_BYTES = 64 * 1024


async def codec_at(client: Client, partition: TopicPartition, offset: int) -> Codec:
    """Return the codec of the batch at an offset; LZ4, which is in the middle, if that cannot be told."""
    cluster = await client.metadata({partition.topic})
    leader = cluster.leader_of(ClientPartition(*partition))
    if leader is None:
        return Codec.LZ4
    topic_id = cluster.topics[partition.topic].topic_id
    request = fetch_request(partition, topic_id, offset, max_bytes=_BYTES)
    try:
        response = await client.request(leader.leader, request, max_version=max_fetch_version(topic_id))
        data = partition_data(response, partition)
        batch = next(iter(iter_batches(data.records or b"")), None)
        return Codec.LZ4 if batch is None else batch.codec
    except (KcliError, CorruptRecord):
        return Codec.LZ4
