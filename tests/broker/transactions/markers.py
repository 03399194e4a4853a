"""Transactions in the logs of partitions, and their markers in requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersResponse,
)
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.protocol.records.control_records import ControlRecordType, parse_end_txn_marker
from kcli.protocol.topics import TopicPartition, by_topic
from kcli.storage.log.log_read import Isolation
from tests.broker.records import batch

if TYPE_CHECKING:
    from kcli.broker.replication.partition import Partition

PRODUCER = 7
NOW_MS = 1_700_000_000_000


def writable_marker(
    *partitions: tuple[str, int],
    producer_id: int = PRODUCER,
    producer_epoch: int = 0,
    is_commit: bool = True,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
) -> WritableTxnMarker:
    """Return a marker of a request."""
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=is_commit,
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
            for name, indexes in by_topic(partitions).items()
        ],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )


def rows(response: WriteTxnMarkersResponse) -> dict[tuple[int, TopicPartition], int]:
    """Return the error of each partition of each producer."""
    return {
        (marker.producer_id, TopicPartition(topic.name, row.partition_index)): row.error_code
        for marker in response.markers
        for topic in marker.topics
        for row in topic.partitions
    }


def errors(response: WriteTxnMarkersResponse) -> list[int]:
    """Return the errors of a response in the order of its rows."""
    return list(rows(response).values())


def begin(
    partition: Partition,
    *values: bytes,
    producer_id: int = PRODUCER,
    producer_epoch: int = 0,
    sequence: int = 0,
) -> int:
    """Append a transactional batch, whose transaction counts as verified; return the offset behind it."""
    guard = partition.begin_guard(producer_id, producer_epoch, sequence, is_tv2=False, now_ms=NOW_MS)
    records = batch(
        *(values or (b"v",)),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        is_transactional=True,
    )
    validated = partition.log.validator.validate(bytearray(records), now_ms=NOW_MS)
    return partition.append_validated(validated, acks=1, now_ms=NOW_MS, guard=guard).last_offset + 1


def written_markers(partition: Partition) -> list[tuple[int, int, bool, int]]:
    """Return the markers in a log: producer id, producer epoch, whether it commits, coordinator epoch."""
    log = partition.log
    read = log.read(log.log_start_offset, 1 << 30, isolation=Isolation.LOG_END)
    found = []
    for each in [] if read.file_slice is None else iter_batches(read.file_slice.read()):
        if isinstance(each, RecordBatch) and each.is_control:
            (record,) = each.records()
            marker = parse_end_txn_marker(record)
            is_commit = marker.control_type == ControlRecordType.COMMIT
            found.append((each.producer_id, each.producer_epoch, is_commit, marker.coordinator_epoch))
    return found
