"""MetadataLog: the log in `__cluster_metadata-0`, with every decision of the controller.

Its layout is that of Apache Kafka in KRaft mode, so Kafka's tools read it:

    00000000000000000000.log, .index, .timeindex    a segment; values as in `metadata_records`
    00000000000000007822-0000000005.checkpoint      a snapshot, see `metadata_snapshot`
    quorum-state                                    JSON: the leader of an epoch
    leader-epoch-checkpoint, partition.metadata     as for any replica

Each controller begins an epoch higher than any before, with a LeaderChange control record. A snapshot
replaces a long log, so a start reads little. A batch is one decision, whole or not at all: it is on the disk
before `append` returns, and opening the log cuts off a batch that a crash left unfinished. A log that is
damaged before its end is refused: cutting it would forget topics whose data still exists.

Every node has a copy (`metadata_copies`); the controller writes its batches into all of them. Logs that agree
on the epoch of an offset agree on all offsets below.
"""

from __future__ import annotations

import json
import os
from struct import Struct
from typing import TYPE_CHECKING, Any

from kcli.broker.metadata.metadata_damage import refuse_inner_damage
from kcli.broker.metadata.metadata_replay import InvalidMetadata, MetadataBatch
from kcli.broker.metadata.metadata_snapshot import (
    InvalidSnapshot,
    SnapshotId,
    decode_snapshot,
    encode_snapshot,
    quorum_records,
)
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.metadata_records import (
    NEWEST_METADATA_VERSION,
    MetadataRecord,
    decode_metadata_record,
    encode_metadata_record,
)
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.control_records import ControlRecordType, control_batch
from kcli.protocol.topics import METADATA_TOPIC
from kcli.storage import disk
from kcli.storage.checkpoints import (
    CheckpointError,
    read_partition_metadata,
    write_atomically,
    write_partition_metadata,
)
from kcli.storage.log.leader_epochs import LeaderEpochs
from kcli.storage.log.log_config import LogConfig
from kcli.storage.log.log_segment import LogSegment
from kcli.storage.log_paths import LOG_SUFFIX, offset_from_name, segment_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.protocol.internal.security_records import SecurityRecord

QUORUM_STATE = "quorum-state"
_OTHERS = 0o077


def read_quorum_epoch(directory: str) -> int:
    """Return the epoch in the quorum state, 0 without a readable one. Raises `OSError` for a shortage."""
    try:
        return int(json.loads(disk.read_file(f"{directory}/{QUORUM_STATE}"))["leaderEpoch"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        if disk.is_shortage(error):
            raise
        # Batches have their epochs, too: the file only matters for an epoch without batches.
        return 0


METADATA_TOPIC_ID = (1).to_bytes(16, "big")
COMPACTION_BYTES = 1 << 20
"""A log that is shorter than this, or than two snapshots, is not compacted."""

_CONFIG = LogConfig()
# Version and leader; voters and granting voters follow, each without tags.
_LEADER_CHANGE = Struct(">hi")
_VOTER = Struct(">ib")


class MetadataLogFailed(KafkaError):
    """The metadata log cannot be written until the next start."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class MetadataLog:
    """One copy of the metadata log, open for appending. Make it with `open`."""

    def __init__(
        self, directory: str, *, node_id: int, wall_ms: Callable[[], int], report: Callable[[str], None]
    ) -> None:
        self.directory = directory
        self.epoch = 0
        self.end_offset = 0
        self.node_id = node_id
        self._wall_ms = wall_ms
        self._report = report
        self._leader_epochs = LeaderEpochs(directory)
        self._segments: list[LogSegment] = []
        self._snapshot: SnapshotId | None = None
        self._snapshot_bytes = 0
        # What `open` has read, until it is replayed or the log is written to.
        self._loaded: list[MetadataBatch | bytes] | None = []
        self._is_failed = False
        self.is_private = False
        """Whether nobody but the owner of its files may read them, because they hold credentials."""

    @classmethod
    def open(
        cls, log_directory: str, *, node_id: int, wall_ms: Callable[[], int], report: Callable[[str], None]
    ) -> MetadataLog:
        """Open the metadata log in a log directory, or make it.

        `report` gets a line about an unfinished batch that was cut off. Raises `InvalidMetadata` for a log
        that is damaged before its end, `DecodeError` for unknown records, and `OSError`.
        """
        directory = f"{log_directory}/{METADATA_TOPIC}-0"
        disk.make_directory(directory)
        is_private = not os.stat(directory).st_mode & _OTHERS
        log = cls(directory, node_id=node_id, wall_ms=wall_ms, report=report)
        log._leader_epochs.load(report)
        log._load_snapshot()
        log._load_segments()
        if _named_topic(directory, report) != METADATA_TOPIC_ID:
            write_partition_metadata(directory, METADATA_TOPIC_ID)
        disk.sync_path(directory)
        disk.sync_path(log_directory)
        if is_private:
            log.make_private()
        return log

    def make_private(self) -> None:
        """Take the directory and its files from everybody but their owner. Raises `OSError`."""
        if not self.is_private:
            os.chmod(self.directory, 0o700)
            for entry in os.scandir(self.directory):
                os.chmod(entry.path, 0o600)
            self.is_private = True

    def _keep_private(self, *paths: str) -> None:
        """Give new files the mode of the others. Until then the directory keeps everybody out."""
        for path in paths if self.is_private else ():
            os.chmod(path, 0o600)

    def replay(self) -> Iterator[MetadataBatch]:
        """Yield the batches, a snapshot as one. Raises `OSError`, `InvalidSnapshot` and `DecodeError`."""
        loaded, self._loaded = self._loaded, None
        for batch in self._load_again() if loaded is None else loaded:
            yield batch if isinstance(batch, MetadataBatch) else decoded(batch)

    def _load_again(self) -> Iterator[MetadataBatch | bytes]:
        snapshot = self.snapshot()
        if snapshot is not None:
            yield decode_snapshot(snapshot[1], snapshot[0])
        yield from self.batches_from(0 if snapshot is None else snapshot[0].end_offset)

    @property
    def size(self) -> int:
        """The bytes of all batches, without the snapshot."""
        return sum(segment.size for segment in self._segments)

    @property
    def start_offset(self) -> int:
        """The first offset with a batch; earlier ones are in the snapshot."""
        return self._segments[0].base_offset

    @property
    def is_long(self) -> bool:
        """Whether a snapshot should replace the log."""
        return self.size > max(COMPACTION_BYTES, 2 * self._snapshot_bytes)

    def compact(self, image: MetadataImage) -> None:
        """Replace the log by a snapshot of `image`, its whole content, if it is long.

        After an `OSError` the log is still complete, with the snapshot or without.
        """
        if self.is_long:
            self.restart_from(image)

    def restart_from(self, image: MetadataImage) -> None:
        """Replace everything in the log by a snapshot of `image`. Raises `OSError` as `compact` does."""
        snapshot = SnapshotId(image.offset + 1, image.epoch)
        self.install(snapshot, encode_snapshot(image, now_ms=self._wall_ms()))

    def install(self, snapshot: SnapshotId, data: bytes, *, sync: bool = True) -> None:
        """Replace everything in the log by a snapshot. Raises `OSError` as `compact` does."""
        self._loaded = None
        path = f"{self.directory}/{snapshot.file_name}"
        write_atomically(path, data, sync=sync)
        self._keep_private(path)
        self._snapshot, self._snapshot_bytes = snapshot, len(data)
        self._begin_at_snapshot(snapshot)
        self._leader_epochs.clear()
        self._leader_epochs.assign(snapshot.epoch, snapshot.end_offset)
        self.epoch = snapshot.epoch

    def snapshot(self) -> tuple[SnapshotId, bytes] | None:
        """Return the snapshot that the log continues, None if it has all batches."""
        if self._snapshot is None:
            return None
        return self._snapshot, disk.read_file(f"{self.directory}/{self._snapshot.file_name}")

    @property
    def next_epoch(self) -> int:
        """The next epoch: higher than any that this copy knows."""
        return max(self.epoch, read_quorum_epoch(self.directory)) + 1

    def begin_epoch(self, epoch: int | None = None, voters: Sequence[int] = ()) -> int:
        """Begin the next epoch, or a later one, and return it. Batches can be written only after this.

        `voters` are the nodes with a copy, by default this one. Raises `OSError`.
        """
        epoch = epoch or self.next_epoch
        voters = voters or (self.node_id,)
        self.note_epoch(epoch, leader=self.node_id, voters=voters)
        # Nothing depends on this record, so it may become durable with the first decision.
        self.write(
            control_batch(
                ControlRecordType.LEADER_CHANGE,
                _leader_change(self.node_id, voters),
                timestamp=self._wall_ms(),
                base_offset=self.end_offset,
                leader_epoch=epoch,
            )
        )
        return epoch

    def note_epoch(self, epoch: int, *, leader: int, voters: Sequence[int]) -> None:
        """Write the leader of an epoch and its voters, durably if this node leads. Raises `OSError`."""
        state: dict[str, Any] = {
            "clusterId": "",
            "leaderId": leader,
            "leaderEpoch": epoch,
            "votedId": -1,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter} for voter in voters],
            "data_version": 0,
        }
        data = json.dumps(state, separators=(",", ":")).encode()
        path = f"{self.directory}/{QUORUM_STATE}"
        write_atomically(path, data, sync=leader == self.node_id)
        self._keep_private(path)

    def append(
        self,
        records: Sequence[MetadataRecord | SecurityRecord],
        metadata_version: int = NEWEST_METADATA_VERSION,
    ) -> int:
        """Write one decision durably and return the offset of its last record.

        After an `OSError` while writing, nothing of it is left. Raises `MetadataLogFailed` if the log could
        not be synced: the content of the disk is unknown then.
        """
        self.write(self.encode(records, metadata_version))
        self.sync()
        return self.end_offset - 1

    def encode(self, records: Sequence[MetadataRecord | SecurityRecord], metadata_version: int) -> bytearray:
        """Return the batch of one decision for the end of the log, at a level of `metadata.version`."""
        builder = RecordBatchBuilder(base_offset=self.end_offset, leader_epoch=self.epoch)
        now_ms = self._wall_ms()
        for record in records:
            builder.append(now_ms, None, encode_metadata_record(record, metadata_version))
        return builder.build()

    def write(self, batch: bytes | bytearray) -> None:
        """Write a batch that begins at the end of the log; raises as `append` does."""
        if self._is_failed:
            raise MetadataLogFailed(f"the metadata log has failed: {self.directory}")
        header = RecordBatch(batch)
        if header.base_offset != self.end_offset:
            raise InvalidMetadata(f"a batch at {header.base_offset} cannot follow {self.end_offset}")
        self._loaded = None
        # First what may fail without a trace in the log: an epoch without batches misleads nobody.
        if header.partition_leader_epoch > self.epoch:
            self._leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
        self._segments[-1].append(batch, [header])
        self.end_offset = header.next_offset
        self.epoch = max(self.epoch, header.partition_leader_epoch)

    def sync(self) -> None:
        """Sync the log to disk. Raises `MetadataLogFailed`."""
        try:
            disk.sync(self._segments[-1].records.handle.descriptor)
        except OSError as error:
            self._is_failed = True
            raise MetadataLogFailed(f"cannot sync the metadata log: {error}") from error

    def close(self) -> None:
        """Finish the indexes and close the files. Raises `OSError`."""
        for segment in self._segments:
            segment.finish()
            segment.close_handlers()

    def batches_from(self, offset: int) -> Iterator[bytes]:
        """Yield the batches from the one at `offset` on. Raises `OSError`."""
        for segment in self._segments:
            for _, batch in segment.batches():
                if batch.magic == 2 and batch.base_offset >= offset:
                    yield bytes(memoryview(batch.buffer)[batch.position :][: batch.size_in_bytes])

    def agrees_until(self, other: MetadataLog) -> int:
        """Return the offset below which this log equals the other one (KIP-101, KIP-595).

        An epoch below all known ones of either log proves nothing: its offsets may be in a snapshot of a
        later epoch, with other records (class `ReplicatedLog`).
        """
        epoch, end = self._leader_epochs.latest_epoch, self.end_offset
        first_epoch = max(0, self._leader_epochs.first_epoch, other._leader_epochs.first_epoch)
        while epoch >= first_epoch:
            known, known_end = other._leader_epochs.end_offset_for(epoch, other.end_offset)
            own, own_end = self._leader_epochs.end_offset_for(known, self.end_offset)
            if known == own == epoch:
                return min(end, known_end)
            epoch, end = own, own_end
        return 0

    def follow(self, source: MetadataLog) -> None:
        """Make this copy hold what another one holds. Raises `OSError`."""
        if source.is_private:
            self.make_private()
        agreed = self.agrees_until(source)
        if min(agreed, self.end_offset) < max(self.start_offset, source.start_offset):
            snapshot = source.snapshot()
            if snapshot is None:
                self.restart()
            else:
                self.install(*snapshot, sync=False)
        elif agreed < self.end_offset:
            self.truncate(agreed)
        for batch in source.batches_from(self.end_offset):
            self.write(batch)

    def truncate(self, offset: int) -> None:
        """Cut off everything from `offset` on, because other copies do not have it. Raises `OSError`."""
        self._loaded = None
        self._segments[-1].truncate_to(offset, self._wall_ms())
        self._leader_epochs.truncate_from_end(offset)
        self.end_offset = offset
        self.epoch = max(self._leader_epochs.latest_epoch, 0)

    def restart(self) -> None:
        """Delete everything, because a copy that has all batches differs."""
        self._loaded = None
        self._snapshot, self._snapshot_bytes = None, 0
        self._begin_at(0)
        self._remove_snapshots(other_than=None)
        self._leader_epochs.clear()
        self.epoch = 0

    def _load_snapshot(self) -> None:
        """Read the newest whole snapshot."""
        found = filter(None, map(SnapshotId.parse, os.listdir(self.directory)))
        for snapshot_id in sorted(found, reverse=True):
            data = disk.read_file(f"{self.directory}/{snapshot_id.file_name}")
            try:
                self._note(decode_snapshot(data, snapshot_id))
            except InvalidSnapshot as error:
                self._report(error.message)
                continue
            self._snapshot, self._snapshot_bytes = snapshot_id, len(data)
            self.epoch = snapshot_id.epoch
            return

    def _load_segments(self) -> None:
        """Read the segments, and cut off an unfinished last batch."""
        names = [name for name in os.listdir(self.directory) if name.endswith(LOG_SUFFIX)]
        offsets = sorted(offset for name in names if (offset := offset_from_name(name)) is not None)
        start = self._snapshot.end_offset if self._snapshot is not None else 0
        if not offsets:
            self.end_offset = start
            self._segments.append(self._new_segment(start))
            return
        if offsets[0] > start:
            raise InvalidMetadata(
                f"the metadata log begins at offset {offsets[0]}, earlier batches are missing"
            )
        self.end_offset = offsets[0]
        for offset in offsets:
            self._load_segment(offset, is_last=offset == offsets[-1])
        if self._snapshot is not None and self.end_offset < self._snapshot.end_offset:
            self._begin_at_snapshot(self._snapshot)

    def _load_segment(self, base_offset: int, *, is_last: bool) -> None:
        refuse_inner_damage(segment_path(self.directory, base_offset, LOG_SUFFIX), is_last=is_last)
        segment = LogSegment.open(
            self.directory, base_offset, config=_CONFIG, now_ms=self._wall_ms(), report=self._report
        )
        self._segments.append(segment)
        cut = segment.recover(self._read)
        if cut:
            self._report(f"cut {cut} bytes of an unfinished batch from the metadata log: `{self.directory}`")

    def _read(self, batch: object) -> None:
        if not isinstance(batch, RecordBatch) or batch.base_offset != self.end_offset:
            raise InvalidMetadata(f"the metadata log has a gap at offset {self.end_offset}")
        self.end_offset = batch.next_offset
        self.epoch = max(self.epoch, batch.partition_leader_epoch)
        if self.epoch > self._leader_epochs.latest_epoch:
            self._leader_epochs.assign(self.epoch, batch.base_offset)
        if self._snapshot is not None and batch.base_offset < self._snapshot.end_offset:
            return
        self._note(bytes(memoryview(batch.buffer)[batch.position :][: batch.size_in_bytes]))

    def _note(self, batch: MetadataBatch | bytes) -> None:
        if self._loaded is not None:
            self._loaded.append(batch)

    def _new_segment(self, base_offset: int) -> LogSegment:
        segment = LogSegment.create(
            self.directory, base_offset, config=_CONFIG, now_ms=self._wall_ms(), report=self._report
        )
        self._keep_private(segment_path(self.directory, base_offset, LOG_SUFFIX))
        return segment

    def _begin_at_snapshot(self, snapshot: SnapshotId) -> None:
        """Continue in a new segment after the snapshot, and drop everything that the snapshot has."""
        self._begin_at(snapshot.end_offset)
        self._leader_epochs.truncate_from_start(snapshot.end_offset)
        self._remove_snapshots(other_than=snapshot)

    def _begin_at(self, offset: int) -> None:
        """Replace all segments by an empty one at `offset`."""
        former = self._segments
        kept = [segment for segment in former if segment.base_offset == offset]
        for segment in kept:
            segment.truncate_to(offset, self._wall_ms())
        self._segments = kept or [self._new_segment(offset)]
        self.end_offset = offset
        disk.sync_path(self.directory)
        for path in [path for each in former if each.base_offset != offset for path in each.mark_deleted()]:
            os.remove(path)

    def _remove_snapshots(self, *, other_than: SnapshotId | None) -> None:
        for name in os.listdir(self.directory):
            snapshot = SnapshotId.parse(name)
            if snapshot is not None and snapshot != other_than:
                os.remove(f"{self.directory}/{name}")


def _named_topic(directory: str, report: Callable[[str], None]) -> bytes | None:
    try:
        return read_partition_metadata(directory)
    except CheckpointError as error:
        report(f"written again: {error.message}")
        return None


def decoded(data: bytes) -> MetadataBatch:
    batch = RecordBatch(data)
    records: list[MetadataRecord | SecurityRecord] = []
    if not batch.is_control:
        records = [decode_metadata_record(record.value or b"") for record in batch.records()]
    return MetadataBatch(batch.last_offset, batch.partition_leader_epoch, records, quorum_records(batch))


def _leader_change(leader: int, voters: Sequence[int]) -> bytes:
    listed = bytes([len(voters) + 1]) + b"".join(_VOTER.pack(voter, 0) for voter in voters)
    return _LEADER_CHANGE.pack(0, leader) + listed + listed + b"\0"
