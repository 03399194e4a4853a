"""The admin call about leaders: have the controller elect them."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from kcli.client.admin.retry import error_of, omitted, retry_items
from kcli.client.routing import CONTROLLER
from kcli.protocol.error_codes import KafkaError
from kcli.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from kcli.protocol.topics import TopicPartition, by_topic

if TYPE_CHECKING:
    from collections.abc import Collection

    from kcli.client.client import Client


class ElectionType(IntEnum):
    """Who is elected (KIP-460): the first replica of the list, or any live one where none is in sync."""

    PREFERRED = 0
    UNCLEAN = 1


async def elect_leaders(
    client: Client,
    election_type: ElectionType,
    partitions: Collection[TopicPartition] | None = None,
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, KafkaError | None]:
    """Elect the leaders of some partitions, or of all that need it (None).

    `ELECTION_NOT_NEEDED` says that a named partition had the right leader; of all, those are left out.
    """
    topics = None
    if partitions is not None:
        topics = [
            TopicPartitions(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]

    async def attempt(
        pending: list[ElectionType], remaining_ms: int
    ) -> dict[ElectionType, ElectLeadersResponse | KafkaError]:
        request = ElectLeadersRequest(
            election_type=election_type, topic_partitions=topics, timeout_ms=remaining_ms
        )
        # A broker that knows version 0 only would hold an unclean election for a preferred one.
        response: ElectLeadersResponse = await client.request(
            CONTROLLER, request, timeout_ms=remaining_ms, min_version=1 if election_type else 0
        )
        return {election_type: error_of(response.error_code) or response}

    answer = (await retry_items(client, [election_type], timeout_ms=timeout_ms, attempt=attempt))[
        election_type
    ]
    if isinstance(answer, KafkaError):
        raise answer
    results = {
        TopicPartition(topic.topic, entry.partition_id): error_of(entry.error_code, entry.error_message)
        for topic in answer.replica_election_results
        for entry in topic.partition_result
    }
    return results | {partition: omitted() for partition in partitions or () if partition not in results}
