"""Markers in requests, and in logs."""

from __future__ import annotations

from typing import Any

from kcli.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersResponse,
)
from kcli.protocol.topics import TopicPartition, by_topic

PRODUCER = 7


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


def errors(response: Any) -> list[int]:
    """Return the errors of a response in the order of its rows."""
    return list(rows(response).values())
