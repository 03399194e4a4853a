"""Admin calls about log directories of single replicas: where they lie, and moves between them (KIP-113)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import trio

from kcli.client.admin.retry import error_of, omitted
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from kcli.protocol.topics import TopicPartition, by_topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kcli.client.admin.types import LogDirDescription
    from kcli.client.client import Client


class TopicPartitionReplica(NamedTuple):
    """A replica: of a partition, on a broker. Prints as Kafka does: `orders-0-1`."""

    topic: str
    partition: int
    broker: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


@dataclass(frozen=True, slots=True)
class ReplicaPlace:
    """Where a replica's log lies and how large it is; a second log is one on its way to another directory."""

    log_dir: str | None = None
    size_bytes: int = 0
    future_log_dir: str | None = None
    future_size_bytes: int = 0


async def alter_replica_log_dirs(
    client: Client, moves: Mapping[TopicPartitionReplica, str], *, timeout_ms: int | None = None
) -> dict[TopicPartitionReplica, KafkaError | None]:
    """Start to move replicas to directories of their brokers (absolute paths); each broker moves its own.

    `REPLICA_NOT_AVAILABLE` says that the broker has no such replica yet: the directory is kept for the case
    that it gets one.
    """
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
    """Return where each replica is, of those that `describe_log_dirs` told of."""
    places: dict[TopicPartitionReplica, ReplicaPlace] = {}
    for broker, log_dirs in brokers.items():
        if isinstance(log_dirs, KcliError):
            continue
        for log_dir in log_dirs:
            for log in log_dir.replicas:
                replica = TopicPartitionReplica(log.topic, log.partition, broker)
                found = places.get(replica, ReplicaPlace())
                places[replica] = (
                    ReplicaPlace(found.log_dir, found.size_bytes, log_dir.path, log.size_bytes)
                    if log.is_future
                    else ReplicaPlace(
                        log_dir.path, log.size_bytes, found.future_log_dir, found.future_size_bytes
                    )
                )
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
