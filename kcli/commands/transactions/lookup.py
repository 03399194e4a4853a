"""What the verbs of `kcli transactions` ask a cluster for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.client import admin
from kcli.commands.shared.session import failure
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.topics import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kcli.client.client import Client

BATCH = 500
"""How many partitions are asked about together, as in Kafka's tool."""


async def transactional_ids(client: Client) -> list[str]:
    """Return the transactional ids of the cluster."""
    found = await admin.list_transactions(client)
    return [listing.transactional_id for listing in found.transactions]


async def check_broker(client: Client, node_id: int | None) -> None:
    """Raise `KcliError` if a broker is not in the cluster."""
    if node_id is None:
        return
    known = (await admin.describe_cluster(client)).nodes
    if node_id not in {node.node_id for node in known}:
        raise KcliError(
            f"broker {node_id} is not in the cluster", hint="`kcli cluster nodes` shows the brokers there are"
        )


async def known_producers(
    client: Client, partition: TopicPartition, *, node_id: int | None = None, timeout_ms: int
) -> tuple[admin.ProducerState, ...]:
    """Return the producers of a partition; raise the error for the user."""
    await check_broker(client, node_id)
    found = await admin.describe_producers(client, [partition], node_id=node_id, timeout_ms=timeout_ms)
    states = found[partition]
    if isinstance(states, KafkaError):
        await check_partition(client, partition, states, timeout_ms=timeout_ms)
        raise unanswered(partition, states, node_id)
    return states


async def check_partition(
    client: Client, partition: TopicPartition, error: KcliError, *, timeout_ms: int
) -> None:
    """Raise a `KcliError` that tells how many partitions a topic has, if `error` comes from a missing one."""
    if getattr(error, "code", None) is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return
    topic, number = partition
    described = (await admin.describe_topics(client, [topic], timeout_ms=timeout_ms))[topic]
    if not isinstance(described, KafkaError) and number >= len(described.partitions):
        raise KcliError(
            f"topic `{topic}` has no partition {number}, it has {len(described.partitions)}",
            hint="the first is partition 0",
        )


def unanswered(partition: TopicPartition, error: KcliError, node_id: int | None) -> KcliError:
    """Return the error of a partition whose producers nobody told."""
    where = "its leader" if node_id is None else f"broker {node_id}"
    hint = None
    if getattr(error, "code", None) is ErrorCode.NOT_LEADER_OR_FOLLOWER and node_id is not None:
        hint = f"`kcli topics describe {partition.topic}` shows which brokers have replicas"
    return failure(f"cannot describe the producers of {partition} on {where}", error, hint=hint)


async def partitions_to_search(
    client: Client, *, topic: str | None, number: int | None, node_id: int | None, timeout_ms: int
) -> list[TopicPartition]:
    """Return the partitions of a topic or of all, of one broker or of all; raise `KcliError`."""
    await check_broker(client, node_id)
    if topic is not None and number is not None:
        return [TopicPartition(topic, number)]
    names = [topic] if topic is not None else [each.name for each in await admin.list_topics(client)]
    found: list[TopicPartition] = []
    described = await admin.describe_topics(client, names, timeout_ms=timeout_ms)
    for name, description in described.items():
        if isinstance(description, KafkaError):
            raise failure(f"cannot describe topic `{name}`", description)
        found += [
            TopicPartition(name, partition.partition)
            for partition in description.partitions
            if node_id is None or node_id in partition.replicas
        ]
    return found


class OpenTransaction:
    """A transaction that a partition holds open."""

    __slots__ = ("partition", "producer")

    def __init__(self, partition: TopicPartition, producer: admin.ProducerState) -> None:
        self.partition = partition
        self.producer = producer


async def open_transactions(
    client: Client, partitions: Sequence[TopicPartition], *, node_id: int | None, timeout_ms: int
) -> tuple[list[OpenTransaction], list[KcliError]]:
    """Return the open transactions of partitions, and the errors of partitions that nobody told about."""
    found: list[OpenTransaction] = []
    errors: list[KcliError] = []
    for start in range(0, len(partitions), BATCH):
        batch = partitions[start : start + BATCH]
        answers = await admin.describe_producers(client, batch, node_id=node_id, timeout_ms=timeout_ms)
        for partition, states in answers.items():
            if isinstance(states, KafkaError):
                await check_partition(client, partition, states, timeout_ms=timeout_ms)
                errors.append(unanswered(partition, states, node_id))
                continue
            found += [OpenTransaction(partition, state) for state in states if state.start_offset is not None]
    return found, errors


async def hanging(
    client: Client, candidates: Collection[OpenTransaction], *, timeout_ms: int
) -> list[OpenTransaction]:
    """Return those that no coordinator will end: it does not know the producer id with that partition."""
    producer_ids = {each.producer.producer_id for each in candidates}
    if not producer_ids:
        return []
    listed = await admin.list_transactions(client, producer_ids=sorted(producer_ids), timeout_ms=timeout_ms)
    for node_id, error in listed.errors.items():
        # Its coordinator may know every one of them.
        raise failure(f"cannot list the transactions of broker {node_id}", error)
    ids = {each.producer_id: each.transactional_id for each in listed.transactions}
    known = await admin.describe_transactions(client, ids.values(), timeout_ms=timeout_ms) if ids else {}
    awaited: set[tuple[int, TopicPartition]] = set()
    for producer_id, transactional_id in ids.items():
        match known[transactional_id]:
            case KafkaError(code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
                continue
            case KafkaError() as error:
                raise failure(f"cannot describe transactional id `{transactional_id}`", error)
            case description:
                awaited.update((producer_id, partition) for partition in description.partitions)
    return [each for each in candidates if (each.producer.producer_id, each.partition) not in awaited]
