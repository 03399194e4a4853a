"""Calls that the leaders of partitions answer: one request per leader, all at once, and what to ask again.

The leaders come from fresh metadata; one that cannot be reached fails its own partitions only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import trio

from kcli.client.admin.retry import retry_items
from kcli.client.setbacks import broker, lost
from kcli.client.versions import UnsupportedVersion
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.schema.declaration import EncodeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from kcli.client.client import Client
    from kcli.client.metadata import ClusterMetadata
    from kcli.client.setbacks import HeldUp
    from kcli.protocol.topics import TopicPartition

Value = TypeVar("Value")

LOOK_SECONDS = 0.5
"""How often those who are asked are looked at, whether they can be reached."""


async def ask_leaders(
    client: Client,
    partitions: Iterable[TopicPartition],
    *,
    build: Callable[[list[TopicPartition], int], Any],
    read: Callable[[Any], dict[TopicPartition, Value | KafkaError]],
    timeout_ms: int | None,
    min_version: int = 0,
    held_up: HeldUp | None = None,
) -> dict[TopicPartition, Value | KafkaError]:
    """Send `build(partitions, remaining_ms)` to each leader, and merge what is `read` of the answers.

    A partition without a leader, or without an answer, gets an error of its own.
    """

    async def ask(node_id: int, group: list[TopicPartition], remaining_ms: int) -> dict[TopicPartition, Any]:
        request = build(group, remaining_ms)
        return read(await client.request(node_id, request, timeout_ms=remaining_ms, min_version=min_version))

    async def attempt(
        pending: list[TopicPartition], remaining_ms: int
    ) -> dict[TopicPartition, Value | KafkaError]:
        cluster = await client.metadata({partition.topic for partition in pending})
        groups, leaderless = _by_leader(cluster, pending)
        results: dict[TopicPartition, Value | KafkaError] = {**leaderless}

        async def ask_one(node_id: int, group: list[TopicPartition]) -> None:
            results.update(await _answered(client, node_id, group, ask(node_id, group, remaining_ms)))

        async with trio.open_nursery() as watches:
            if held_up is not None:
                watches.start_soon(_watch, client, groups, held_up)
            async with trio.open_nursery() as nursery:
                for node_id, group in groups.items():
                    nursery.start_soon(ask_one, node_id, group)
            watches.cancel_scope.cancel()
        return results

    return await retry_items(client, partitions, timeout_ms=timeout_ms, attempt=attempt, held_up=held_up)


async def _watch(client: Client, nodes: Iterable[int], held_up: HeldUp) -> None:
    """Tell of the brokers that cannot be reached while they are asked, until cancelled."""
    start = trio.current_time()
    while True:
        await trio.sleep(LOOK_SECONDS)
        known = client.cluster.nodes
        for link in (client.links.get(node_id) for node_id in nodes if node_id in known):
            if link.last_error is not None:
                held_up.met(broker(link.node.node_id), lost(link.last_error), since=start)


def _by_leader(
    cluster: ClusterMetadata, partitions: list[TopicPartition]
) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, KafkaError]]:
    """Return the partitions that each node leads, and why there is nobody to ask about the others."""
    groups: dict[int, list[TopicPartition]] = {}
    leaderless: dict[TopicPartition, KafkaError] = {}
    for partition in partitions:
        leader = cluster.leader_of(partition)
        if leader is not None:
            groups.setdefault(leader.leader, []).append(partition)
        elif partition.topic in cluster.errors:
            leaderless[partition] = KafkaError(cluster.errors[partition.topic])
        elif partition.partition not in cluster.topics[partition.topic].partitions:
            leaderless[partition] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            leaderless[partition] = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
    return groups, leaderless


async def _answered(
    client: Client,
    node_id: int,
    group: list[TopicPartition],
    asking: Awaitable[dict[TopicPartition, Value | KafkaError]],
) -> dict[TopicPartition, Value | KafkaError]:
    """Return the answer of one leader, with an error for each partition that it does not answer for."""
    try:
        answered = await asking
    except UnsupportedVersion as error:
        refused = KafkaError(ErrorCode.UNSUPPORTED_VERSION, error.message, hint=error.hint)
        return dict.fromkeys(group, refused)
    except KafkaError as error:
        return {partition: _unanswered(client, partition, node_id, error) for partition in group}
    except EncodeError:
        raise  # no broker was asked, and none can be: the request holds what it has no room for
    except KcliError as error:
        failed = KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, error.message, hint=error.hint)
        return {partition: _unanswered(client, partition, node_id, failed) for partition in group}
    missing = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker left this partition out of its answer")
    return {partition: answered.get(partition, missing) for partition in group}


def _unanswered(client: Client, partition: TopicPartition, node_id: int, error: KafkaError) -> KafkaError:
    """Return the error of a partition whose leader did not answer: one that passes if it leads no more."""
    leader = client.cluster.leader_of(partition)
    if error.code != ErrorCode.BROKER_NOT_AVAILABLE or (leader is not None and leader.leader == node_id):
        return error
    return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, error.message, hint=error.hint)
