"""Consumer groups from the files of `__consumer_offsets`, without a broker, in the shape of the views.

Records of a transaction count if it is committed, and in their place in the log, as in the coordinator: a
newer ordinary commit stays. The state of a group is the one that a coordinator has right after it has loaded
the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.groups.head import GroupHead, GroupRow
from kcli.commands.groups.history import (
    ConsumerState,
    GroupHistory,
    PastMember,
    TopicNames,
    group_of,
    named_assignment,
)
from kcli.commands.groups.members import GroupMembers, MemberRow
from kcli.commands.groups.offsets import Committed, GroupOffsets, partition_rows
from kcli.errors import KcliError
from kcli.forensics.contents.log_directory_reader import (
    Report,
    end_offset,
    find_replicas,
    read_batches,
    segment_files,
    start_offsets,
)
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.internal.coordinator_records import (
    DecodedRecord,
    MemberMetadata,
    UnknownRecordType,
    decode_record,
)
from kcli.protocol.records.control_records import ControlRecordType, parse_control_key
from kcli.protocol.schema.declaration import DecodeError
from kcli.protocol.topics import TopicPartition
from kcli.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from kcli.protocol.records.record import Record


OFFSETS_TOPIC = "__consumer_offsets"


class TimedRecord(NamedTuple):
    record: DecodedRecord
    timestamp_ms: int


class GroupFiles:
    """The groups in log directories. Reading adds damage to `failures`."""

    def __init__(self, directories: Iterable[Path]) -> None:
        self._directories = list(directories)
        self._replicas = find_replicas(self._directories)
        self.failures: list[KcliError] = []
        self._names = {
            replica.topic_id: replica.topic for replica in self._replicas.values() if replica.topic_id
        }

    def topic_name(self, topic_id: bytes) -> str:
        """Return the name of a topic by its id, the id as text if no partition of it is here."""
        return self._names.get(topic_id) or uuid_to_text(topic_id)

    def groups(self, *, with_events: Callable[[str], bool] = lambda group: False) -> dict[str, GroupHistory]:
        """Read all groups, deleted ones too; keep the events of those that `with_events` accepts."""
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
            for record, timestamp_ms in settled_records(replica.path, report):
                name = group_of(record)
                group = groups.get(name)
                if group is None:
                    keeps = with_events(name)
                    group = groups[name] = GroupHistory(name, keeps, keeps)
                group.apply(record, timestamp_ms)
        return groups

    def ranges(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """Return the first and the end offset of the partitions that are in the directories."""
        starts = start_offsets(self._directories)
        found: dict[TopicPartition, tuple[int, int]] = {}
        for partition in partitions:
            replica = self._replicas.get(partition)
            segments = segment_files(replica.path) if replica is not None else []
            if replica is not None and segments:
                first = max(segments[0][0], starts.get(partition, 0))
                found[partition] = (first, max(first, end_offset(replica.path)))
        return found


def settled_records(path: Path, report: Report) -> Iterator[TimedRecord]:
    """Yield a replica's decoded records without those of open and aborted transactions; report damage."""
    committed = committed_batches(path)
    for batch in read_batches(path, report):
        if batch.is_control or (batch.producer_id >= 0 and batch.next_offset not in committed):
            continue
        try:
            records = list(batch.records())
        except CorruptRecord as error:
            report(damaged(path, batch.next_offset - 1, error.message))
            continue
        for record in records:
            decoded = decoded_record(record, path, report)
            if decoded is not None:
                yield decoded


def committed_batches(path: Path) -> set[int]:
    """Return the next offsets of a replica's batches that a COMMIT marker follows."""
    committed: set[int] = set()
    pending: dict[int, list[int]] = {}
    for batch in read_batches(path, _ignore):
        if batch.producer_id < 0:
            continue
        if not batch.is_control:
            pending.setdefault(batch.producer_id, []).append(batch.next_offset)
            continue
        with suppress(CorruptRecord):  # a marker that cannot be read decides nothing
            for record in batch.records():
                kind = parse_control_key(record.key)
                if kind in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
                    ended = pending.pop(batch.producer_id, [])
                    committed.update(ended if kind is ControlRecordType.COMMIT else ())
    return committed


def _ignore(error: KcliError) -> None:
    """Ignore damage: the reader of the records reports it."""


def decoded_record(record: Record, path: Path, report: Report) -> TimedRecord | None:
    """Return the decoded record, None for an unknown or damaged one."""
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
    return KcliError(f"`{path}`, offset {offset}: {what}")


def listing_row(group: GroupHistory) -> GroupRow:
    head = head_of(group)
    return GroupRow(group.group, head.type, head.state, protocol_type(group))


def protocol_type(group: GroupHistory) -> str:
    """Return the protocol type of a group, "" if it never had members."""
    if group.consumer is not None:
        return "consumer"
    return group.classic.protocol_type if group.classic is not None else ""


def head_of(group: GroupHistory) -> GroupHead:
    state = group.consumer
    if state is not None:
        epochs = (state.epoch, state.target_epoch)
        return GroupHead(
            group.group, "Consumer", consumer_state(state), None, None, *epochs, len(state.members)
        )
    members = group.classic.members if group.classic is not None else []
    assignor = group.classic.protocol if group.classic is not None else None
    return GroupHead(
        group.group, "Classic", "Stable" if members else "Empty", None, assignor, None, None, len(members)
    )


def consumer_state(state: ConsumerState) -> str:
    """Return the state of a group of the consumer protocol (KIP-848)."""
    if not state.members:
        return "Empty"
    if state.target_epoch < state.epoch:
        return "Assigning"
    epochs = {state.current[member].member_epoch for member in state.members if member in state.current}
    return "Stable" if epochs == {state.epoch} else "Reconciling"


def members_of(group: GroupHistory, names: TopicNames) -> GroupMembers:
    """Return a group with its members; `names` gives topics by their ids."""
    if group.consumer is not None:
        state = group.consumer
        rows = [consumer_member_row(member_id, state, names) for member_id in state.members]
    elif group.classic is not None:
        rows = [classic_row(member, group.classic.protocol_type) for member in group.classic.members]
    else:
        rows = []
    return GroupMembers(head_of(group), rows)


def classic_row(member: MemberMetadata, kind: str) -> MemberRow:
    past = PastMember.of_classic(member, kind)
    who = (past.member_id, past.instance_id, past.host, past.client_id)
    count = sum(map(len, past.assignment.values()))
    return MemberRow(*who, count, None, past.assignment, None, None, None)


def consumer_member_row(member_id: str, state: ConsumerState, names: TopicNames) -> MemberRow:
    member, current = state.members[member_id], state.current.get(member_id)
    assignment = named_assignment(current.assigned_partitions if current else [], names)
    return MemberRow(
        member_id,
        member.instance_id,
        member.client_host,
        member.client_id,
        sum(map(len, assignment.values())),
        current.member_epoch if current else None,
        assignment,
        state.target_epoch,
        named_assignment(state.targets.get(member_id, []), names),
        member.classic_member_metadata is None,
        member.rack_id,
    )


def partitions_of(groups: Iterable[GroupHistory], names: TopicNames) -> set[TopicPartition]:
    """Return the partitions that groups own or have committed offsets of."""
    found: set[TopicPartition] = set()
    for group in groups:
        found.update(group.offsets)
        for owner in members_of(group, names).owners():
            found.update(owner.partitions)
    return found


def offsets_of(
    group: GroupHistory, names: TopicNames, ranges: Mapping[TopicPartition, tuple[int, int]]
) -> GroupOffsets:
    """Return a group with its partitions; `ranges` gives their first and end offsets."""
    committed = {
        partition: Committed(commit.offset, commit.leader_epoch, commit.metadata)
        for partition, commit in group.offsets.items()
        if commit.offset is not None
    }
    ends = {partition: end for partition, (_, end) in ranges.items()}
    return GroupOffsets(head_of(group), partition_rows(members_of(group, names).owners(), committed, ends))
