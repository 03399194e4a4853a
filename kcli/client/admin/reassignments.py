"""Admin calls about reassignments of partitions (KIP-455)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.client.admin.driver import error_of, retry, retry_items
from kcli.client.network.metadata import CONTROLLER
from kcli.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from kcli.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from kcli.protocol.topics import TopicPartition, by_topic

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kcli.client.client import Client
    from kcli.protocol.error_codes import KafkaError


_VERSION_THAT_KEEPS_THE_FACTOR = 1


class PartitionReassignment(NamedTuple):
    """A partition under reassignment: all its replicas, those being added, those being removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


async def alter_partition_reassignments(
    client: Client,
    targets: Mapping[TopicPartition, Sequence[int] | None],
    *,
    allow_replication_factor_change: bool = True,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, KafkaError | None]:
    """Start to move partitions to the given replicas, preferred leader first; None cancels a reassignment.

    The response comes when the reassignments have begun. Brokers before 4.1 cannot keep the number of
    replicas: `UnsupportedVersion` (KIP-860).
    """

    async def attempt(pending: list[TopicPartition], left_ms: int) -> dict[TopicPartition, KafkaError | None]:
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=left_ms,
            allow_replication_factor_change=allow_replication_factor_change,
            topics=[
                ReassignableTopic(
                    name=topic,
                    partitions=[_reassignable(targets, TopicPartition(topic, index)) for index in indexes],
                )
                for topic, indexes in by_topic(pending).items()
            ],
        )
        minimum = 0 if allow_replication_factor_change else _VERSION_THAT_KEEPS_THE_FACTOR
        response: AlterPartitionReassignmentsResponse = await client.request(
            CONTROLLER, request, timeout_ms=left_ms, min_version=minimum
        )
        refused = error_of(response.error_code, response.error_message)
        if refused is not None:
            return dict.fromkeys(pending, refused)
        return {
            TopicPartition(topic.name, entry.partition_index): error_of(entry.error_code, entry.error_message)
            for topic in response.responses
            for entry in topic.partitions
        }

    return await retry_items(client, targets, timeout_ms=timeout_ms, attempt=attempt)


async def list_partition_reassignments(
    client: Client, partitions: Collection[TopicPartition] | None = None, *, timeout_ms: int | None = None
) -> dict[TopicPartition, PartitionReassignment]:
    """Return the reassignments under way in ascending order: of all partitions (None), or of these."""
    topics = None
    if partitions is not None:
        topics = [
            ListPartitionReassignmentsTopics(name=topic, partition_indexes=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]

    async def attempt(left_ms: int) -> ListPartitionReassignmentsResponse | KafkaError:
        response: ListPartitionReassignmentsResponse = await client.request(
            CONTROLLER,
            ListPartitionReassignmentsRequest(timeout_ms=left_ms, topics=topics),
            timeout_ms=left_ms,
        )
        return error_of(response.error_code, response.error_message) or response

    answer = await retry(client, attempt, timeout_ms=timeout_ms)
    found = {
        TopicPartition(topic.name, entry.partition_index): PartitionReassignment(
            tuple(entry.replicas), tuple(entry.adding_replicas), tuple(entry.removing_replicas)
        )
        for topic in answer.topics
        for entry in topic.partitions
    }
    return dict(sorted(found.items()))


def _reassignable(
    targets: Mapping[TopicPartition, Sequence[int] | None], partition: TopicPartition
) -> ReassignablePartition:
    replicas = targets[partition]
    return ReassignablePartition(
        partition_index=partition.partition, replicas=None if replicas is None else list(replicas)
    )
