"""What the verbs of `kcli reassign-partitions` ask a cluster, and how moves between log directories start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from kcli.client import admin
from kcli.commands.shared.formatting import ids_text, plural
from kcli.commands.shared.session import failure
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kcli.client.admin import ReplicaPlace, TopicPartition, TopicPartitionReplica
    from kcli.client.client import Client
    from kcli.commands.reassignment.plan import Assignment


@dataclass(frozen=True, slots=True)
class Brokers:
    """The racks of the live brokers, and the brokers that are registered but down."""

    racks: Mapping[int, str | None]
    down: frozenset[int]

    def need(self, wanted: Iterable[int]) -> None:
        """Raise `KcliError` for a broker that cannot get replicas."""
        missing = sorted(set(wanted) - self.racks.keys())
        if down := [broker for broker in missing if broker in self.down]:
            brokers = f"{plural('broker', len(down))} {ids_text(down)} {'is' if len(down) == 1 else 'are'}"
            raise KcliError(
                f"{brokers} down: replicas cannot move there", hint="start it first, or plan without it"
            )
        if missing:
            raise unknown_brokers(missing)


def unknown_brokers(missing: Sequence[int]) -> KcliError:
    return KcliError(
        f"the cluster has no such broker: {ids_text(missing)}",
        hint="`kcli cluster nodes` shows those there are",
    )


async def read_brokers(client: Client) -> Brokers:
    """Return the brokers; only brokers with KIP-1073 tell which are down."""
    from kcli.client.network.connection import UnsupportedVersion

    try:
        nodes = (await admin.describe_cluster(client, include_fenced=True)).nodes
    except UnsupportedVersion:
        nodes = (await admin.describe_cluster(client)).nodes
    return Brokers(
        {node.node_id: node.rack for node in nodes if not node.is_fenced},
        frozenset(node.node_id for node in nodes if node.is_fenced),
    )


async def replicas_of(
    client: Client, topics: Iterable[str] | None, *, may_lack: bool = False
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas of the partitions of topics, None for all; unknown ones raise unless `may_lack`."""
    if topics is None:
        topics = [listing.name for listing in await admin.list_topics(client)]
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for name, topic in (await admin.describe_topics(client, topics)).items():
        if not isinstance(topic, KcliError):
            for each in topic.partitions:
                found[admin.TopicPartition(name, each.partition)] = tuple(each.replicas)
        elif not (may_lack and topic.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise failure(f"cannot describe topic `{name}`", topic)
    return found


async def replicas_now(client: Client, targets: Assignment) -> Assignment:
    """Return the current replicas of the partitions of a plan, which must exist."""
    found = await replicas_of(client, {partition.topic for partition in targets}, may_lack=True)
    unknown = [str(partition) for partition in targets if partition not in found]
    if unknown:
        raise KcliError(
            f"no such partition: {', '.join(unknown)}",
            hint="`kcli topics describe` shows the partitions there are",
        )
    return {partition: found[partition] for partition in targets}


async def places_of(
    client: Client,
    brokers: Iterable[int],
    partitions: Iterable[TopicPartition],
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartitionReplica, ReplicaPlace]:
    """Return the places of replicas on brokers, without those that no broker tells."""
    return admin.replica_places(
        await admin.describe_log_dirs(
            client, sorted(set(brokers)), partitions=list(partitions), timeout_ms=timeout_ms
        )
    )


RETRY_SECONDS = 0.1


async def start_log_dir_moves(
    client: Client, log_dirs: Mapping[TopicPartitionReplica, str], *, timeout_ms: int
) -> tuple[list[str], list[KcliError]]:
    """Start moves between log directories; return Kafka's lines about the started ones, and the errors.

    A broker that does not have the replica yet is asked again until `timeout_ms` have passed.
    """
    pending = dict(log_dirs)
    lines: list[str] = []
    failures: list[KcliError] = []
    deadline = trio.current_time() + timeout_ms / 1000
    while pending:
        results = await admin.alter_replica_log_dirs(client, pending)
        for replica in sorted(results, key=lambda each: (each.broker, each.topic, each.partition)):
            error = results[replica]
            if error is None:
                lines.append(_started_line(replica, pending.pop(replica)))
            elif error.code != ErrorCode.REPLICA_NOT_AVAILABLE:
                failures.append(failure(f"cannot move replica {replica} to {pending.pop(replica)}", error))
        if pending and trio.current_time() >= deadline:
            names = ", ".join(map(str, sorted(pending)))
            error_text = f"not moved to another log directory within {timeout_ms} ms: {names}"
            failures.append(
                KcliError(error_text, hint="`--timeout` waits longer for brokers to get their replicas")
            )
            break
        if pending:
            await trio.sleep(RETRY_SECONDS)
    return lines, failures


def _started_line(replica: TopicPartitionReplica, log_dir: str) -> str:
    """Return Kafka's line, which ends with a blank."""
    return (
        f"Successfully started moving log directory to {log_dir} for replica "
        f"{replica.topic}-{replica.partition} with broker {replica.broker} "
    )
