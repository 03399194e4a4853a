"""Starting the moves of replicas between log directories, which wait until their broker has the replica."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import trio

from kcli.client import admin
from kcli.commands.session import failure
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kcli.client.admin import TopicPartitionReplica
    from kcli.client.client import Client

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
