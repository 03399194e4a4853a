"""Admin calls about replicas: their log directories (KIP-113), and elections (KIP-460)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import trio

from kcli.client.admin.driver import error_of, omitted, retry
from kcli.client.network.metadata import CONTROLLER
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from kcli.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from kcli.protocol.topics import TopicPartition, by_topic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kcli.client.admin.types import LogDirDescription
    from kcli.client.client import Client


class TopicPartitionReplica(NamedTuple):
    """A replica of a partition on a broker. Prints as Kafka does: `orders-0-1`."""

    topic: str
    partition: int
    broker: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


class ReplicaPlace(NamedTuple):
    """A replica's log directory and size; the future log is on its way to another directory."""

    log_dir: str | None = None
    size_bytes: int = 0
    future_log_dir: str | None = None
    future_size_bytes: int = 0


async def alter_replica_log_dirs(
    client: Client, moves: Mapping[TopicPartitionReplica, str], *, timeout_ms: int | None = None
) -> dict[TopicPartitionReplica, KafkaError | None]:
    """Start to move replicas to these paths; after `REPLICA_NOT_AVAILABLE` they are created there."""
    results: dict[TopicPartitionReplica, KafkaError | None] = {}

    async def ask(broker: int, own: list[TopicPartitionReplica]) -> None:
        try:
            response: AlterReplicaLogDirsResponse = await client.request(
                broker, _request({replica: moves[replica] for replica in own}), timeout_ms=timeout_ms
            )
        except KafkaError as error:
            results.update(dict.fromkeys(own, error))
            return
        except KcliError as error:
            failed = KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, error.message, hint=error.hint)
            results.update(dict.fromkeys(own, failed))
            return
        answered = {
            TopicPartitionReplica(topic.topic_name, entry.partition_index, broker): error_of(entry.error_code)
            for topic in response.results
            for entry in topic.partitions
        }
        results.update({replica: answered.get(replica, omitted()) for replica in own})

    async with trio.open_nursery() as nursery:
        for broker in sorted({replica.broker for replica in moves}):
            nursery.start_soon(ask, broker, [replica for replica in moves if replica.broker == broker])
    return results


def replica_places(
    brokers: Mapping[int, Iterable[LogDirDescription] | KcliError],
) -> dict[TopicPartitionReplica, ReplicaPlace]:
    """Return the place of each replica in the results of `describe_log_dirs`."""
    places: dict[TopicPartitionReplica, ReplicaPlace] = {}
    for broker, log_dirs in brokers.items():
        if isinstance(log_dirs, KcliError):
            continue
        for log_dir in log_dirs:
            for log in log_dir.replicas:
                replica = TopicPartitionReplica(log.topic, log.partition, broker)
                found = places.get(replica, ReplicaPlace())
                if log.is_future:
                    found = found._replace(future_log_dir=log_dir.path, future_size_bytes=log.size_bytes)
                else:
                    found = found._replace(log_dir=log_dir.path, size_bytes=log.size_bytes)
                places[replica] = found
    return places


def _request(moves: Mapping[TopicPartitionReplica, str]) -> AlterReplicaLogDirsRequest:
    paths: dict[str, list[TopicPartition]] = {}
    for (topic, partition, _), path in moves.items():
        paths.setdefault(path, []).append(TopicPartition(topic, partition))
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path,
                topics=[
                    AlterReplicaLogDirTopic(name=topic, partitions=indexes)
                    for topic, indexes in by_topic(partitions).items()
                ],
            )
            for path, partitions in paths.items()
        ]
    )


class ElectionType(IntEnum):
    """Who is elected (KIP-460): the first replica of the list, or any live one if none is in sync."""

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

    `ELECTION_NOT_NEEDED` means that a named partition had the right leader; with None, those are left out.
    """
    topics = None
    if partitions is not None:
        topics = [
            TopicPartitions(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]

    async def attempt(left_ms: int) -> ElectLeadersResponse | KafkaError:
        request = ElectLeadersRequest(
            election_type=election_type, topic_partitions=topics, timeout_ms=left_ms
        )
        # A broker with version 0 only would take an unclean election for a preferred one.
        response: ElectLeadersResponse = await client.request(
            CONTROLLER, request, timeout_ms=left_ms, min_version=1 if election_type else 0
        )
        return error_of(response.error_code) or response

    answer = await retry(client, attempt, timeout_ms=timeout_ms)
    results = {
        TopicPartition(topic.topic, entry.partition_id): error_of(entry.error_code, entry.error_message)
        for topic in answer.replica_election_results
        for entry in topic.partition_result
    }
    return results | {partition: omitted() for partition in partitions or () if partition not in results}
