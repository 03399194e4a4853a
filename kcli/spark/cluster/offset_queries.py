"""What the leaders of partitions answer about offsets and sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.client.admin.cluster import describe_log_dirs
from kcli.client.admin.partitions import list_offsets
from kcli.errors import KcliError
from kcli.protocol.error_codes import KafkaError
from kcli.protocol.topics import TopicPartition as ClientPartition
from kcli.spark.ranges.data_loss import name_of
from kcli.spark.split import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kcli.client.admin.types import OffsetAndTimestamp
    from kcli.client.client import Client


async def offsets_at(
    client: Client, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, int]:
    """Return an offset per partition for a timestamp or one of the special ones; -1 where there is none."""
    wanted = {ClientPartition(*one): timestamp for one, timestamp in timestamps.items()}
    answers = await list_offsets(client, wanted, read_committed=read_committed)
    return {one: _offset(one, answers[ClientPartition(*one)]) for one in timestamps}


async def sizes_of(client: Client, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the bytes of each partition's log on its leader; nothing where that is not told.

    A broker may be too old for the question, or the user not allowed to ask it.
    """
    cluster = await client.metadata({one.topic for one in partitions})
    leaders = {one: cluster.leader_of(ClientPartition(*one)) for one in partitions}
    nodes = {leader.leader for leader in leaders.values() if leader is not None}
    wanted = [ClientPartition(*one) for one in partitions]
    answers = await describe_log_dirs(client, nodes, partitions=wanted)
    sizes: dict[TopicPartition, int] = {}
    for node_id, directories in answers.items():
        if isinstance(directories, KcliError):
            continue
        for directory in directories:
            for replica in directory.replicas:
                one = TopicPartition(replica.topic, replica.partition)
                leader = leaders.get(one)
                if leader is not None and leader.leader == node_id and not replica.is_future:
                    sizes[one] = replica.size_bytes
    return sizes


def _offset(partition: TopicPartition, answer: OffsetAndTimestamp | KafkaError) -> int:
    if isinstance(answer, KafkaError):
        raise KcliError(
            f"cannot ask for the offsets of {name_of(partition)}: {answer.message}", hint=answer.hint
        )
    return answer.offset
