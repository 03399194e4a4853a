"""Replica: a directory of segments, and what the small files around it say.

A path may be a log directory, the data directory of a kcli broker, which holds one per node, or a replica's
directory. Several replicas of a partition are copies of it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.errors import KcliError, UsageError
from kcli.forensics.contents.log_directories import log_directories, replica_directories
from kcli.protocol.topics import METADATA_TOPIC, TopicPartition
from kcli.spark.source.log_dirs.segment import reading
from kcli.storage.checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CheckpointError,
    read_offsets,
    read_partition_metadata,
)
from kcli.storage.dirs.log_directory import META_PROPERTIES, MetaProperties
from kcli.storage.log_paths import LOG_SUFFIX, base_offset_of, parse_replica_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass(frozen=True, slots=True)
class Replica:
    """The directory at `path`; a value that no file has is None."""

    path: str
    topic_partition: TopicPartition
    topic_id: bytes | None
    high_watermark: int | None
    """The high watermark as last checkpointed."""
    log_start: int | None
    """Where the log starts, if not at its first segment."""


def find_replicas(directories: Iterable[str], report: Callable[[str], None]) -> list[Replica]:
    """Return every replica of a topic in log directories; `report` gets problems with the small files.

    Raises `UsageError` for a directory that cannot be read.
    """
    found: list[Replica] = []
    for directory, wanted in _wanted(directories).items():
        marks = _offsets(directory, REPLICATION_OFFSET_CHECKPOINT, report)
        starts = _offsets(directory, LOG_START_OFFSET_CHECKPOINT, report)
        with reading(directory):
            replicas = replica_directories(directory)
        for path, topic_partition in replicas:
            if topic_partition.topic != METADATA_TOPIC and (wanted is None or path in wanted):
                mark, start = marks.get(topic_partition), starts.get(topic_partition)
                found.append(Replica(path, topic_partition, _topic_id(path, report), mark, start))
    return found


def find_cluster_id(directories: Iterable[str]) -> str | None:
    """Return the cluster of the log directories; raise `KcliError` if they name two."""
    found: dict[str, str] = {}
    for directory in _wanted(directories):
        path = f"{directory}/{META_PROPERTIES}"
        if os.path.exists(path):
            with reading(path), open(path, "rb") as file:
                properties = MetaProperties.decode(file.read(), path)
            if properties.cluster_id is not None:
                found[properties.cluster_id] = directory
    if len(found) > 1:
        (one, first), (other, second) = list(found.items())[:2]
        raise KcliError(
            f"log directories of two clusters: `{first}` of {one}, `{second}` of {other}",
            hint="export one cluster at a time",
        )
    return next(iter(found), None)


def _wanted(directories: Iterable[str]) -> dict[str, set[str] | None]:
    """Return the log directories, and in each the paths of the replicas to read, None for all."""
    wanted: dict[str, set[str] | None] = {}
    for given in map(os.path.abspath, directories):
        try:
            names, meant = sorted(os.listdir(given)), log_directories(given)
        except OSError as error:
            raise UsageError(f"cannot read the log directory `{given}`: {error.strerror}") from error
        if _is_replica(given, names):
            others = wanted.setdefault(os.path.dirname(given), set())
            if others is not None:
                others.add(given)
            continue
        wanted.update(dict.fromkeys(meant))
    return wanted


def _is_replica(path: str, names: list[str]) -> bool:
    """Whether a directory has a replica's name, and segments."""
    parsed = parse_replica_directory(os.path.basename(path))
    is_named_so = parsed is not None and not parsed.suffix
    return is_named_so and any(base_offset_of(name, LOG_SUFFIX) is not None for name in names)


def _offsets(directory: str, name: str, report: Callable[[str], None]) -> dict[TopicPartition, int]:
    try:
        with reading(directory):
            offsets = read_offsets(f"{directory}/{name}")
    except CheckpointError as error:
        report(f"a checkpoint counts as empty: {error.message}")
        return {}
    return {TopicPartition(*key): offset for key, offset in offsets.items()}


def _topic_id(path: str, report: Callable[[str], None]) -> bytes | None:
    try:
        with reading(path):
            return read_partition_metadata(path)
    except CheckpointError as error:
        report(error.message)
        return None
