"""What the verbs of `kcli reassign-partitions` ask a cluster before they act.

Starting the moves of replicas between log directories, which wait until their broker has the replica.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from kcli.client import admin
from kcli.commands.reassignment.view import ids
from kcli.commands.shared.formatting import plural
from kcli.commands.shared.session import failure
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kcli.client.admin import ReplicaPlace, TopicPartition, TopicPartitionReplica
    from kcli.client.client import Client
    from kcli.commands.reassignment.plan import Assignment


@dataclass(frozen=True, slots=True)
class Brokers:
    """The racks of the brokers that are there, and those that are registered but down."""

    racks: Mapping[int, str | None]
    down: frozenset[int]

    def need(self, wanted: Iterable[int]) -> None:
        """Refuse brokers that cannot get replicas."""
        missing = sorted(set(wanted) - self.racks.keys())
        if down := [broker for broker in missing if broker in self.down]:
            raise KcliError(
                f"down, so that replicas cannot move there: {plural('broker', len(down))} {ids(down)}",
                hint="start what is down first, or plan without it",
            )
        if missing:
            raise unknown_brokers(missing)


def unknown_brokers(missing: Sequence[int]) -> KcliError:
    """Return the error of brokers that the cluster does not have."""
    return KcliError(
        f"the cluster has no such broker: {ids(missing)}", hint="`kcli cluster nodes` shows those there are"
    )


async def read_brokers(client: Client) -> Brokers:
    """Return the brokers; those that are down only where the cluster can tell (KIP-1073)."""
    from kcli.client import admin
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
    """Return the replicas of the partitions of topics, or of all; an unknown topic has none if it may."""
    from kcli.client import admin
    from kcli.commands.shared.session import failure
    from kcli.protocol.error_codes import ErrorCode

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
    """Return the replicas that the partitions of a plan have; each must exist."""
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
    """Return where the replicas of partitions lie on brokers; what nobody tells is left out."""
    from kcli.client import admin

    return admin.replica_places(
        await admin.describe_log_dirs(
            client, sorted(set(brokers)), partitions=list(partitions), timeout_ms=timeout_ms
        )
    )


RETRY_SECONDS = 0.1


async def start_log_dir_moves(
    client: Client, log_dirs: Mapping[TopicPartitionReplica, str], *, timeout_ms: int
) -> tuple[list[str], list[KcliError]]:
    """Have brokers move replicas; returns Kafka's lines about those that began, and what did not.

    A broker that does not have the replica yet is asked again until the time is up.
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
            error_text = f"no move to another log directory in {timeout_ms} ms of: {names}"
            failures.append(
                KcliError(error_text, hint="`--timeout` waits longer for brokers that get replicas")
            )
            break
        if pending:
            await trio.sleep(RETRY_SECONDS)
    return lines, failures


def _started_line(replica: TopicPartitionReplica, log_dir: str) -> str:
    """Return Kafka's line, with the blank at its end."""
    return (
        f"Successfully started moving log directory to {log_dir} for replica "
        f"{replica.topic}-{replica.partition} with broker {replica.broker} "
    )
