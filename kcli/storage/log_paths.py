"""The names of files and directories inside a log directory: making and parsing them.

A log directory holds one directory per replica:

    <topic>-<partition>                            the replica; the topic may contain dashes itself
    <topic>-<partition>.<32 hex digits>-future     its copy while it moves between log directories
    <topic>-<partition>.<32 hex digits>-delete     deleted; its files are unlinked later
    <topic>-<partition>.<32 hex digits>-stray      found on disk, but not in the metadata

A replica directory holds segments, named by the offset of their first record, 20 digits:

    00000000000000000042.log  .index  .timeindex  .txnindex      one segment
    00000000000000000042.snapshot                                producer state of everything below 42

`.deleted`, `.cleaned` or `.swap` is appended while a file is on its way out or in (Kafka classes
`LogFileUtils` and `LocalLog`).
"""

from __future__ import annotations

from typing import NamedTuple

from kcli.protocol.topics import TopicPartition

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
"""The files of one segment; the last one exists only after a transaction was aborted."""

DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"

DELETE_DIRECTORY_SUFFIX = "-delete"
FUTURE_DIRECTORY_SUFFIX = "-future"
STRAY_DIRECTORY_SUFFIX = "-stray"
_DIRECTORY_SUFFIXES = (DELETE_DIRECTORY_SUFFIX, FUTURE_DIRECTORY_SUFFIX, STRAY_DIRECTORY_SUFFIX)

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

_OFFSET_DIGITS = 20
_MAX_NAME_BYTES = 255
_UNIQUE_ID_DIGITS = 32


class ReplicaDirectoryName(NamedTuple):
    """The parsed name of a replica directory: its replica and its suffix (`""`, `-delete` …)."""

    topic_partition: TopicPartition
    suffix: str


def offset_text(offset: int) -> str:
    """Return an offset as the 20 digits that begin a segment's file names."""
    return f"{offset:0{_OFFSET_DIGITS}d}"


def segment_path(directory: str, base_offset: int, suffix: str) -> str:
    """Return the path of one file of a segment, or of the producer snapshot at that offset."""
    return f"{directory}/{base_offset:0{_OFFSET_DIGITS}d}{suffix}"


def offset_from_name(name: str) -> int | None:
    """Return the offset that begins a file name, None if it does not begin with one and a dot."""
    digits, dot, _ = name.partition(".")
    if not dot or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits)


def base_offset_of(name: str, suffix: str) -> int | None:
    """Return the offset in a name such as `00000000000000000042.log`, None for any other name."""
    if not name.endswith(suffix):
        return None
    digits = name[: -len(suffix)]
    return int(digits) if digits.isascii() and digits.isdigit() else None


def replica_directory_name(topic_partition: TopicPartition) -> str:
    """Return the directory name of a replica: `orders-0`."""
    return f"{topic_partition.topic}-{topic_partition.partition}"


def suffixed_directory_name(topic_partition: TopicPartition, suffix: str, unique_id: str) -> str:
    """Return the name of a future, deleted or stray replica directory.

    `unique_id` is 32 hex digits. In the names of deleted and stray directories the topic is cut so that the
    name fits a file system.
    """
    tail = f"-{topic_partition.partition}.{unique_id}{suffix}"
    topic = topic_partition.topic
    if suffix != FUTURE_DIRECTORY_SUFFIX:
        topic = topic[: _MAX_NAME_BYTES - len(tail)]
    return topic + tail


def parse_replica_directory(name: str) -> ReplicaDirectoryName | None:
    """Parse a directory name; None if it is not the name of a replica directory."""
    suffix = ""
    for candidate in _DIRECTORY_SUFFIXES:
        if name.endswith(candidate):
            stem, dot, unique_id = name[: -len(candidate)].rpartition(".")
            if dot and len(unique_id) == _UNIQUE_ID_DIGITS and "-" in stem:
                suffix, name = candidate, stem
                break
    topic, dash, digits = name.rpartition("-")
    if not dash or not topic or not (digits.isascii() and digits.isdigit()):
        return None
    return ReplicaDirectoryName(TopicPartition(topic, int(digits)), suffix)
