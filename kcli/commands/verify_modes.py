"""The other two things that `verify-index` does: writing fresh indexes, and comparing replicas."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.commands.progress import progress_bar
from kcli.commands.verify_processes import size_of
from kcli.errors import KcliError, UsageError
from kcli.protocol.internal_topics import INTERNAL_TOPICS
from kcli.storage.log_paths import LOG_SUFFIX, parse_replica_directory
from kcli.storage.verification.fresh_indexes import rebuild, refuse_inside
from kcli.storage.verification.log_dir_checkpoints import LogDirCheckpoints
from kcli.storage.verification.replica_comparison import compare

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.commands.progress import Advance
    from kcli.commands.verify_report import Printer
    from kcli.commands.verify_targets import Replica, Targets
    from kcli.storage.verification.findings import Finding
    from kcli.storage.verification.partition_report import PartitionReport


def rebuild_indexes(targets: Targets, out: str, interval_bytes: int, printer: Printer) -> None:
    """Write fresh indexes of every replica to a directory of its name in `out`."""
    for replica in targets.replicas:
        refuse_inside(out, replica.directory)

    def work(replica: Replica, advance: Advance) -> PartitionReport:
        name = os.path.basename(os.path.abspath(replica.directory))
        return rebuild(replica.directory, f"{out}/{name}", interval_bytes=interval_bytes, advance=advance)

    _each(targets, "rebuilding", work, printer)


def compare_replicas(targets: Targets, other: str, printer: Printer) -> None:
    """Compare every replica with the one in `other`, which is one or has one of the same name."""
    try:
        is_replica = any(name.endswith(LOG_SUFFIX) for name in os.listdir(other))
    except OSError as error:
        raise KcliError(f"cannot read `{other}`: {error.strerror}") from error
    if is_replica and len(targets.replicas) != 1:
        raise UsageError(f"`{other}` is one replica: compare it with one")

    def work(replica: Replica, advance: Advance) -> PartitionReport:
        name = os.path.basename(os.path.abspath(replica.directory))
        theirs = other if is_replica else f"{other}/{name}"
        return compare(
            replica.directory, theirs, is_compacted=_is_compacted(replica.directory), advance=advance
        )

    _each(targets, "comparing", work, printer)


def _each(
    targets: Targets,
    what: str,
    work: Callable[[Replica, Advance], PartitionReport],
    printer: Printer,
) -> None:
    """Do something with every replica, and print what it came to."""
    total = sum(size_of(replica.directory) for replica in targets.replicas)
    with progress_bar(what, total or None) as advance:
        for replica in targets.replicas:
            try:
                printer.report(work(replica, advance))
            except OSError as error:
                path = error.filename or replica.directory
                printer.failure(KcliError(f"cannot open `{path}`: {error.strerror}"))


def _is_compacted(directory: str) -> bool:
    """Whether the cleaner has been at a partition, or must have been."""
    parsed = parse_replica_directory(os.path.basename(os.path.abspath(directory)))
    if parsed is None:
        return False
    if parsed.topic_partition.topic in INTERNAL_TOPICS:
        return True
    checkpoints = LogDirCheckpoints(os.path.dirname(os.path.abspath(directory)))
    found: list[Finding] = []
    checkpoints.load(found.append)
    return checkpoints.of(parsed.topic_partition).cleaner is not None
