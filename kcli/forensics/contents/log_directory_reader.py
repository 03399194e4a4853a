"""The replicas in a broker's log directories, and their intact batches, read without the broker.

A broker may be running, or may have been killed: a segment ends with its last whole batch. A damaged batch is
reported and skipped if its size leads to the next one; if not, the rest of the segment is skipped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from kcli.errors import KcliError, UsageError
from kcli.forensics.contents.log_directories import log_directories, replica_directories
from kcli.forensics.entries.segment_file import SegmentFile
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_header import HEADER_SIZE, LOG_OVERHEAD, MAGIC, MIN_LENGTHS, BatchHead
from kcli.protocol.records.message_set import LegacyEntry
from kcli.storage.checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    CheckpointError,
    read_offsets,
    read_partition_metadata,
)
from kcli.storage.log_paths import LOG_SUFFIX, SWAP_SUFFIX, base_offset_of

if TYPE_CHECKING:
    from kcli.protocol.topics import TopicPartition

BLOCK_BYTES = 1024 * 1024

_ENTRY_HEAD = Struct(">qiib")

Batch = RecordBatch | LegacyEntry
Report = Callable[[KcliError], None]
"""Takes errors about the files."""


class ReplicaDirectory(NamedTuple):
    """The directory of a replica, and the topic id if `partition.metadata` has one."""

    topic: str
    partition: int
    path: Path
    topic_id: bytes | None


def find_replicas(directories: Iterable[Path]) -> dict[TopicPartition, ReplicaDirectory]:
    """Return the replicas in log directories, and in those of the nodes in data directories of kcli.

    Of several replicas of a partition, the one with the highest end offset counts.
    """
    found: dict[TopicPartition, ReplicaDirectory] = {}
    for directory in _log_directories(directories):
        for name, partition in replica_directories(directory):
            path = Path(name)
            replica = ReplicaDirectory(*partition, path, topic_id_of(path))
            other = found.get(partition)
            if other is None or end_offset(path) > end_offset(other.path):
                found[partition] = replica
    return found


def _log_directories(directories: Iterable[Path]) -> Iterator[str]:
    for directory in directories:
        try:
            yield from log_directories(str(directory))
        except OSError as error:
            # To name a file is a usage error; a directory that does not exist is a failure to read.
            kind = UsageError if isinstance(error, NotADirectoryError) else KcliError
            raise kind(f"cannot read `{directory}`: {error.strerror}") from error


def topic_id_of(path: Path) -> bytes | None:
    """Return the topic id of a replica, None if the file is damaged."""
    try:
        return read_partition_metadata(str(path))
    except CheckpointError:
        return None


def segment_files(path: Path) -> list[tuple[int, Path]]:
    """Return the segments of a replica by base offset.

    A compacted segment about to be swapped in counts if the one it replaces is gone.
    """
    segments: dict[int, Path] = {}
    try:
        names = os.listdir(path)
    except OSError as error:
        raise KcliError(f"cannot read `{path}`: {error.strerror}") from error
    for suffix in (LOG_SUFFIX + SWAP_SUFFIX, LOG_SUFFIX):
        for name in names:
            base_offset = base_offset_of(name, suffix)
            if base_offset is not None:
                segments[base_offset] = path / name
    return sorted(segments.items())


def start_offsets(directories: Iterable[Path]) -> dict[TopicPartition, int]:
    """Return the log start offsets in the checkpoints of log directories."""
    offsets: dict[TopicPartition, int] = {}
    for directory in _log_directories(directories):
        try:
            offsets.update(read_offsets(f"{directory}/{LOG_START_OFFSET_CHECKPOINT}"))
        except CheckpointError:
            continue
    return offsets


def end_offset(path: Path) -> int:
    """Return the offset behind the last whole batch of a replica; it may be damaged inside."""
    end = 0
    for base_offset, file in reversed(segment_files(path)):
        end = max(end, base_offset)
        for next_offset in _next_offsets(file):
            end = next_offset
        if end > base_offset:
            break
    return end


def _next_offsets(file: Path) -> Iterator[int]:
    """Yield the offset behind each whole entry of a segment; reads only their heads."""
    with SegmentFile(str(file)) as source:
        position = 0
        while position < source.end:
            try:
                head = BatchHead.at(source.read(position, HEADER_SIZE), 0, position)
            except CorruptRecord:
                return
            position = head.end
            if position > source.end:
                return
            yield head.next_offset


def read_batches(path: Path, report: Report) -> Iterator[Batch]:
    """Yield the intact batches of a replica in order; pass errors about the others to `report`."""
    for _, file in segment_files(path):
        try:
            with file.open("rb", buffering=BLOCK_BYTES) as source:
                yield from _read_segment(source, file, report)
        except FileNotFoundError:
            continue  # a running broker has compacted it into another segment
        except OSError as error:
            report(KcliError(f"cannot read `{file}`: {error.strerror}"))


def _read_segment(source: BinaryIO, file: Path, report: Report) -> Iterator[Batch]:
    position = 0
    while head := source.read(_ENTRY_HEAD.size):
        if not any(head) and not any(source.read()):
            return  # the rest is reserved space
        if len(head) < _ENTRY_HEAD.size:
            report(damage(file, position, "the last batch is cut short"))
            return
        offset, length, _, magic = _ENTRY_HEAD.unpack(head)
        if length < MIN_LENGTHS[0] or not 0 <= magic <= MAGIC:
            report(damage(file, position, "no batch begins here, the rest of the file is passed over"))
            return
        data = head + source.read(LOG_OVERHEAD + length - len(head))
        if len(data) < LOG_OVERHEAD + length:
            report(damage(file, position, "the last batch is cut short"))
            return
        try:
            batch = RecordBatch(data) if magic == MAGIC else LegacyEntry(data)
            if not batch.is_valid_crc():
                raise CorruptRecord("the checksum does not match")
            yield batch
        except CorruptRecord as error:
            report(damage(file, position, f"the batch of offset {offset} is passed over: {error.message}"))
        position += len(data)


def damage(file: Path, position: int, what: str) -> KcliError:
    return KcliError(f"`{file}`, byte {position}: {what}")
