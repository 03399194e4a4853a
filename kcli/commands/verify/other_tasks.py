"""The other two things that `verify-index` does: writing fresh indexes, and comparing replicas."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.commands.output import warn
from kcli.commands.verify.tasks import Comparison, Rebuilding
from kcli.errors import KcliError, UsageError
from kcli.protocol.topics import INTERNAL_TOPICS
from kcli.storage.log_paths import LOG_SUFFIX, parse_replica_directory
from kcli.storage.verification.fresh_indexes import refuse_inside
from kcli.storage.verification.log_dir_checkpoints import LogDirCheckpoints

if TYPE_CHECKING:
    from kcli.commands.verify.targets import Targets
    from kcli.commands.verify.tasks import Task
    from kcli.protocol.topics import TopicPartition
    from kcli.storage.verification.findings import Finding


def rebuildings(targets: Targets, out: str, interval_bytes: int) -> list[Task]:
    """Return how to write fresh indexes of every replica to a directory of its name in `out`.

    Raises `KcliError`.
    """
    for replica in targets.replicas:
        refuse_inside(out, replica.directory)
    return [
        Rebuilding(replica.directory, f"{out}/{_name(replica.directory)}", interval_bytes)
        for replica in targets.replicas
    ]


def comparisons(targets: Targets, other: str) -> list[Task]:
    """Return how to compare every replica with the one in `other`, which is one or has one of the same name.

    Raises `KcliError`.
    """
    try:
        is_replica = any(name.endswith(LOG_SUFFIX) for name in os.listdir(other))
    except OSError as error:
        raise KcliError(f"cannot read `{other}`: {error.strerror}") from error
    if is_replica and len(targets.replicas) != 1:
        raise UsageError(
            f"`{other}` is one replica: compare it with one",
            hint="give the directory of a partition, or that of a broker to `--compare`",
        )
    for replica in targets.replicas if is_replica else ():
        one, two = _partition_of(replica.directory), _partition_of(other)
        if one is not None and two is not None and one != two:
            warn(f"these are two different partitions: {one} and {two}")
    return [
        Comparison(
            replica.directory,
            other if is_replica else f"{other}/{_name(replica.directory)}",
            _is_compacted(replica.directory),
        )
        for replica in targets.replicas
    ]


def _is_compacted(directory: str) -> bool:
    """Whether the cleaner has been at a partition, or must have been."""
    partition = _partition_of(directory)
    if partition is None:
        return False
    if partition.topic in INTERNAL_TOPICS:
        return True
    checkpoints = LogDirCheckpoints(os.path.dirname(os.path.abspath(directory)))
    found: list[Finding] = []
    checkpoints.load(found.append)
    return checkpoints.of(partition).cleaner is not None


def _partition_of(directory: str) -> TopicPartition | None:
    """Return the partition that a replica's directory is named for, None if its name is another."""
    parsed = parse_replica_directory(_name(directory))
    return None if parsed is None else parsed.topic_partition


def _name(directory: str) -> str:
    return os.path.basename(os.path.abspath(directory))
