"""MetadataLog: the directory `__cluster_metadata-0`, in which every decision of the controller stands first.

It is an ordinary log of record batches in the layout of Apache Kafka in KRaft mode, so that Kafka's own
tools read it:

    00000000000000000000.log, .index, .timeindex    the segment; values as in `metadata_records`
    quorum-state                                    JSON: who leads in which epoch
    leader-epoch-checkpoint, partition.metadata     as for any replica

Each start of the controller is a term: one epoch higher than any before, opened by a LeaderChange control
record. A batch is one decision, whole or not at all: it is on the disk before `append` returns, and one
that a crash cut short is cut off when the log is opened. Damage before the end is not survived by cutting,
which would forget topics whose data is still there: the log is refused.
"""

from __future__ import annotations

import json
import os
from struct import Struct
from typing import TYPE_CHECKING, Any

from kcli.broker.metadata_image import InvalidMetadata, MetadataBatch
from kcli.protocol.control_records import ControlRecordType, control_batch
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.metadata_records import MetadataRecord, decode_metadata_record, encode_metadata_record
from kcli.protocol.record_batch import HEADER_SIZE, CorruptRecord, RecordBatch, RecordBatchBuilder
from kcli.storage.checkpoints import write_atomically, write_partition_metadata
from kcli.storage.leader_epochs import LeaderEpochs
from kcli.storage.log_config import LogConfig
from kcli.storage.log_paths import (
    LOG_SUFFIX,
    METADATA_TOPIC,
    PARTITION_METADATA,
    segment_path,
    sync_directory,
)
from kcli.storage.log_segment import LogSegment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

METADATA_TOPIC_ID = (1).to_bytes(16, "big")
QUORUM_STATE = "quorum-state"

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
        self, directory: str, segment: LogSegment, *, node_id: int, wall_ms: Callable[[], int]
    ) -> None:
        self.directory = directory
        self.epoch = 0
        self.end_offset = 0
        self._segment = segment
        self._node_id = node_id
        self._wall_ms = wall_ms
        self._leader_epochs = LeaderEpochs(directory)
        self._is_failed = False
        self._batches: list[MetadataBatch] = []

    @classmethod
    def open(
        cls, log_directory: str, *, node_id: int, wall_ms: Callable[[], int], report: Callable[[str], None]
    ) -> MetadataLog:
        """Open the metadata log below a log directory, or make it.

        `report` gets a line about a last batch that had to be cut off. Raises `InvalidMetadata` for a log
        that is damaged before its end, `DecodeError` for records it does not know, and `OSError`.
        """
        directory = f"{log_directory}/{METADATA_TOPIC}-0"
        path = segment_path(directory, 0, LOG_SUFFIX)
        if os.path.exists(path):
            segment = LogSegment.open(directory, 0, _CONFIG, now_ms=wall_ms(), report=report)
            _refuse_inner_damage(path)
        else:
            os.makedirs(directory, exist_ok=True)
            segment = LogSegment.create(directory, 0, _CONFIG, now_ms=wall_ms(), report=report)
        if not os.path.exists(f"{directory}/{PARTITION_METADATA}"):
            write_partition_metadata(directory, METADATA_TOPIC_ID)
        log = cls(directory, segment, node_id=node_id, wall_ms=wall_ms)
        log._leader_epochs.load(report)
        log._recover(report)
        sync_directory(directory)
        sync_directory(log_directory)
        return log

    def replay(self) -> Iterator[MetadataBatch]:
        """Yield what the log held when it was opened, each batch once."""
        batches, self._batches = self._batches, []
        yield from batches

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
        self._segment.finish()
        self._segment.close_handlers()

    def _write(self, batch: bytearray, *, count: int) -> None:
        if self._is_failed:
            raise MetadataLogFailed(f"the metadata log has failed: {self.directory}")
        self._segment.append(batch, [RecordBatch(batch)])
        self.end_offset += count

    def _sync(self) -> None:
        try:
            os.fsync(self._segment.records.handle.descriptor)
        except OSError as error:
            self._is_failed = True
            raise MetadataLogFailed(f"cannot sync the metadata log: {error}") from error

    def _recover(self, report: Callable[[str], None]) -> None:
        """Read all that is there into `_batches`, and cut off what a crash left of a last batch."""
        cut = self._segment.recover(self._read)
        if cut:
            report(f"cut {cut} bytes of an unfinished batch from the metadata log: `{self.directory}`")

    def _read(self, batch: object) -> None:
        if not isinstance(batch, RecordBatch) or batch.base_offset != self.end_offset:
            raise InvalidMetadata(f"the metadata log has a gap at offset {self.end_offset}")
        records: list[MetadataRecord] = []
        if not batch.is_control:
            records = [decode_metadata_record(record.value or b"") for record in batch.records()]
        self._batches.append(MetadataBatch(batch.last_offset, batch.partition_leader_epoch, records))
        self.end_offset = batch.next_offset
        self.epoch = max(self.epoch, batch.partition_leader_epoch)


def _refuse_inner_damage(path: str) -> None:
    """Raise `InvalidMetadata` if a whole batch stands behind a damaged one."""
    with open(path, "rb") as file:
        data = file.read()
    position = 0
    while (size := _size_of_batch_at(data, position)) is not None:
        position += size
    for later in range(position + 1, len(data) - HEADER_SIZE + 1):
        if data[later + _MAGIC_OFFSET] == 2 and _size_of_batch_at(data, later) is not None:
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
