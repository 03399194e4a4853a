"""The replica directories that the paths of a command line mean."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import KcliError, UsageError
from kcli.forensics.contents.log_directories import META_PROPERTIES, log_directories
from kcli.storage.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
from kcli.storage.log_paths import (
    DELETE_DIRECTORY_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    base_offset_of,
    parse_replica_directory,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

OFFSET_CHECKPOINTS = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)
_OF_LOG_DIRECTORY = (META_PROPERTIES, *OFFSET_CHECKPOINTS)
_OF_REPLICA = (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA)


class Replica(NamedTuple):
    """A replica directory to verify, or only its segment at `base_offset`."""

    directory: str
    base_offset: int | None = None

    @property
    def log_directory(self) -> str:
        """The parent directory, which has the checkpoints."""
        return os.path.dirname(os.path.abspath(self.directory))


class Targets(NamedTuple):
    """What to verify. `files` are those to tell of, where single ones were given; empty for all.

    `directories_without_replicas` are among the given ones.
    """

    log_directories: Sequence[str]
    replicas: Sequence[Replica]
    files: Collection[str]
    directories_without_replicas: Sequence[str]


def find_targets(paths: Sequence[str], topics: Collection[str], partitions: Collection[int]) -> Targets:
    """Return what the paths mean. Raises `KcliError`."""
    directories: dict[str, None] = {}
    replicas: dict[Replica, None] = {}
    files: set[str] = set()
    empty: list[str] = []
    for given in paths:
        if not given:
            raise UsageError("a path is empty")
        path = given.rstrip("/") or "/"
        try:
            if not os.path.isdir(path):
                replica = _of_file(path)
                # Findings put a directory before every name.
                files.add(f"{os.path.dirname(path) or '.'}/{os.path.basename(path)}")
                if replica is None:
                    directories[os.path.dirname(path) or "."] = None
                else:
                    replicas[replica] = None
                continue
            if _has_segments(path):
                replicas[Replica(path)] = None
                continue
            found: list[Replica] = []
            for directory in log_directories(path):
                directories[directory] = None
                found += [Replica(each) for each in _replicas_in(directory, topics, partitions)]
            replicas.update(dict.fromkeys(found))
        except OSError as error:
            raise KcliError(f"cannot read `{error.filename or path}`: {error.strerror}") from error
        if not found:
            empty.append(path)
    if empty and not replicas:
        raise nothing_in(empty[0], topics=topics, partitions=partitions)
    # A topic that is asked for need not be in every log directory.
    return Targets([*directories], [*replicas], files, [] if topics or partitions else empty)


def nothing_in(path: str, *, topics: Collection[str], partitions: Collection[int]) -> UsageError:
    """Return the error of a directory in which nothing is to be verified."""
    options = [name for name, given in (("--topic", topics), ("--partition", partitions)) if given]
    if options:
        asked = " and ".join(f"`{option}`" for option in options)
        return UsageError(f"no segments of what {asked} asked for: `{path}`")
    return UsageError(
        f"no segments in the directory: `{path}`",
        hint="give a directory of a partition or of a broker, or one of the files in it",
    )


def _of_file(path: str) -> Replica | None:
    """Return the replica of a file, None for a file of a log directory."""
    os.stat(path)
    directory, name = os.path.split(path)
    if name in _OF_LOG_DIRECTORY:
        return None
    if name in _OF_REPLICA:
        return Replica(directory or ".")
    for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX):
        if name.endswith(suffix):
            base_offset = base_offset_of(name, suffix)
            if base_offset is None:
                raise UsageError(f"the name does not begin with an offset: `{path}`")
            return Replica(directory or ".", base_offset)
    raise UsageError(
        f"not a file of a log directory: `{path}`",
        hint="give a directory of a partition or of a broker, or one of the files in it",
    )


def _replicas_in(directory: str, topics: Collection[str], partitions: Collection[int]) -> Iterator[str]:
    """Yield the wanted replicas in a log directory that are not deleted.

    In any other directory, names like `dbus-1` are common: there, a replica must have a file of one.
    """
    is_log_directory = not set(_OF_LOG_DIRECTORY).isdisjoint(os.listdir(directory))
    parsed = [(parse_replica_directory(name), name) for name in os.listdir(directory)]
    replicas = [(replica, name) for replica, name in parsed if replica is not None]
    for (topic_partition, suffix), name in sorted(replicas):
        path = f"{directory}/{name}"
        if suffix == DELETE_DIRECTORY_SUFFIX or not os.path.isdir(path):
            continue
        if not (is_log_directory or _has_files_of_replica(path)):
            continue
        if topics and topic_partition.topic not in topics:
            continue
        if partitions and topic_partition.partition not in partitions:
            continue
        yield os.path.normpath(f"{directory}/{name}")


def _has_files_of_replica(path: str) -> bool:
    return any(
        name in _OF_REPLICA or name.endswith((*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX))
        for name in os.listdir(path)
    )


def _has_segments(path: str) -> bool:
    return any(base_offset_of(name, LOG_SUFFIX) is not None for name in os.listdir(path))
