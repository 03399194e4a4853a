"""Control batches: end markers of transactions and the records of the metadata quorum."""

from __future__ import annotations

import pytest

from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.control_records import (
    ControlRecordType,
    EndTxnMarker,
    control_batch,
    end_txn_batch,
    parse_control_key,
    parse_end_txn_marker,
)
from kcli.protocol.records.record import Record


@pytest.mark.parametrize("control_type", [ControlRecordType.ABORT, ControlRecordType.COMMIT])
def test_the_end_of_a_transaction(control_type: ControlRecordType) -> None:
    marker = EndTxnMarker(control_type, 12)
    data = end_txn_batch(
        marker, timestamp=5, producer_id=1000, producer_epoch=2, base_offset=40, leader_epoch=3
    )
    batch = RecordBatch(data)
    assert batch.is_valid_crc()
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (1000, 2, -1)
    assert (batch.base_offset, batch.partition_leader_epoch, batch.count) == (40, 3, 1)
    (record,) = batch.records()
    assert record == Record(40, 5, bytes([0, 0, 0, control_type]), bytes.fromhex("0000 0000000c"))
    assert parse_control_key(record.key) is control_type
    assert parse_end_txn_marker(record) == marker


def test_a_record_of_the_quorum() -> None:
    batch = RecordBatch(control_batch(ControlRecordType.LEADER_CHANGE, b"message", timestamp=5))
    assert batch.is_control
    assert not batch.is_transactional
    (record,) = batch.records()
    assert parse_control_key(record.key) is ControlRecordType.LEADER_CHANGE
    assert record.value == b"message"
    with pytest.raises(CorruptRecord, match="not the end of a transaction"):
        parse_end_txn_marker(record)


def test_types_of_the_future_are_unknown_and_versions_of_the_future_readable() -> None:
    assert parse_control_key(bytes.fromhex("0000 0063")) is ControlRecordType.UNKNOWN
    assert parse_control_key(bytes.fromhex("0001 0001 ff")) is ControlRecordType.COMMIT


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x00"])
def test_keys_that_are_none_are_refused(key: bytes | None) -> None:
    with pytest.raises(CorruptRecord):
        parse_control_key(key)


@pytest.mark.parametrize("value", [None, b"\x00\x00\x00\x00\x00", b"\xff\xff\x00\x00\x00\x00"])
def test_markers_that_are_none_are_refused(value: bytes | None) -> None:
    with pytest.raises(CorruptRecord):
        parse_end_txn_marker(Record(0, 0, bytes(4), value))
