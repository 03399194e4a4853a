"""WriteTxnMarkers: the ends of transactions, for the partitions that this node leads (KIP-98).

* Coordinators of kcli reach each other by `LeaderEndPoint`; this API serves `kafka-transactions.sh abort`,
  `kcli transactions abort`, and other tools that end a hanging transaction.
* A request for very many partitions lets other requests run between them.
* `MarkerWriter` says which partition gets which error. A refused request has its error in every row.
* Without a producer id (-1) or an epoch (-1) nothing is written, and every row is UNKNOWN_SERVER_ERROR, as in
  Kafka. Other negative ids are nobody's: their marker is written and ends nothing.
* Versions 0 and 1 mean transaction version 0: the marker has the current epoch of the producer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.broker.network.authorization import authorize_cluster, is_cluster_authorized
from kcli.broker.transactions.marker_writer import TURN_PARTITIONS
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from kcli.protocol.records.record import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kcli.security.acl import Operation

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.transactions.marker_writer import DelayedMarkers
    from kcli.protocol.messages.write_txn_markers import WriteTxnMarkersRequest


def write_txn_markers(
    request: WriteTxnMarkersRequest, context: RequestContext
) -> WriteTxnMarkersResponse | DelayedMarkers | Coroutine[Any, Any, WriteTxnMarkersResponse]:
    """Write a marker to each partition; the response waits for the replicas."""
    if not is_cluster_authorized(context, Operation.ALTER):
        authorize_cluster(context, Operation.CLUSTER_ACTION)
    if any(
        marker.producer_id == NO_PRODUCER_ID or marker.producer_epoch == NO_PRODUCER_EPOCH
        for marker in request.markers
    ):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "a marker needs a producer id and an epoch")
    writer = context.node.marker_writer
    count = sum(len(topic.partition_indexes) for marker in request.markers for topic in marker.topics)
    if count > TURN_PARTITIONS:
        return writer.written(request.markers, in_turns=True)
    return writer.write(request.markers)


def failed_write_txn_markers(request: WriteTxnMarkersRequest, error: KafkaError) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=error.code)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )
