"""MarkerWriter: the end of transactions as markers in the partitions that this node leads.

A coordinator calls it through a `LeaderEndPoint`, or directly on its own node; admin tools send
WriteTxnMarkers. Each marker is an acks=all write. The response is there once every write is settled, and rows
of the same producer are merged, as in Kafka's `KafkaApis.handleWriteTxnMarkersRequest`.

| partition | error |
|---|---|
| not on this node, or its log directory has failed | UNKNOWN_TOPIC_OR_PARTITION |
| led by another node | NOT_LEADER_OR_FOLLOWER |
| of `__consumer_offsets`, and its coordinator loads or is elsewhere | NOT_LEADER_OR_FOLLOWER |
| not replicated within `request.timeout.ms`; the marker stays | REQUEST_TIMED_OUT |
| any other | that of the append |

A second marker is legal: it ends nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from trio.lowlevel import checkpoint

from kcli.broker.waiting.purgatory import DelayedOperation
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from kcli.protocol.records.control_records import TransactionMarker
from kcli.protocol.topics import GROUP_METADATA_TOPIC, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence

    from kcli.broker.coordinator.group_service import GroupRuntime
    from kcli.broker.replication.partition import Partition
    from kcli.broker.replication.replica_manager import ReplicaManager
    from kcli.protocol.messages.write_txn_markers import WritableTxnMarker

TURN_PARTITIONS = 64
"""The most partitions that are written in one turn of the event loop, where nothing else bounds them."""

_COORDINATOR_ERRORS = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""What a transaction coordinator does not expect of a partition; it looks up the leader again."""


class PartitionMarker:
    """A marker on its way into one partition, and the row of its outcome."""

    __slots__ = ("is_flushed", "key", "marker", "required_offset", "row")

    def __init__(
        self, key: TopicPartition, marker: TransactionMarker, row: WritableTxnMarkerPartitionResult
    ) -> None:
        self.key = key
        self.marker = marker
        self.row = row
        self.required_offset = -1
        """The offset behind the marker; -1 until it is written."""
        self.is_flushed = True
        """False until the marker is on disk, where `flush.messages` demands that."""

    def settle(self, manager: ReplicaManager) -> bool:
        """Write the outcome into the row; return whether there is one."""
        if self.required_offset < 0 or not self.is_flushed:
            return False
        try:
            code = manager.partition(*self.key).replication_error(self.required_offset)
        except KafkaError as error:
            code = error.code
        if code is None:
            return False
        self.row.error_code = code
        return True


class DelayedMarkers(DelayedOperation):
    """The response to markers that are not all settled; what is still pending in the end has timed out."""

    __slots__ = ("_groups_pending", "_is_parked", "_manager", "_pending", "response")

    def __init__(self, manager: ReplicaManager, response: WriteTxnMarkersResponse) -> None:
        super().__init__()
        self.response = response
        self._manager = manager
        self._pending: dict[Hashable, list[PartitionMarker]] = {}
        """By partition: a marker for very many of them is tried at each that changes."""
        self._groups_pending = 0
        self._is_parked = False

    @property
    def is_settled(self) -> bool:
        return not self._pending and not self._groups_pending

    def await_write(self, part: PartitionMarker) -> None:
        """Wait until a marker is written, on disk and replicated."""
        part.row.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._pending.setdefault(part.key, []).append(part)

    def await_group(self, reply: DelayedOperation, row: WritableTxnMarkerPartitionResult) -> None:
        """Wait for the reply of a group coordinator."""
        row.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._groups_pending += 1
        reply.waiter = partial(self._group_replied, reply, row)

    def _group_replied(self, reply: DelayedOperation, row: WritableTxnMarkerPartitionResult) -> None:
        self._groups_pending -= 1
        if self.ended:
            return
        row.error_code = as_partition_error(reply.finish())
        if self.is_settled and self._is_parked:
            self.purgatory.end(self)

    def failed(self, part: PartitionMarker, error: KafkaError) -> None:
        """Give a marker up that could not be written."""
        part.row.error_code = error.code
        self._keep(part.key, [each for each in self._pending.get(part.key, ()) if each is not part])

    def settle(self) -> bool:
        """Settle what can be settled; return whether nothing is pending."""
        for key in list(self._pending):
            self._settle_at(key)
        return self.is_settled

    def _settle_at(self, key: Hashable) -> None:
        manager = self._manager
        self._keep(key, [part for part in self._pending.get(key, ()) if not part.settle(manager)])

    def _keep(self, key: Hashable, pending: list[PartitionMarker]) -> None:
        if pending:
            self._pending[key] = pending
        else:
            self._pending.pop(key, None)

    def park(self, timeout_ms: int) -> None:
        self._is_parked = True
        self._manager.purgatory.park(self, self._pending, timeout_ms)

    def try_complete(self, key: Hashable) -> bool:
        self._settle_at(key)
        return self.is_settled

    def finish(self) -> WriteTxnMarkersResponse:
        self.settle()
        return self.response


class MarkerWriter:
    """Writes markers to the partitions of one node; `start_soon` starts a task of the node."""

    def __init__(
        self,
        replica_manager: ReplicaManager,
        groups: GroupRuntime,
        *,
        start_soon: Callable[[Callable[[], Awaitable[None]]], None],
    ) -> None:
        self._manager = replica_manager
        self._groups = groups
        self._start_soon = start_soon

    def write(self, markers: Sequence[WritableTxnMarker]) -> WriteTxnMarkersResponse | DelayedMarkers:
        """Write every marker; return the response, or the parked operation that waits for replicas."""
        response, parts = _rows_of(markers)
        delayed = DelayedMarkers(self._manager, response)
        for part in parts:
            self._write_or_refuse(part, delayed)
        return self._settled_or_parked(delayed)

    async def written(
        self, markers: Sequence[WritableTxnMarker], *, in_turns: bool = False
    ) -> WriteTxnMarkersResponse:
        """Write every marker; return the response once all are settled.

        `in_turns`: other tasks run every `TURN_PARTITIONS`. Coordinators may not ask for that: what they call
        for can go another way meanwhile.
        """
        response, parts = _rows_of(markers)
        delayed = DelayedMarkers(self._manager, response)
        for number, part in enumerate(parts, start=1):
            self._write_or_refuse(part, delayed)
            if in_turns and number % TURN_PARTITIONS == 0:
                await checkpoint()
        if isinstance(self._settled_or_parked(delayed), DelayedMarkers):
            await self._manager.purgatory.wait(delayed)
            return delayed.finish()
        return response

    def _settled_or_parked(self, delayed: DelayedMarkers) -> WriteTxnMarkersResponse | DelayedMarkers:
        if delayed.settle():
            return delayed.response
        delayed.park(self._manager.config.request_timeout_ms)
        return delayed

    def _write_or_refuse(self, part: PartitionMarker, delayed: DelayedMarkers) -> None:
        try:
            self._write(part, delayed)
        except KafkaError as error:
            part.row.error_code = as_partition_error(error.code)

    def _write(self, part: PartitionMarker, delayed: DelayedMarkers) -> None:
        """Write one marker, or begin to. Raises `KafkaError`."""
        partition = self._manager.partitions.get(part.key)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{part.key} is not on this node")
        if part.key.topic == GROUP_METADATA_TOPIC:
            self._end_offsets(part, delayed)
            return
        if partition.writing is None:
            self._append(partition, part)
            part.is_flushed = not partition.log.must_flush
        if partition.writing is not None or not part.is_flushed:
            self._start_soon(partial(self._write_later, partition, part, delayed))
        delayed.await_write(part)

    def _append(self, partition: Partition, part: PartitionMarker) -> None:
        info = partition.append_marker(part.marker, now_ms=self._manager.wall_ms())
        part.required_offset = info.last_offset + 1

    def _end_offsets(self, part: PartitionMarker, delayed: DelayedMarkers) -> None:
        """Let the group coordinator end a transaction: it knows the offsets that wait for that."""
        reply = self._groups.ask(
            part.key.partition, lambda shard, now, token: shard.end_transaction(now, token, part.marker)
        )
        if isinstance(reply, DelayedOperation):
            delayed.await_group(reply, part.row)
        else:
            part.row.error_code = as_partition_error(reply)

    async def _write_later(
        self, partition: Partition, part: PartitionMarker, delayed: DelayedMarkers
    ) -> None:
        """Write a marker behind the records that a thread writes now, and wait for the disk."""
        try:
            while partition.writing is not None and part.required_offset < 0:
                await partition.writing.wait()
            if delayed.ended:
                return
            if part.required_offset < 0:
                self._append(partition, part)
            if partition.log.must_flush:
                await self._manager.group_commit.flush(partition.log)
            part.is_flushed = True
        except KafkaError as error:
            delayed.failed(part, error)
        self._manager.touch(part.key)


def as_partition_error(code: int) -> ErrorCode:
    """Return the error of a partition for one of its group coordinator."""
    known = ErrorCode.of(code)
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if known in _COORDINATOR_ERRORS else known


def _rows_of(
    markers: Sequence[WritableTxnMarker],
) -> tuple[WriteTxnMarkersResponse, list[PartitionMarker]]:
    """Return the response, still without errors, and each marker of a partition with its row in there."""
    response = WriteTxnMarkersResponse(markers=[])
    parts: list[PartitionMarker] = []
    producers: dict[int, dict[str, dict[int, WritableTxnMarkerPartitionResult]]] = {}
    for marker in markers:
        end = TransactionMarker(
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.transaction_result,
            marker.transaction_version,
        )
        topics = producers.setdefault(marker.producer_id, {})
        for key in _partitions_of(marker):
            row = topics.setdefault(key.topic, {}).setdefault(
                key.partition, WritableTxnMarkerPartitionResult(partition_index=key.partition)
            )
            parts.append(PartitionMarker(key, end, row))
    for producer_id, topics in producers.items():
        rows = [
            WritableTxnMarkerTopicResult(name=name, partitions=list(each.values()))
            for name, each in topics.items()
        ]
        response.markers.append(WritableTxnMarkerResult(producer_id=producer_id, topics=rows))
    return response, parts


def _partitions_of(marker: WritableTxnMarker) -> Iterator[TopicPartition]:
    """Yield the partitions of a marker, each once."""
    named = (
        TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes
    )
    yield from dict.fromkeys(named)
