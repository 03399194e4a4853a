"""Reading a broker's log directories without the broker, and without changing anything in them.

A broker may be running, or may have been killed: segments end where their last whole batch does. What is
damaged is reported and passed over, as far as the size of a batch tells where the next one begins; else
the rest of its segment is lost to the reader.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from kcli.errors import KcliError, UsageError
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.message_set import LegacyEntry
from kcli.storage.checkpoints import CheckpointError, read_offsets, read_partition_metadata
from kcli.storage.log_paths import (
    LOG_SUFFIX,
    SWAP_SUFFIX,
    base_offset_of,
    parse_replica_directory,
)

if TYPE_CHECKING:
    from pathlib import Path

LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
META_PROPERTIES = "meta.properties"
NODE_PREFIX = "node-"
"""A data directory of kcli holds a log directory of each node under this name."""

BLOCK_BYTES = 1024 * 1024

_ENTRY_HEAD = Struct(">qiib")
_MIN_ENTRY_SIZE = 14
_BATCH_HEAD_SIZE = 61
_MAGIC_BATCH = 2

Batch = RecordBatch | LegacyEntry
Report = Callable[[KcliError], None]
"""Takes what is wrong with the files."""


class ReplicaDirectory(NamedTuple):
    """The directory of a replica; the topic's id if it says one."""

    topic: str
    partition: int
    path: Path
    topic_id: bytes | None


def find_replicas(directories: Iterable[Path]) -> dict[tuple[str, int], ReplicaDirectory]:
    """Return the replicas in log directories, and in those of a data directory's nodes.

    Of a partition that is there several times, the replica that reaches furthest is the one.
    """
    found: dict[tuple[str, int], ReplicaDirectory] = {}
    for directory in (each for given in directories for each in log_directories(given)):
        for path in sorted(directory.iterdir()):
            name = parse_replica_directory(path.name)
            if name is None or name.suffix or not path.is_dir():
                continue
            topic, partition = name.topic_partition
            replica = ReplicaDirectory(topic, partition, path, topic_id_of(path))
            other = found.get((topic, partition))
            if other is None or end_offset(path) > end_offset(other.path):
                found[topic, partition] = replica
    return found


def log_directories(directory: Path) -> list[Path]:
    """Return a log directory itself, or those of the nodes in a data directory of kcli."""
    try:
        nodes = sorted(path for path in directory.iterdir() if path.name.startswith(NODE_PREFIX))
    except OSError as error:
        # What is there and no directory is the wrong thing to name; what is not there cannot be read.
        kind = UsageError if isinstance(error, NotADirectoryError) else KcliError
        raise kind(f"cannot read `{directory}`: {error.strerror}") from error
    nodes = [path for path in nodes if (path / META_PROPERTIES).exists()]
    return nodes or [directory]


def topic_id_of(path: Path) -> bytes | None:
    """Return the id of a replica's topic; a damaged file tells none."""
    try:
        return read_partition_metadata(str(path))
    except CheckpointError:
        return None


def segment_files(path: Path) -> list[tuple[int, Path]]:
    """Return the segments of a replica by base offset.

    A compacted segment that was about to be swapped in counts if the one it replaces is gone.
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


def start_offsets(directories: Iterable[Path]) -> dict[tuple[str, int], int]:
    """Return the log start offsets that the checkpoints of log directories tell."""
    offsets: dict[tuple[str, int], int] = {}
    for directory in (each for given in directories for each in log_directories(given)):
        try:
            checkpoint = read_offsets(str(directory / LOG_START_CHECKPOINT))
        except CheckpointError:
            continue
        offsets.update({(topic, partition): offset for (topic, partition), offset in checkpoint.items()})
    return offsets


def end_offset(path: Path) -> int:
    """Return the offset behind the last whole batch of a replica, damaged or not."""
    end = 0
    for base_offset, file in reversed(segment_files(path)):
        end = max(end, base_offset)
        for head in _heads(file):
            end = head
        if end > base_offset:
            break
    return end


def _heads(file: Path) -> Iterator[int]:
    """Yield the next offset after each whole entry of a segment, looking at heads only."""
    with file.open("rb") as source:
        size, position = os.fstat(source.fileno()).st_size, 0
        while size - position >= _ENTRY_HEAD.size:
            source.seek(position)
            head = source.read(_BATCH_HEAD_SIZE)
            offset, length, _, magic = _ENTRY_HEAD.unpack_from(head)
            position += 12 + length
            if length < _MIN_ENTRY_SIZE or position > size:
                return
            if magic < _MAGIC_BATCH:
                yield offset + 1
            elif len(head) == _BATCH_HEAD_SIZE:
                yield RecordBatch(head).next_offset


def read_batches(path: Path, report: Report) -> Iterator[Batch]:
    """Yield the intact batches of a replica in order; give what is wrong with the others to `report`."""
    for _, file in segment_files(path):
        try:
            with file.open("rb", buffering=BLOCK_BYTES) as source:
                yield from _read_segment(source, file, report)
        except FileNotFoundError:
            continue  # a running broker has compacted it away, and its records live on in another segment
        except OSError as error:
            report(KcliError(f"cannot read `{file}`: {error.strerror}"))


def _read_segment(source: BinaryIO, file: Path, report: Report) -> Iterator[Batch]:
    position = 0
    while head := source.read(_ENTRY_HEAD.size):
        if not any(head) and not any(source.read()):
            return  # the rest is preallocated
        if len(head) < _ENTRY_HEAD.size:
            report(damage(file, position, "the last batch is cut short"))
            return
        offset, length, _, magic = _ENTRY_HEAD.unpack(head)
        if length < _MIN_ENTRY_SIZE or not 0 <= magic <= _MAGIC_BATCH:
            report(damage(file, position, "no batch begins here, the rest of the file is passed over"))
            return
        data = head + source.read(12 + length - len(head))
        if len(data) < 12 + length:
            report(damage(file, position, "the last batch is cut short"))
            return
        try:
            batch = RecordBatch(data) if magic == _MAGIC_BATCH else LegacyEntry(data)
            if not batch.is_valid_crc():
                raise CorruptRecord("the checksum does not match")
            yield batch
        except CorruptRecord as error:
            report(damage(file, position, f"the batch of offset {offset} is passed over: {error.message}"))
        position += len(data)


def damage(file: Path, position: int, what: str) -> KcliError:
    """Return the error for something wrong in a file."""
    return KcliError(f"`{file}`, byte {position}: {what}")
