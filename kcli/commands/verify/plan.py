"""VerificationPlan: the tasks of a verification; `rebuildings`, `comparisons`: those of the other modes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.commands.shared.output import warn
from kcli.errors import KcliError, UsageError
from kcli.forensics.verification.findings import Findings
from kcli.forensics.verification.fresh_indexes import refuse_inside
from kcli.forensics.verification.log_directory_checks import (
    LogDirCheckpoints,
    PartitionOffsets,
    check_meta_properties,
    check_topic_ids,
)
from kcli.forensics.verification.verification_pool import Comparison, Rebuilding, Verification
from kcli.protocol.topics import INTERNAL_TOPICS, TopicPartition
from kcli.storage.log_paths import LOG_SUFFIX, parse_replica_directory

if TYPE_CHECKING:
    from kcli.commands.verify.printer import Printer
    from kcli.forensics.verification.findings import PartitionReport, VerificationOptions
    from kcli.forensics.verification.targets import Replica, Targets
    from kcli.forensics.verification.verification_pool import Task


class VerificationPlan:
    """Makes the tasks of a verification, and checks the files of the log directories itself.

    Checkpoints are read before any log: a log that is written meanwhile only grows past them.
    """

    def __init__(self, targets: Targets, options: VerificationOptions) -> None:
        self._targets = targets
        self._options = options
        self._checkpoints: dict[str, LogDirCheckpoints] = {}
        self._topic_ids: list[tuple[str, str, bytes | None]] = []

    def tasks(self, printer: Printer) -> list[Task]:
        """Return the tasks; print the findings about the files of the log directories."""
        findings = Findings()
        if not self._only_indexes:
            for directory in self._targets.log_directories:
                self._load(directory, findings, printer)
            try:
                check_meta_properties(self._targets.log_directories, findings.add)
            except OSError as error:
                printer.failure(KcliError(f"cannot read `{error.filename}`: {error.strerror}"))
        printer.findings([*findings])
        return [
            Verification(
                replica.directory,
                self._options._replace(base_offset=replica.base_offset),
                self._offsets_of(replica, printer),
            )
            for replica in self._targets.replicas
        ]

    def note(self, report: PartitionReport) -> None:
        parsed = parse_replica_directory(_name(report.directory))
        if parsed is not None and not parsed.suffix:
            self._topic_ids.append((parsed.topic_partition.topic, report.directory, report.topic_id))

    def finish(self, printer: Printer) -> None:
        """Print the findings that need the reports on all replicas."""
        findings = Findings()
        check_topic_ids(self._topic_ids, findings.add)
        for directory in self._targets.log_directories if not self._only_indexes else ():
            self._checkpoints[directory].report_strangers(_partitions_in(directory), findings.add)
        printer.findings([*findings])

    @property
    def _only_indexes(self) -> bool:
        return self._options.sanity_only or self._options.indexes_only

    def _load(self, directory: str, findings: Findings, printer: Printer) -> None:
        self._checkpoints[directory] = checkpoints = LogDirCheckpoints(directory)
        try:
            checkpoints.load(findings.add)
        except OSError as error:
            printer.failure(KcliError(f"cannot read `{error.filename}`: {error.strerror}"))

    def _offsets_of(self, replica: Replica, printer: Printer) -> PartitionOffsets:
        """Return the offsets of a replica in the checkpoints of its log directory."""
        parsed = parse_replica_directory(_name(replica.directory))
        if self._only_indexes or parsed is None or parsed.suffix:
            return PartitionOffsets()
        directory = os.path.dirname(replica.directory) or "."
        if directory not in self._checkpoints:
            directory = replica.log_directory
        if directory not in self._checkpoints:
            self._load(directory, Findings(), printer)
        return self._checkpoints[directory].of(parsed.topic_partition)


def _partitions_in(directory: str) -> set[TopicPartition]:
    parsed = map(parse_replica_directory, os.listdir(directory))
    return {each.topic_partition for each in parsed if each is not None}


def _name(directory: str) -> str:
    return os.path.basename(os.path.abspath(directory))


def rebuildings(targets: Targets, out: str, interval_bytes: int) -> list[Task]:
    """Return tasks that write fresh indexes of each replica to `out`/its name. Raises `KcliError`."""
    for replica in targets.replicas:
        refuse_inside(out, replica.directory)
    return [
        Rebuilding(replica.directory, f"{out}/{_name(replica.directory)}", interval_bytes)
        for replica in targets.replicas
    ]


def comparisons(targets: Targets, other: str) -> list[Task]:
    """Return tasks that compare each replica with `other` or `other`/its name. Raises `KcliError`."""
    try:
        is_replica = any(name.endswith(LOG_SUFFIX) for name in os.listdir(other))
    except OSError as error:
        raise KcliError(f"cannot read `{other}`: {error.strerror}") from error
    if is_replica and len(targets.replicas) != 1:
        raise UsageError(
            f"`{other}` is one replica: compare it with one replica",
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
    """Whether a partition is compacted: its topic is internal, or a checkpoint of the cleaner names it."""
    partition = _partition_of(directory)
    if partition is None:
        return False
    if partition.topic in INTERNAL_TOPICS:
        return True
    checkpoints = LogDirCheckpoints(os.path.dirname(os.path.abspath(directory)))
    checkpoints.load(Findings().add)
    return checkpoints.of(partition).cleaner is not None


def _partition_of(directory: str) -> TopicPartition | None:
    """Return the partition in the name of a replica directory, None for any other name."""
    parsed = parse_replica_directory(_name(directory))
    return None if parsed is None else parsed.topic_partition
