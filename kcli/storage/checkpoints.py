"""The small text files of a log directory: offset checkpoints, leader epochs and `partition.metadata`.

A checkpoint is UTF-8 text, written to `<name>.tmp`, synced and renamed, so that a reader finds the old or the
new one and never a part:

    0                       version
    2                       number of entries
    orders 0 1234           one entry per line

| file                             | where             | entry                    |
|----------------------------------|-------------------|--------------------------|
| recovery-point-offset-checkpoint | log directory     | topic, partition, offset |
| log-start-offset-checkpoint      | log directory     | topic, partition, offset |
| replication-offset-checkpoint    | log directory     | topic, partition, offset |
| cleaner-offset-checkpoint        | log directory     | topic, partition, offset |
| leader-epoch-checkpoint          | replica directory | epoch, start offset      |

An empty file has no entries. Any other malformed file raises `CheckpointError`: the caller reports it and
goes on as if there were no entries, which costs work at start but never data (Kafka class `CheckpointFile`).

`partition.metadata` ties a replica directory to its topic: `version: 0` and `topic_id: <22 characters>`,
without a final line feed (Kafka class `PartitionMetadata`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.protocol.topics import TopicPartition
from kcli.protocol.uuids import ZERO_UUID, uuid_from_text, uuid_to_text
from kcli.storage import disk
from kcli.storage.log_paths import PARTITION_METADATA

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"

MAX_BYTES = 8 * 1024 * 1024
"""The checkpoint of a hundred thousand partitions takes half of this."""

_VERSION = 0


class CheckpointError(KcliError):
    """A small file that is malformed."""


def write_atomically(path: str, data: bytes, *, sync: bool = True) -> None:
    """Replace a file through `<path>.tmp`, durably with `sync`. Raises `OSError`."""
    temporary = path + ".tmp"
    descriptor = disk.open_file(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        disk.write_fully(descriptor, data)
        if sync:
            disk.sync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temporary, path)
    if sync:
        disk.sync_path(os.path.dirname(path))


def encode_checkpoint(lines: list[str]) -> bytes:
    """Return the bytes of a checkpoint with these entry lines."""
    return "\n".join([str(_VERSION), str(len(lines)), *lines, ""]).encode()


def decode_checkpoint(data: bytes, name: str) -> list[list[str]]:
    """Return the entries of a checkpoint, each split at white space; error messages show `name`."""
    if not data:
        return []
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"not text: `{name}`") from error
    if lines[-1] == "":
        lines.pop()
    if lines[0] != str(_VERSION):
        raise CheckpointError(f"version {lines[0]!r}, not {_VERSION}: `{name}`")
    if len(lines) < 2 or not lines[1].isascii() or not lines[1].isdigit():
        raise CheckpointError(f"the second line is not a number of entries: `{name}`")
    if int(lines[1]) != len(lines) - 2:
        raise CheckpointError(f"{lines[1]} entries declared, {len(lines) - 2} found: `{name}`")
    return [line.split() for line in lines[2:]]


def write_offsets(path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Write an offset checkpoint, durably. Raises `OSError`."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    write_atomically(path, encode_checkpoint(lines))


def read_offsets(path: str) -> dict[TopicPartition, int]:
    """Read an offset checkpoint; a missing file has no entries. Raises `CheckpointError` and `OSError`."""
    offsets = {}
    for entry in decode_checkpoint(_read_if_exists(path), path):
        try:
            topic, partition, offset = entry
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError as error:
            raise CheckpointError(f"malformed line {' '.join(entry)!r}: `{path}`") from error
    return offsets


def write_epochs(path: str, epochs: Iterable[tuple[int, int]], *, sync: bool = True) -> None:
    """Write (epoch, start offset) pairs as a leader epoch checkpoint. Raises `OSError`."""
    lines = [f"{epoch} {start_offset}" for epoch, start_offset in epochs]
    write_atomically(path, encode_checkpoint(lines), sync=sync)


def read_epochs(path: str) -> list[tuple[int, int]]:
    """Read a leader epoch checkpoint; a missing file has no entries."""
    epochs = []
    for entry in decode_checkpoint(_read_if_exists(path), path):
        try:
            epoch, start_offset = entry
            epochs.append((int(epoch), int(start_offset)))
        except ValueError as error:
            raise CheckpointError(f"malformed line {' '.join(entry)!r}: `{path}`") from error
    return epochs


def write_partition_metadata(directory: str, topic_id: bytes) -> None:
    """Write `partition.metadata` before the replica's first record; the first flush syncs it."""
    if topic_id == ZERO_UUID:
        raise ValueError("a replica cannot belong to the zero topic id")
    text = f"version: 0\ntopic_id: {uuid_to_text(topic_id)}"
    write_atomically(f"{directory}/{PARTITION_METADATA}", text.encode(), sync=False)


def read_partition_metadata(directory: str) -> bytes | None:
    """Return the topic id of a replica directory, None without the file. Raises `CheckpointError`."""
    path = f"{directory}/{PARTITION_METADATA}"
    data = _read_if_exists(path)
    if not data:
        return None
    fields = {}
    for line in data.decode(errors="replace").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields[name.strip()] = value.strip()
    try:
        version, topic_id = int(fields["version"]), uuid_from_text(fields["topic_id"])
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"not a `{PARTITION_METADATA}` file: `{path}`") from error
    if version < 0 or topic_id == ZERO_UUID:
        raise CheckpointError(f"version {version} or the topic id is not valid: `{path}`")
    return topic_id


def read_small_file(path: str, max_bytes: int = MAX_BYTES) -> bytes:
    """Return a file's content. Raises `CheckpointError` if it is too large, and `OSError`."""
    data = disk.read_file(path, max_bytes + 1)
    if len(data) > max_bytes:
        raise CheckpointError(f"larger than {max_bytes} bytes: `{path}`")
    return data


def _read_if_exists(path: str) -> bytes:
    try:
        return read_small_file(path)
    except FileNotFoundError:
        return b""
