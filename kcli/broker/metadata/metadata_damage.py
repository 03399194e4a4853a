"""Damage in the metadata log: an unfinished end is cut off, earlier damage is refused.

An empty log belongs to a node that never ran. If the node has replicas, the log with their topics is lost.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kcli.broker.metadata.metadata_replay import InvalidMetadata
from kcli.broker.metadata.metadata_snapshot import InvalidSnapshot, SnapshotId, decode_snapshot
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_header import HEADER_SIZE, LOG_OVERHEAD
from kcli.protocol.topics import METADATA_TOPIC
from kcli.storage.dirs.log_directory import META_PROPERTIES
from kcli.storage.log_paths import LOG_SUFFIX, base_offset_of, parse_replica_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SIZE_OFFSET = 8
_MAGIC_OFFSET = 16
ADOPT_HINT = "`--adopt` takes in the topics whose data is there, without their settings"


class MetadataFault(NamedTuple):
    """A copy of the metadata log without any usable batch or snapshot."""

    path: str
    how: str
    is_damage: bool

    def refusal(self) -> InvalidMetadata:
        """Return the error for a start that would forget topics."""
        otherwise = (
            f"without one, move it away: {ADOPT_HINT}" if self.is_damage else f"without one, {ADOPT_HINT}"
        )
        return InvalidMetadata(
            f"the metadata log {self.how}, and the node has replicas: `{self.path}`",
            hint=f"restore it from a copy; {otherwise}",
        )


def find_fault(log_directory: str) -> MetadataFault | None:
    """Return the fault of the copy in a log directory, None if it begins soundly. Raises `OSError`."""
    directory = f"{log_directory}/{METADATA_TOPIC}-0"
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return MetadataFault(directory, "is missing", is_damage=False)
    damaged = None
    for name in names:
        if base_offset_of(name, LOG_SUFFIX) is None:
            continue
        first = _first_batch(f"{directory}/{name}")
        if _size_of_batch_at(first, 0) is not None:
            return None
        if first and damaged is None:
            damaged = f"{directory}/{name}"
    if any(_is_whole_snapshot(directory, name) for name in names):
        return None
    if damaged is None:
        return MetadataFault(directory, "is empty", is_damage=False)
    return MetadataFault(damaged, "is damaged from its first byte on", is_damage=True)


def has_replicas(log_dirs: Iterable[str]) -> bool:
    """Return whether these log directories hold a replica of a topic.

    In a directory of a node that never ran it counts only with a segment.
    """
    for log_dir in log_dirs:
        with suppress(OSError):  # It goes offline when it is opened.
            names = os.listdir(log_dir)
            has_run = META_PROPERTIES in names
            for name in names:
                replica = parse_replica_directory(name)
                if replica is None or replica.suffix or replica.topic_partition.topic == METADATA_TOPIC:
                    continue
                if has_run or has_segment(f"{log_dir}/{name}"):
                    return True
    return False


def has_segment(directory: str) -> bool:
    """Return whether the directory of a replica has a segment. Raises `OSError`."""
    return any(name.endswith(LOG_SUFFIX) for name in os.listdir(directory))


def _first_batch(path: str) -> bytes:
    """Return the first batch of a segment, or the part of it that the file has."""
    with open(path, "rb") as file:
        head = file.read(HEADER_SIZE)
        size = int.from_bytes(head[_SIZE_OFFSET:LOG_OVERHEAD], "big", signed=True)
        end = min(LOG_OVERHEAD + size, os.fstat(file.fileno()).st_size)  # A damaged size may claim gigabytes.
        return head + file.read(max(0, end - len(head)))


def _is_whole_snapshot(directory: str, name: str) -> bool:
    snapshot = SnapshotId.parse(name)
    if snapshot is None:
        return False
    with open(f"{directory}/{name}", "rb") as file, suppress(InvalidSnapshot):
        decode_snapshot(file.read(), snapshot)
        return True
    return False


def refuse_inner_damage(path: str, *, is_last: bool) -> None:
    """Raise `InvalidMetadata` if a damaged batch is followed by a whole one, or by another segment."""
    with open(path, "rb") as file:
        data = file.read()
    position = sum(map(len, batches_of(data)))
    is_inner = not is_last and position < len(data)
    for later in range(position + 1, len(data) - HEADER_SIZE + 1):
        if data[later + _MAGIC_OFFSET] == 2 and _size_of_batch_at(data, later) is not None:
            is_inner = True
            break
    if is_inner:
        raise InvalidMetadata(
            f"the metadata log is damaged at byte {position}, before its end: `{path}`",
            hint="restore the file from a copy; cutting it would forget topics",
        )


def batches_of(data: bytes) -> Iterator[bytes]:
    """Yield the batches of `data` up to the first damaged one."""
    position = 0
    while (size := _size_of_batch_at(data, position)) is not None:
        yield data[position : position + size]
        position += size


def _size_of_batch_at(data: bytes, position: int) -> int | None:
    """Return the size of the batch at `position`, None if there is no whole and sound batch."""
    try:
        batch = RecordBatch(data, position)
    except CorruptRecord:
        return None
    return batch.size_in_bytes if batch.is_valid_crc() else None
