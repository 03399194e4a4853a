"""A MarkerSender on node 1, with leaders, other nodes and a coordinator that do as a test says."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from kcli.broker.coordinator.transaction.messages import Markers
from kcli.broker.replication.leader_endpoint import PeerUnreachable
from kcli.broker.transactions.marker_sender import MarkerSender
from kcli.broker.waiting.pause_gate import PauseGate
from kcli.broker.waiting.purgatory import DelayedOperation, Purgatory
from kcli.broker.waiting.timer import Timer
from kcli.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kcli.protocol.topics import TopicPartition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from kcli.protocol.messages.write_txn_markers import WritableTxnMarker

UNREACHABLE = -99
"""Instead of an error code: the node cannot be reached."""


class DelayedWrite(DelayedOperation):
    """A write of the own node that waits for its replicas."""

    def __init__(self, response: WriteTxnMarkersResponse) -> None:
        super().__init__()
        self.response = response

    def finish(self) -> WriteTxnMarkersResponse:
        return self.response


def keys_of(markers: Iterable[WritableTxnMarker]) -> list[TopicPartition]:
    """Return the partitions that markers are for."""
    return [
        TopicPartition(topic.name, index)
        for marker in markers
        for topic in marker.topics
        for index in topic.partition_indexes
    ]


class Sending:
    """What the sender sees and does. `leaders` has the leader of each partition: 1 is the own node."""

    node_id = 1

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, int] = {}
        self.gate = PauseGate()
        self.timer = Timer(self.gate)
        self.purgatory = Purgatory(self.timer)
        self.codes: dict[TopicPartition, list[int]] = {}
        """The errors of the next answers for a partition; 0 afterwards."""
        self.call_seconds = 0.0
        """How long other nodes take."""
        self.travel_seconds = 0.0
        """How long calls are on their way."""
        self.calls: list[tuple[float, int, list[TopicPartition]]] = []
        """When markers for which partitions went to which node."""
        self.markers: list[WritableTxnMarker] = []
        self.running = self.most_running = 0
        self.delays_own = False
        self.delayed: list[DelayedWrite] = []
        self.told: list[tuple[float, str, object]] = []
        """When the coordinator heard of a transaction: the partitions with markers, or `fenced`."""
        self.shards: dict[int, int] = {3: 5}
        """The leader epochs of the partitions of `__transaction_state` here."""

    # The replica manager

    def current_leader(self, topic: str, index: int) -> tuple[int, int] | None:
        leader = self.leaders.get(TopicPartition(topic, index))
        return None if leader is None else (leader, 0)

    # The writer of the own node

    def write(self, markers: Sequence[WritableTxnMarker]) -> WriteTxnMarkersResponse | DelayedWrite:
        self._note(1, markers)
        response = self._answer(markers)
        if not self.delays_own:
            return response
        self.delayed.append(DelayedWrite(response))
        return self.delayed[-1]

    def end_write(self) -> None:
        """End the oldest write of the own node that is delayed."""
        delayed = self.delayed.pop(0)
        delayed.ended = True
        delayed.tell()

    # The links

    def link_to(self, node_id: int) -> Any:
        sending = self

        class Link:
            async def write_markers(
                self, request: Callable[[], WriteTxnMarkersRequest]
            ) -> WriteTxnMarkersResponse:
                await trio.sleep(sending.travel_seconds)
                return await sending.call(node_id, request())

        return Link()

    async def call(self, node_id: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        self._note(node_id, request.markers)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await trio.sleep(self.call_seconds)
        self.running -= 1
        return self._answer(request.markers)

    def _note(self, node_id: int, markers: Sequence[WritableTxnMarker]) -> None:
        self.calls.append((round(trio.current_time(), 3), node_id, keys_of(markers)))
        self.markers += markers

    def _answer(self, markers: Sequence[WritableTxnMarker]) -> WriteTxnMarkersResponse:
        response = WriteTxnMarkersResponse(markers=[])
        for marker in markers:
            topics = []
            for topic in marker.topics:
                rows = []
                for index in topic.partition_indexes:
                    codes = self.codes.get(TopicPartition(topic.name, index), [])
                    code = codes.pop(0) if codes else 0
                    if code == UNREACHABLE:
                        raise PeerUnreachable("by a test")
                    rows.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=code))
                topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=rows))
            response.markers.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
        return response

    # The coordinators

    def perform_on(
        self, index: int, event: Callable[[Any, Any], list[Any]], *, leader_epoch: int | None = None
    ) -> None:
        if self.shards.get(index) == leader_epoch:
            assert event(self, None) == []

    def markers_written(
        self, _now: object, transactional_id: str, producer_id: int, epoch: int, keys: list[TopicPartition]
    ) -> list[Any]:
        assert producer_id == producer_of(transactional_id)
        self.told.append((round(trio.current_time(), 3), transactional_id, sorted(keys)))
        return []

    def markers_fenced(self, _now: object, transactional_id: str, producer_id: int, epoch: int) -> list[Any]:
        self.told.append((round(trio.current_time(), 3), transactional_id, "fenced"))
        return []


def producer_of(transactional_id: str) -> int:
    """Return the producer id of a transactional id of these tests."""
    return sum(transactional_id.encode())


def markers(
    transactional_id: str, *keys: TopicPartition, shard: int = 3, epoch: int = 5, is_commit: bool = True
) -> Markers:
    """Return the markers of a transaction."""
    return Markers(
        coordinator_partition=shard,
        coordinator_epoch=epoch,
        transactional_id=transactional_id,
        producer_id=producer_of(transactional_id),
        producer_epoch=4,
        is_commit=is_commit,
        transaction_version=2,
        partitions=keys,
    )


@asynccontextmanager
async def running_sender() -> AsyncIterator[tuple[Sending, MarkerSender]]:
    """Run a sender's timer and tasks."""
    sending = Sending()
    async with trio.open_nursery() as nursery:
        sender = MarkerSender(
            sending,  # type: ignore[arg-type]
            sending,
            sending,  # type: ignore[arg-type]
            link_to=sending.link_to,
            start_soon=nursery.start_soon,
        )
        await nursery.start(sending.timer.run)
        yield sending, sender
        nursery.cancel_scope.cancel()
