"""Consumer groups from the files of `__consumer_offsets`, without a broker.

What a transaction committed counts from its COMMIT marker on, as for the coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.groups.history import GroupHistory, group_of
from kcli.errors import KcliError
from kcli.forensics.contents.log_directory_reader import (
    Batch,
    Report,
    end_offset,
    find_replicas,
    read_batches,
    segment_files,
    start_offsets,
)
from kcli.protocol.internal.coordinator_records import DecodedRecord, UnknownRecordType, decode_record
from kcli.protocol.record import CorruptRecord
from kcli.protocol.records.control_records import ControlRecordType, parse_control_key
from kcli.protocol.schema.declaration import DecodeError
from kcli.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from kcli.protocol.record import Record

OFFSETS_TOPIC = "__consumer_offsets"

Partition = tuple[str, int]


class TimedRecord(NamedTuple):
    """A decoded record and its timestamp."""

    record: DecodedRecord
    timestamp_ms: int


class GroupFiles:
    """The groups in log directories. What is damaged is in `failures`, once it has been read over."""

    def __init__(self, directories: Iterable[Path]) -> None:
        self._directories = list(directories)
        self._replicas = find_replicas(self._directories)
        self.failures: list[KcliError] = []
        self._names = {
            replica.topic_id: replica.topic for replica in self._replicas.values() if replica.topic_id
        }

    def topic_name(self, topic_id: bytes) -> str:
        """Return the name of a topic by its id; the id as text if no directory is one of its partitions."""
        return self._names.get(topic_id) or uuid_to_text(topic_id)

    def groups(self, *, with_events: Callable[[str], bool] = lambda group: False) -> dict[str, GroupHistory]:
        """Read all groups that there are, or were; those that `with_events` accepts with their events."""
        replicas = [replica for replica in self._replicas.values() if replica.topic == OFFSETS_TOPIC]
        if not replicas:
            names = ", ".join(f"`{directory}`" for directory in self._directories)
            raise KcliError(
                f"there is no partition of {OFFSETS_TOPIC} in {names}",
                hint="a log directory is what `log.dirs` of the broker names",
            )
        groups: dict[str, GroupHistory] = {}
        for replica in sorted(replicas):
            report = self.failures.append
            for record, timestamp_ms in settled_records(
                read_batches(replica.path, report), replica.path, report
            ):
                name = group_of(record)
                group = groups.get(name)
                if group is None:
                    keeps = with_events(name)
                    group = groups[name] = GroupHistory(name, keeps, keeps)
                group.apply(record, timestamp_ms)
        return groups

    def ranges(self, partitions: Iterable[Partition]) -> dict[Partition, tuple[int, int]]:
        """Return the first and the end offset of those partitions that are in the directories."""
        starts = start_offsets(self._directories)
        found: dict[Partition, tuple[int, int]] = {}
        for partition in partitions:
            replica = self._replicas.get(partition)
            segments = segment_files(replica.path) if replica is not None else []
            if replica is not None and segments:
                first = max(segments[0][0], starts.get(partition, 0))
                found[partition] = (first, max(first, end_offset(replica.path)))
        return found


def settled_records(batches: Iterable[Batch], path: Path, report: Report) -> Iterator[TimedRecord]:
    """Yield the decoded records of a partition, those of a transaction once it is committed.

    Records of unknown types are passed over, damaged ones are reported.
    """
    pending: dict[int, list[TimedRecord]] = {}
    for batch in batches:
        try:
            records = list(batch.records())
            marker = parse_control_key(records[0].key) if batch.is_control and records else None
        except CorruptRecord as error:
            report(damaged(path, batch.next_offset - 1, error.message))
            continue
        if batch.is_control:
            settled = pending.pop(batch.producer_id, [])
            if marker is ControlRecordType.COMMIT:
                yield from settled
            continue
        decoded = [entry for record in records if (entry := decoded_record(record, path, report)) is not None]
        if batch.is_transactional:
            pending.setdefault(batch.producer_id, []).extend(decoded)
        else:
            yield from decoded


def decoded_record(record: Record, path: Path, report: Report) -> TimedRecord | None:
    """Return what a record says, None for one that is not known here or is damaged."""
    try:
        if record.key is None:
            raise DecodeError("it has no key")
        return TimedRecord(decode_record(record.key, record.value), record.timestamp)
    except UnknownRecordType:
        return None
    except DecodeError as error:
        report(damaged(path, record.offset, error.message))
        return None


def damaged(path: Path, offset: int, what: str) -> KcliError:
    """Return the error for a record that cannot be read."""
    return KcliError(f"`{path}`, offset {offset}: {what}")
