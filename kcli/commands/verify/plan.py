"""VerificationPlan: the directories to verify, with what the log directories around them say of each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.commands.verify.tasks import Verification
from kcli.errors import KcliError
from kcli.protocol.topics import TopicPartition
from kcli.storage.log_paths import parse_replica_directory
from kcli.storage.verification.findings import Findings
from kcli.storage.verification.identity import check_meta_properties, check_topic_ids
from kcli.storage.verification.log_dir_checkpoints import LogDirCheckpoints, PartitionOffsets

if TYPE_CHECKING:
    from kcli.commands.verify.printer import Printer
    from kcli.commands.verify.targets import Replica, Targets
    from kcli.commands.verify.tasks import Task
    from kcli.storage.verification.options import VerificationOptions
    from kcli.storage.verification.partition_report import PartitionReport


class VerificationPlan:
    """Verifies what belongs to log directories itself: their checkpoints and identities.

    The checkpoints are read before any log, as a log that is written meanwhile only grows past them.
    """

    def __init__(self, targets: Targets, options: VerificationOptions) -> None:
        self._targets = targets
        self._options = options
        self._checkpoints: dict[str, LogDirCheckpoints] = {}
        self._topic_ids: list[tuple[str, str, bytes | None]] = []

    def tasks(self, printer: Printer) -> list[Task]:
        """Return what is to be verified; print what is wrong with the log directories' own files."""
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
        """Take note of the topic id of a replica."""
        parsed = parse_replica_directory(_name(report.directory))
        if parsed is not None and not parsed.suffix:
            self._topic_ids.append((parsed.topic_partition.topic, report.directory, report.topic_id))

    def finish(self, printer: Printer) -> None:
        """Print what can be told once all directories were seen."""
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
        """Return what the checkpoints say of a replica, those of its parent if it was given by itself."""
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
