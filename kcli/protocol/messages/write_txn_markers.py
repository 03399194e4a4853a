"""WriteTxnMarkers (key 27): write the markers that end transactions in partitions (KIP-98).

Transaction coordinators send it to the leaders of a transaction's partitions, and `kafka-transactions.sh
abort` to one of a hanging transaction. Version 2 adds the transaction version (KIP-1228). Apache Kafka 4.0
dropped version 0.
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import boolean, i8, i16, i32, i64, ignorable, message, string, struct, v


@struct
class WritableTxnMarkerTopic:
    name: string
    partition_indexes: list[i32]


@struct
class WritableTxnMarker:
    producer_id: i64
    producer_epoch: i16
    transaction_result: boolean
    """True commits, False aborts."""
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: i32
    transaction_version: Annotated[i8, v("2+"), ignorable] = 0


@message(key=27, versions="0-2", flexible="1+")
class WriteTxnMarkersRequest:
    markers: list[WritableTxnMarker]


@struct
class WritableTxnMarkerPartitionResult:
    partition_index: i32
    error_code: i16 = 0


@struct
class WritableTxnMarkerTopicResult:
    name: string
    partitions: list[WritableTxnMarkerPartitionResult]


@struct
class WritableTxnMarkerResult:
    producer_id: i64
    topics: list[WritableTxnMarkerTopicResult]


@message(key=27, versions="0-2", flexible="1+")
class WriteTxnMarkersResponse:
    markers: list[WritableTxnMarkerResult]
