"""The rows of small files: transaction indexes, producer snapshots, checkpoints and properties.

Kafka's dump tool knows the first two, and they are printed in its form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct

from kcli.commands.dump.indexes import entries_of, excess_message
from kcli.commands.dump.view import OptionalLong, Row
from kcli.errors import ChecksFailed, KcliError
from kcli.forensics.contents.log_files import DumpFile, FileKind
from kcli.protocol.uuids import uuid_from_text, uuid_to_text
from kcli.storage.checkpoints import CheckpointError, decode_checkpoint, read_small_file
from kcli.storage.dirs.log_directory import parse_identity
from kcli.storage.producers.producer_snapshot import MAX_BYTES, CorruptSnapshot, decode_rows

_ABORTED = Struct(">hqqqq")
_TRANSACTION_FIELDS = ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset")


class DamagedFile(ChecksFailed):
    """A small file that is damaged."""


def rows_of(file: DumpFile) -> Iterator[Row]:
    """Yield the entries of a small file. Raises `DamagedFile`, possibly after some entries, and `OSError`."""
    try:
        yield from _READERS[file.kind](file.path)
    except CheckpointError as error:
        raise DamagedFile(error.message) from error
    except CorruptSnapshot as error:
        raise DamagedFile(f"{error.message} (in `{file.path}`)") from error


def aborted_transactions(path: str) -> Iterator[Row]:
    for fields in entries_of(path, _ABORTED):
        if fields[0] != 0:
            raise DamagedFile(f"an aborted transaction of version {fields[0]}: `{path}`")
        yield Row("aborted_transaction", dict(zip(_TRANSACTION_FIELDS, fields, strict=True)))
    message = excess_message(path, _ABORTED, name="aborted transaction")
    if message is not None:
        raise DamagedFile(message)


def producers(path: str) -> Iterator[Row]:
    for entry in decode_rows(read_small_file(path, MAX_BYTES)):
        fields: dict[str, object] = {
            "producerId": entry.producer_id,
            "producerEpoch": entry.producer_epoch,
            "coordinatorEpoch": entry.coordinator_epoch,
            "currentTxnFirstOffset": OptionalLong(entry.current_txn_first_offset),
            "lastTimestamp": entry.last_timestamp,
        }
        for batch in entry.batches:
            fields |= {
                "firstSequence": batch.first_sequence,
                "lastSequence": batch.last_sequence,
                "lastOffset": batch.last_offset,
                "offsetDelta": batch.offset_delta,
                "timestamp": batch.timestamp,
            }
        yield Row("producer", fields)


def leader_epochs(path: str) -> Iterator[Row]:
    for entry in decode_checkpoint(read_small_file(path), path):
        epoch, start_offset = _numbers(path, entry, entry, 2)
        yield Row("leader_epoch", {"epoch": epoch, "startOffset": start_offset})


def offsets(path: str) -> Iterator[Row]:
    for entry in decode_checkpoint(read_small_file(path), path):
        partition, offset = _numbers(path, entry, entry[1:], 2)
        yield Row("offset", {"topic": entry[0], "partition": partition, "offset": offset})


def partition_metadata(path: str) -> Iterator[Row]:
    text = read_small_file(path).decode(errors="replace")
    fields = {
        name.strip(): value.strip()
        for name, colon, value in (line.partition(":") for line in text.splitlines())
        if colon
    }
    try:
        version, topic_id = int(fields["version"]), fields["topic_id"]
        uuid_from_text(topic_id)
    except (KeyError, ValueError) as error:
        raise DamagedFile(f"no version or no topic id: `{path}`") from error
    yield Row("partition_metadata", {"version": version, "topicId": topic_id})


def meta_properties(path: str) -> Iterator[Row]:
    try:
        found = parse_identity(read_small_file(path), path)
    except KcliError as error:
        raise DamagedFile(error.message) from error
    if found is None:
        return
    fields: dict[str, object] = {"version": found.version}
    if found.cluster_id is not None:
        fields["clusterId"] = found.cluster_id
    if found.node_id is not None:
        fields["nodeId"] = found.node_id
    if found.directory_id is not None:
        fields["directoryId"] = uuid_to_text(found.directory_id)
    yield Row("meta_properties", fields)


_READERS: dict[FileKind, Callable[[str], Iterator[Row]]] = {
    FileKind.TRANSACTION_INDEX: aborted_transactions,
    FileKind.PRODUCER_SNAPSHOT: producers,
    FileKind.LEADER_EPOCHS: leader_epochs,
    FileKind.OFFSETS: offsets,
    FileKind.PARTITION_METADATA: partition_metadata,
    FileKind.META_PROPERTIES: meta_properties,
}


def _numbers(path: str, entry: list[str], words: list[str], count: int) -> list[int]:
    try:
        numbers = [int(word) for word in words]
    except ValueError:
        numbers = []
    if len(numbers) != count:
        raise DamagedFile(f"a malformed line, `{' '.join(entry)}`: `{path}`")
    return numbers
