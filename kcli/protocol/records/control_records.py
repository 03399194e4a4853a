"""Control batches: one record for the log itself, which applications never see.

A control batch has attribute bit 5 set and holds one record. Its key is int16 version 0 and int16 type;
its value depends on the type. End markers of transactions (types 0 and 1, KIP-98) have int16 version 0
and int32 coordinator epoch, and their batch carries the transaction's producer. The other types belong to
the metadata quorum. Control records have offsets like any other.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.record import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID

if TYPE_CHECKING:
    from kcli.protocol.records.record import Record

_KEY = Struct(">hh")
_END_MARKER_VALUE = Struct(">hi")


class ControlRecordType(IntEnum):
    """The type of a control record. Readers skip records of an `UNKNOWN` type."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTxnMarker(NamedTuple):
    """The end of a transaction: `control_type` is ABORT or COMMIT."""

    control_type: ControlRecordType
    coordinator_epoch: int


class TransactionMarker(NamedTuple):
    """What a transaction's coordinator writes to each of its partitions: the end of the transaction.

    `transaction_version` 2 says that the coordinator has raised the producer's epoch for it (KIP-890).
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int = 0

    def batch(self, *, timestamp: int) -> bytearray:
        """Return the control batch, 78 bytes from offset 0."""
        control_type = ControlRecordType.COMMIT if self.is_commit else ControlRecordType.ABORT
        return end_txn_batch(
            EndTxnMarker(control_type, self.coordinator_epoch),
            timestamp=timestamp,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
        )


def control_batch(
    control_type: ControlRecordType,
    value: bytes,
    *,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    is_transactional: bool = False,
) -> bytearray:
    """Return a batch of one control record."""
    builder = RecordBatchBuilder(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=is_transactional,
        is_control=True,
    )
    builder.append(timestamp, _KEY.pack(0, control_type), value)
    return builder.build()


def end_txn_batch(
    marker: EndTxnMarker,
    *,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """Return the batch that ends a transaction of `producer_id` in one partition."""
    return control_batch(
        marker.control_type,
        _END_MARKER_VALUE.pack(0, marker.coordinator_epoch),
        timestamp=timestamp,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
    )


def parse_control_key(key: bytes | None) -> ControlRecordType:
    """Return the type in a control record's key; raise `CorruptRecord`.

    Versions above 0 are read as version 0: they may only add fields.
    """
    if key is None or len(key) < _KEY.size:
        raise CorruptRecord("the key of a control record is too short")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecord(f"a control record of version {version}")
    try:
        return ControlRecordType(number)
    except ValueError:
        return ControlRecordType.UNKNOWN


def parse_end_txn_marker(record: Record) -> EndTxnMarker:
    """Return the marker in a control record of type ABORT or COMMIT; raise `CorruptRecord`."""
    control_type = parse_control_key(record.key)
    if control_type not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        raise CorruptRecord(f"not the end of a transaction: control record {control_type.name}")
    if record.value is None or len(record.value) < _END_MARKER_VALUE.size:
        raise CorruptRecord("the end marker of a transaction is too short")
    version, coordinator_epoch = _END_MARKER_VALUE.unpack_from(record.value)
    if version < 0:
        raise CorruptRecord(f"an end marker of version {version}")
    return EndTxnMarker(control_type, coordinator_epoch)
