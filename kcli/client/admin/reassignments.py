"""Admin calls about where replicas are: move partitions, stop moves, tell which are under way (KIP-455)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.client.admin.retry import error_of, retry_items
from kcli.client.routing import CONTROLLER
from kcli.protocol.error_codes import KafkaError
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

_VERSION_THAT_KEEPS_THE_FACTOR = 1


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A partition on the move: all its replicas, of which some are being added and some removed."""

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
    """Start to move partitions to the given replicas, preferred leader first; None stops a move.

    The answer comes when the moves have begun. Brokers before 4.1 cannot be told to keep the number of
    replicas: `UnsupportedVersion` (KIP-860).
    """

    async def attempt(
        pending: list[TopicPartition], remaining_ms: int
    ) -> dict[TopicPartition, KafkaError | None]:
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=remaining_ms,
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
            CONTROLLER, request, timeout_ms=remaining_ms, min_version=minimum
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
    """Return the partitions that are on the move, in ascending order: of all (None), or of these."""
    topics = None
    if partitions is not None:
        topics = [
            ListPartitionReassignmentsTopics(name=topic, partition_indexes=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]

    async def attempt(
        pending: list[str], remaining_ms: int
    ) -> dict[str, ListPartitionReassignmentsResponse | KafkaError]:
        response: ListPartitionReassignmentsResponse = await client.request(
            CONTROLLER,
            ListPartitionReassignmentsRequest(timeout_ms=remaining_ms, topics=topics),
            timeout_ms=remaining_ms,
        )
        return {"list": error_of(response.error_code, response.error_message) or response}

    answer = (await retry_items(client, ["list"], timeout_ms=timeout_ms, attempt=attempt))["list"]
    if isinstance(answer, KafkaError):
        raise answer
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
