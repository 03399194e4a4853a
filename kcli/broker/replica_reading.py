"""Reading the replicas of a node for a fetch, in order and within one budget; errors become rows.

Followers read from the leader, up to the end of its log. Consumers read below the high watermark, from any
replica if they know that there are several, and a leader may tell them of a nearer one (KIP-392).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.broker import partition_reading
from kcli.broker.fetch_data import FetchedPartition
from kcli.broker.replica_selector import preferred_replica
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.broker.fetch_data import FetchPartition
    from kcli.broker.replica_manager import ReplicaManager
    from kcli.storage.log.log_read import Isolation

CONSUMER_ID = -1
_SAY_LEADER = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class Reader(NamedTuple):
    """Who reads: a follower by its node id, or a consumer, and how far. `rack` is where a consumer is."""

    isolation: Isolation
    replica_id: int = CONSUMER_ID
    broker_epoch: int = -1
    from_leader_only: bool = True
    each_min_one: bool = False
    rack: str = ""


def read_replicas(
    manager: ReplicaManager, wanted: Iterable[FetchPartition], reader: Reader, max_bytes: int
) -> list[FetchedPartition]:
    """Read partitions in order, within one budget of `max_bytes`.

    The first partition that has anything gives at least one whole batch, with `each_min_one` every partition
    does; otherwise a batch that does not fit is left out.
    """
    rows = []
    left, min_one = max_bytes, True
    for request in wanted:
        row = _read(manager, request, reader, min(request.max_bytes, left), min_one)
        rows.append(row)
        if row.size:
            min_one = reader.each_min_one
            left = max(0, left - row.size)
    return rows


def _read(
    manager: ReplicaManager, request: FetchPartition, reader: Reader, max_bytes: int, min_one: bool
) -> FetchedPartition:
    topic = request.topic
    if topic is None:
        return FetchedPartition(request, ErrorCode.UNKNOWN_TOPIC_ID)
    try:
        partition = manager.partition(topic, request.index)
        if request.topic_id not in (ZERO_UUID, partition.topic_id):
            return FetchedPartition(request, ErrorCode.INCONSISTENT_TOPIC_ID)
        epoch = request.current_leader_epoch
        if reader.from_leader_only:
            partition.check_leader(epoch)
        else:
            partition.check_epoch(epoch)
        if reader.replica_id >= 0:
            partition.check_follower(reader.replica_id, reader.broker_epoch, epoch)
        elif reader.rack:
            preferred = preferred_replica(manager, partition, request.fetch_offset, reader.rack)
            if preferred is not None:
                return _elsewhere(request, preferred, partition.log.high_watermark)
        row = partition_reading.read(
            partition, request, isolation=reader.isolation, max_bytes=max_bytes, min_one=min_one
        )
        if reader.replica_id >= 0 and row.diverging is None:
            partition.follower_fetched(
                reader.replica_id,
                request.fetch_offset,
                log_start_offset=request.log_start_offset,
                broker_epoch=reader.broker_epoch,
            )
        return row
    except KafkaError as error:
        row = FetchedPartition(request, error.code)
        if error.code in _SAY_LEADER:
            row.current_leader = manager.current_leader(topic, request.index)
        return row


def _elsewhere(request: FetchPartition, node_id: int, high_watermark: int) -> FetchedPartition:
    """Return the row that sends a consumer to another replica."""
    row = FetchedPartition(request)
    row.preferred_read_replica = node_id
    row.high_watermark = high_watermark
    return row
