"""MetadataLog: the directory `__cluster_metadata-0`, in which every decision of the controller stands first.

It is an ordinary log of record batches in the layout of Apache Kafka in KRaft mode, so that Kafka's own
tools read it:

    00000000000000000000.log, .index, .timeindex    a segment; values as in `metadata_records`
    00000000000000007822-0000000005.checkpoint      a snapshot, see `metadata_snapshot`
    quorum-state                                    JSON: who leads in which epoch
    leader-epoch-checkpoint, partition.metadata     as for any replica

Each start of the controller is a term: one epoch higher than any before, opened by a LeaderChange control
record. When the log has grown long, a snapshot takes its place before the term begins, so a start reads
little however old the cluster is. A batch is one decision, whole or not at all: it is on the disk before
`append` returns, and one that a crash cut short is cut off when the log is opened. Damage before the end is
not survived by cutting, which would forget topics whose data is still there: the log is refused.
"""

from __future__ import annotations

import json
import os
from struct import Struct
from typing import TYPE_CHECKING, Any

from kcli.broker.metadata_replay import InvalidMetadata, MetadataBatch
from kcli.broker.metadata_snapshot import InvalidSnapshot, SnapshotId, decode_snapshot, encode_snapshot
from kcli.protocol.control_records import ControlRecordType, control_batch
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal_topics import METADATA_TOPIC
from kcli.protocol.metadata_records import MetadataRecord, decode_metadata_record, encode_metadata_record
from kcli.protocol.record_batch import HEADER_SIZE, CorruptRecord, RecordBatch, RecordBatchBuilder
from kcli.storage.checkpoints import write_atomically, write_partition_metadata
from kcli.storage.leader_epochs import LeaderEpochs
from kcli.storage.log_config import LogConfig
from kcli.storage.log_paths import (
    LOG_SUFFIX,
    PARTITION_METADATA,
    offset_from_name,
    segment_path,
    sync_directory,
)
from kcli.storage.log_segment import LogSegment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kcli.broker.metadata_image import MetadataImage

METADATA_TOPIC_ID = (1).to_bytes(16, "big")
QUORUM_STATE = "quorum-state"
COMPACTION_BYTES = 1 << 20
"""A log no longer than this, or than two snapshots, is not compacted."""

_MAGIC_OFFSET = 16
_CONFIG = LogConfig()
# Version, leader, voters (one: voter, no tags), granting voters (the same), no tags.
_LEADER_CHANGE = Struct(">hibibbibb")


class MetadataLogFailed(KafkaError):
    """The metadata log cannot be written any more; no decision can be taken until the next start."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class MetadataLog:
    """The metadata log of one cluster, open for appending. Make one with `open`."""

    def __init__(
        self, directory: str, *, node_id: int, wall_ms: Callable[[], int], report: Callable[[str], None]
    ) -> None:
        self.directory = directory
        self.epoch = 0
        self.end_offset = 0
        self._node_id = node_id
        self._wall_ms = wall_ms
        self._report = report
        self._leader_epochs = LeaderEpochs(directory)
        self._segments: list[LogSegment] = []
        self._snapshot: SnapshotId | None = None
        self._snapshot_bytes = 0
        self._batches: list[MetadataBatch] = []
        self._is_failed = False

    @classmethod
    def open(
        cls, log_directory: str, *, node_id: int, wall_ms: Callable[[], int], report: Callable[[str], None]
    ) -> MetadataLog:
        """Open the metadata log below a log directory, or make it.

        `report` gets a line about a last batch that had to be cut off. Raises `InvalidMetadata` for a log
        that is damaged before its end, `DecodeError` for records it does not know, and `OSError`.
        """
        directory = f"{log_directory}/{METADATA_TOPIC}-0"
        os.makedirs(directory, exist_ok=True)
        log = cls(directory, node_id=node_id, wall_ms=wall_ms, report=report)
        log._leader_epochs.load(report)
        log._load_snapshot()
        log._load_segments()
        if not os.path.exists(f"{directory}/{PARTITION_METADATA}"):
            write_partition_metadata(directory, METADATA_TOPIC_ID)
        sync_directory(directory)
        sync_directory(log_directory)
        return log

    def replay(self) -> Iterator[MetadataBatch]:
        """Yield what the log held when it was opened, each batch once, a snapshot as one batch."""
        batches, self._batches = self._batches, []
        yield from batches

    def compact(self, image: MetadataImage) -> None:
        """Put a snapshot of `image`, which is all of the log, in its place if the log is long.

        Raises `OSError`; the log is whole then, with the snapshot or without.
        """
        size = sum(segment.size for segment in self._segments)
        if size <= max(COMPACTION_BYTES, 2 * self._snapshot_bytes):
            return
        self._snapshot = SnapshotId(self.end_offset, image.epoch)
        data = encode_snapshot(image, now_ms=self._wall_ms())
        write_atomically(f"{self.directory}/{self._snapshot.file_name}", data)
        self._snapshot_bytes = len(data)
        self._begin_at_snapshot(self._snapshot)

    def begin_term(self) -> int:
        """Begin the next epoch and return it. The log is written only in a term. Raises `OSError`."""
        epoch = max(self.epoch, _read_quorum_epoch(self.directory)) + 1
        _write_quorum_state(self.directory, node_id=self._node_id, epoch=epoch)
        self.epoch = epoch
        self._leader_epochs.assign(epoch, self.end_offset)
        node = self._node_id
        value = _LEADER_CHANGE.pack(0, node, 2, node, 0, 2, node, 0, 0)
        batch = control_batch(
            ControlRecordType.LEADER_CHANGE,
            value,
            timestamp=self._wall_ms(),
            base_offset=self.end_offset,
            leader_epoch=epoch,
        )
        # Nothing rests on this record, so it may become durable together with the first decision.
        self._write(batch, count=1)
        return epoch

    def append(self, records: Sequence[MetadataRecord]) -> int:
        """Write one decision and return the offset of its last record. It is durable then.

        After an `OSError` while writing, nothing of it is left. Raises `MetadataLogFailed` once the log
        could not be synced: what the disk holds is not known any more.
        """
        builder = RecordBatchBuilder(base_offset=self.end_offset, leader_epoch=self.epoch)
        now_ms = self._wall_ms()
        for record in records:
            builder.append(now_ms, None, encode_metadata_record(record))
        self._write(builder.build(), count=len(records))
        self._sync()
        return self.end_offset - 1

    def close(self) -> None:
        """Finish the indexes and let go of the files. Raises `OSError`."""
        for segment in self._segments:
            segment.finish()
            segment.close_handlers()

    def _write(self, batch: bytearray, *, count: int) -> None:
        if self._is_failed:
            raise MetadataLogFailed(f"the metadata log has failed: {self.directory}")
        self._segments[-1].append(batch, [RecordBatch(batch)])
        self.end_offset += count

    def _sync(self) -> None:
        try:
            os.fsync(self._segments[-1].records.handle.descriptor)
        except OSError as error:
            self._is_failed = True
            raise MetadataLogFailed(f"cannot sync the metadata log: {error}") from error

    def _load_snapshot(self) -> None:
        """Read the newest snapshot that is whole."""
        found = filter(None, map(SnapshotId.parse, os.listdir(self.directory)))
        for snapshot_id in sorted(found, reverse=True):
            with open(f"{self.directory}/{snapshot_id.file_name}", "rb") as file:
                data = file.read()
            try:
                self._batches.append(decode_snapshot(data, snapshot_id))
            except InvalidSnapshot as error:
                self._report(error.message)
                continue
            self._snapshot, self._snapshot_bytes = snapshot_id, len(data)
            self.epoch = snapshot_id.epoch
            return

    def _load_segments(self) -> None:
        """Read the segments, and cut off what a crash left of a last batch."""
        names = [name for name in os.listdir(self.directory) if name.endswith(LOG_SUFFIX)]
        offsets = sorted(offset for name in names if (offset := offset_from_name(name)) is not None)
        start = self._snapshot.end_offset if self._snapshot is not None else 0
        if not offsets:
            self.end_offset = start
            self._segments.append(self._new_segment(start))
            return
        if offsets[0] > start:
            raise InvalidMetadata(
                f"the metadata log begins at offset {offsets[0]}, what was before is missing"
            )
        self.end_offset = offsets[0]
        for offset in offsets:
            self._load_segment(offset, is_last=offset == offsets[-1])
        if self._snapshot is not None and self.end_offset < self._snapshot.end_offset:
            self._begin_at_snapshot(self._snapshot)

    def _load_segment(self, base_offset: int, *, is_last: bool) -> None:
        _refuse_inner_damage(segment_path(self.directory, base_offset, LOG_SUFFIX), is_last=is_last)
        segment = LogSegment.open(
            self.directory, base_offset, _CONFIG, now_ms=self._wall_ms(), report=self._report
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
        if self._snapshot is not None and batch.base_offset < self._snapshot.end_offset:
            return
        records: list[MetadataRecord] = []
        if not batch.is_control:
            records = [decode_metadata_record(record.value or b"") for record in batch.records()]
        self._batches.append(MetadataBatch(batch.last_offset, batch.partition_leader_epoch, records))

    def _new_segment(self, base_offset: int) -> LogSegment:
        return LogSegment.create(
            self.directory, base_offset, _CONFIG, now_ms=self._wall_ms(), report=self._report
        )

    def _begin_at_snapshot(self, snapshot: SnapshotId) -> None:
        """Go on in a new segment behind the snapshot, and drop everything that it stands for."""
        former, self._segments = self._segments, [self._new_segment(snapshot.end_offset)]
        self.end_offset = snapshot.end_offset
        self._leader_epochs.truncate_from_start(snapshot.end_offset)
        sync_directory(self.directory)
        gone = [path for each in former for path in each.mark_deleted()]
        for name in os.listdir(self.directory):
            other = SnapshotId.parse(name)
            if other is not None and other != snapshot:
                gone.append(f"{self.directory}/{name}")
        for path in gone:
            os.remove(path)


def _refuse_inner_damage(path: str, *, is_last: bool) -> None:
    """Raise `InvalidMetadata` if a whole batch, or another segment, stands behind a damaged batch."""
    with open(path, "rb") as file:
        data = file.read()
    position = 0
    while (size := _size_of_batch_at(data, position)) is not None:
        position += size
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


def _size_of_batch_at(data: bytes, position: int) -> int | None:
    """Return the size of the batch at `position`, None if there is none that is whole and sound."""
    try:
        batch = RecordBatch(data, position)
    except CorruptRecord:
        return None
    return batch.size_in_bytes if batch.is_valid_crc() else None


def _read_quorum_epoch(directory: str) -> int:
    """Return the epoch that the quorum state tells, 0 if it tells none."""
    try:
        with open(f"{directory}/{QUORUM_STATE}", encoding="utf-8") as file:
            return int(json.load(file)["leaderEpoch"])
    except (OSError, ValueError, KeyError, TypeError):
        # The log's own batches tell their epochs as well; this file only bridges a term without any.
        return 0


def _write_quorum_state(directory: str, *, node_id: int, epoch: int) -> None:
    state: dict[str, Any] = {
        "clusterId": "",
        "leaderId": node_id,
        "leaderEpoch": epoch,
        "votedId": -1,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": node_id}],
        "data_version": 0,
    }
    write_atomically(f"{directory}/{QUORUM_STATE}", json.dumps(state, separators=(",", ":")).encode())
