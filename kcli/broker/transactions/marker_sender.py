"""MarkerSender: brings the markers of ended transactions to all their partitions (Kafka class
`TransactionMarkerChannelManager`).

A coordinator hands over `Markers` when its decision is committed, and is told of every partition that has its
marker, or needs none. Markers for partitions of the own node are written in the same turn, the first
`TURN_PARTITIONS` of them; for other nodes they queue, with one call at a time to each node, and what has
queued meanwhile goes together. What happens next depends on the answer for a partition (`ANSWERS`):

| answer | then |
|---|---|
| DONE | the coordinator is told |
| AGAIN, and an unreachable node | the leader is looked up after 20 ms, doubling to 1 s, or with a new image |
| FENCED | all markers of the transaction are given up: another coordinator or producer has it |
| LATER, whatever else | a line in the log, and again after 30 s (Kafka's broker ends) |

A partition without a leader waits for an image with one; a deleted partition is done. A partition is in one
`Place` at a time, and a call concerns only the partitions that are still in its place when it arrives, and
when it is answered: with a new leader they leave it. So a marker may be written twice, which is legal, but
never by a call that arrives after the transaction is complete: it could end the next one.
"""

from __future__ import annotations

import logging
from enum import Enum
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from trio.lowlevel import checkpoint

from kcli.broker.replication.leader_endpoint import PeerUnreachable
from kcli.broker.transactions.marker_writer import TURN_PARTITIONS
from kcli.broker.waiting.purgatory import DelayedOperation
from kcli.broker.waiting.timer import TimerCallback, monotonic_ms
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kcli.protocol.topics import TopicPartition, by_topic

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from kcli.broker.coordinator.effects import Effect, Now
    from kcli.broker.coordinator.transaction.messages import Markers
    from kcli.broker.replication.leader_endpoint import LeaderEndPoint
    from kcli.broker.replication.replica_manager import ReplicaManager
    from kcli.broker.transactions.marker_writer import DelayedMarkers, MarkerWriter
    from kcli.protocol.messages.write_txn_markers import WriteTxnMarkersResponse

CALL_PARTITIONS = 256
"""The most partitions of one call: the other node writes to all of them in one turn."""

RETRY_MS, MOST_RETRY_MS = 20, 1000
LATER_MS = 30_000

_log = logging.getLogger(__name__)


class Answer(Enum):
    """What an error code means for a marker."""

    DONE = "done"
    AGAIN = "again"
    FENCED = "fenced"
    LATER = "later"


ANSWERS: Mapping[ErrorCode, Answer] = {
    ErrorCode.NONE: Answer.DONE,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: Answer.DONE,
    ErrorCode.UNSUPPORTED_VERSION: Answer.DONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Answer.AGAIN,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Answer.AGAIN,
    ErrorCode.REQUEST_TIMED_OUT: Answer.AGAIN,
    ErrorCode.NOT_ENOUGH_REPLICAS: Answer.AGAIN,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Answer.AGAIN,
    ErrorCode.KAFKA_STORAGE_ERROR: Answer.AGAIN,
    ErrorCode.INVALID_PRODUCER_EPOCH: Answer.FENCED,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: Answer.FENCED,
}
"""The answers that a coordinator expects; any other is `LATER`."""


class MarkerFaults(Protocol):
    """Faults of the markers of a node's coordinators."""

    def holds(self, topic: str, *, is_new: bool = True) -> bool:
        """Return whether a marker for a topic waits; `is_new`: it did not wait before."""

    def swallows(self, topic: str) -> bool:
        """Return whether the next marker for a topic counts as written and is not; called once for each."""


class PendingMarkers:
    """The markers of one transaction; `places` has the place of each partition that lacks its own."""

    __slots__ = ("attempts", "has_ended", "markers", "places")

    def __init__(self, markers: Markers) -> None:
        self.markers = markers
        self.has_ended = False
        """Whether no partition lacks its marker, or the markers were given up."""
        self.places: dict[TopicPartition, Place] = {}
        self.attempts: dict[TopicPartition, int] = {}
        """How often the markers of partitions failed that were tried again."""

    def writable(self, partitions: Iterable[TopicPartition]) -> WritableTxnMarker:
        """Return the marker of a request, for some of the partitions."""
        markers = self.markers
        return WritableTxnMarker(
            producer_id=markers.producer_id,
            producer_epoch=markers.producer_epoch,
            transaction_result=markers.is_commit,
            topics=[
                WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
                for name, indexes in by_topic(partitions).items()
            ],
            coordinator_epoch=markers.coordinator_epoch,
            transaction_version=markers.transaction_version,
        )

    def remove(self, key: TopicPartition) -> None:
        """Take a partition out of its place, if it is in one."""
        place = self.places.pop(key, None)
        if place is not None:
            keys = place.contents[self]
            del keys[key]
            if not keys:
                del place.contents[self]

    def retry_ms(self, keys: Iterable[TopicPartition]) -> int:
        """Count an attempt for some partitions; return the time until the next."""
        most = 0
        for key in keys:
            most = max(most, self.attempts.get(key, 0))
            self.attempts[key] = self.attempts.get(key, 0) + 1
        return min(RETRY_MS << min(most, 10), MOST_RETRY_MS)


class Place:
    """Where partitions are on the way to their markers: in a queue, in a call, between two attempts."""

    __slots__ = ("contents",)

    def __init__(self) -> None:
        self.contents: dict[PendingMarkers, dict[TopicPartition, None]] = {}

    def put(self, pending: PendingMarkers, key: TopicPartition) -> None:
        """Move a partition here."""
        pending.remove(key)
        pending.places[key] = self
        self.contents.setdefault(pending, {})[key] = None

    def take(self, most: int) -> Place:
        """Move up to `most` partitions to a new place; return it."""
        taken = Place()
        while self.contents and most > 0:
            pending, keys = next(iter(self.contents.items()))
            first = list(islice(keys, most))
            for key in first:
                taken.put(pending, key)
            most -= len(first)
        return taken

    def request(self) -> WriteTxnMarkersRequest:
        """Return the request with the markers for the partitions that are here now."""
        return WriteTxnMarkersRequest(
            markers=[pending.writable(keys) for pending, keys in self.contents.items()]
        )

    def listed(self) -> list[tuple[PendingMarkers, list[TopicPartition]]]:
        """Return a copy of the contents, which does not change while partitions move."""
        return [(pending, list(keys)) for pending, keys in self.contents.items()]


class NodeQueue(Place):
    """The partitions that another node leads; `call` has those of the call that waits for its answer."""

    __slots__ = ("call", "is_calling", "node_id")

    def __init__(self, node_id: int) -> None:
        super().__init__()
        self.node_id = node_id
        self.call = Place()
        self.is_calling = False


class Coordinators(Protocol):
    """The transaction coordinators of a node: `CoordinatorRuntime[TransactionCoordinator]`."""

    def perform_on(
        self,
        index: int,
        event: Callable[[Any, Now], list[Effect]],
        *,
        leader_epoch: int | None = None,
    ) -> None: ...


class MarkerSender:
    """The markers of one node's transaction coordinators; `start_soon` starts a task of the node."""

    def __init__(
        self,
        replica_manager: ReplicaManager,
        coordinators: Coordinators,
        writer: MarkerWriter,
        *,
        link_to: Callable[[int], LeaderEndPoint],
        start_soon: Callable[[Callable[[], Awaitable[None]]], None],
    ) -> None:
        self._faults: MarkerFaults | None = None
        self._manager = replica_manager
        self._coordinators = coordinators
        self._writer = writer
        self._link_to = link_to
        self._start_soon = start_soon
        self._timer = replica_manager.timer
        self._pending: dict[int, dict[str, PendingMarkers]] = {}
        """By partition of `__transaction_state` and transactional id."""
        self._own = Place()
        self._unknown = Place()
        self._held = Place()
        self._queues: dict[int, NodeQueue] = {}
        self._retries: dict[Place, TimerCallback] = {}
        """The partitions whose leaders are to be looked up again, with the timer of each attempt."""

    @property
    def unknown_destination_count(self) -> int:
        """The number of transactions with a partition that has no leader now."""
        return len(self._unknown.contents)

    @property
    def pending_count(self) -> int:
        """The number of transactions with a partition that lacks its marker."""
        return sum(map(len, self._pending.values()))

    def send(self, markers: Markers) -> None:
        """Begin to write the markers of a transaction; those of the own node are written on return."""
        former = self._pending.get(markers.coordinator_partition, {}).get(markers.transactional_id)
        if former is not None:
            self._give_up(former)
        pending = PendingMarkers(markers)
        self._pending.setdefault(markers.coordinator_partition, {})[markers.transactional_id] = pending
        self._route([(pending, list(markers.partitions))])

    def drop(self, coordinator_partition: int) -> None:
        """Forget the markers of a shard: its next leader sends them."""
        for pending in list(self._pending.get(coordinator_partition, {}).values()):
            self._give_up(pending)

    def image_changed(self) -> None:
        """Look up the leaders again of all partitions that wait for one, or go to a former one."""
        if not self._pending:
            return
        waiting = self._unknown.listed()
        for retry, timer in self._retries.items():
            self._timer.cancel(timer)
            waiting += retry.listed()
        self._retries.clear()
        for queue in self._queues.values():
            waiting += self._led_elsewhere(queue.call, queue.node_id)
            waiting += self._led_elsewhere(queue, queue.node_id)
        self._route(waiting)

    def use_faults(self, faults: MarkerFaults | None) -> None:
        """Let markers meet these faults from now on; go on with those that no fault holds any more."""
        self._faults = faults
        self._route(self._held.listed(), were_held=True)

    def _led_elsewhere(self, place: Place, node_id: int) -> list[tuple[PendingMarkers, list[TopicPartition]]]:
        moved = []
        for pending, keys in place.listed():
            elsewhere = [key for key in keys if self._leader(key) != node_id]
            if elsewhere:
                moved.append((pending, elsewhere))
        return moved

    def _leader(self, key: TopicPartition) -> int | None:
        """Return the leader of a partition, -1 without one, None if the partition is deleted."""
        found = self._manager.current_leader(*key)
        return None if found is None else found[0]

    def _route(
        self, waiting: Iterable[tuple[PendingMarkers, list[TopicPartition]]], *, were_held: bool = False
    ) -> None:
        """Bring partitions to the queues of their leaders, and begin to work on the queues."""
        for pending, keys in waiting:
            if pending.has_ended:
                continue
            done = []
            for key in keys:
                place = self._place_for(key, was_held=were_held)
                if place is None:
                    done.append(key)
                else:
                    place.put(pending, key)
            if done or not pending.places:
                self._written(pending, done)
        self._write_own()
        for queue in self._queues.values():
            if queue.contents and not queue.is_calling:
                queue.is_calling = True
                self._start_soon(partial(self._call, queue))

    def _place_for(self, key: TopicPartition, *, was_held: bool) -> Place | None:
        """Return where a partition has to go, None if it needs no marker."""
        leader = self._leader(key)
        if leader is None:
            return None
        if self._faults is not None:
            if self._faults.holds(key.topic, is_new=not was_held):
                return self._held
            if self._faults.swallows(key.topic):
                return None
        if leader < 0:
            return self._unknown
        if leader == self._manager.node_id:
            return self._own
        queue = self._queues.get(leader)
        if queue is None:
            queue = self._queues[leader] = NodeQueue(leader)
        return queue

    def _write_own(self) -> None:
        """Write to partitions of this node: a turn's share, the rest soon."""
        if not self._own.contents:
            return
        for pending, keys in self._own.take(TURN_PARTITIONS).listed():
            writing = Place()
            for key in keys:
                writing.put(pending, key)
            response = self._writer.write([pending.writable(keys)])
            if isinstance(response, DelayedOperation):
                response.waiter = partial(self._write_ended, response, writing)
            else:
                self._answered(writing, response)
        if self._own.contents:
            self._timer.call_soon(self._write_more)

    async def _write_more(self) -> None:
        self._write_own()
        await checkpoint()

    def _write_ended(self, delayed: DelayedMarkers, writing: Place) -> None:
        async def handle() -> None:
            self._answered(writing, delayed.finish())
            await checkpoint()

        self._timer.call_soon(handle)  # An operation may end inside of anything.

    async def _call(self, queue: NodeQueue) -> None:
        """Bring a node what is queued for it, call after call."""
        try:
            while queue.contents:
                await self._manager.gate.passed()
                queue.call = queue.take(CALL_PARTITIONS)
                response: WriteTxnMarkersResponse | None = None
                try:
                    response = await self._link_to(queue.node_id).write_markers(queue.call.request)
                except PeerUnreachable as error:
                    _log.debug("%s", error.message)
                await self._manager.gate.passed()
                self._answered(queue.call, response)
        finally:
            queue.is_calling = False

    def _answered(self, place: Place, response: WriteTxnMarkersResponse | None) -> None:
        """Act on the answer for the partitions that are still in `place`; None: there is no answer."""
        codes = {} if response is None else _codes(response)
        for pending, keys in place.listed():
            if pending.has_ended:
                continue
            answers: dict[Answer, list[TopicPartition]] = {}
            for key in keys:
                answer = Answer.AGAIN
                if response is not None:
                    code = codes[pending.markers.producer_id, key]
                    answer = ANSWERS.get(code, Answer.LATER)
                    if answer in (Answer.FENCED, Answer.LATER):
                        _log.warning(
                            "the marker of transaction `%s` for %s: %s",
                            pending.markers.transactional_id,
                            key,
                            code.description,
                        )
                answers.setdefault(answer, []).append(key)
            if Answer.FENCED in answers:
                self._fenced(pending)
                continue
            if Answer.AGAIN in answers:
                self._retry(pending, answers[Answer.AGAIN])
            if Answer.LATER in answers:
                self._try_later(pending, answers[Answer.LATER])
            if Answer.DONE in answers:
                self._written(pending, answers[Answer.DONE])

    def _retry(self, pending: PendingMarkers, keys: list[TopicPartition]) -> None:
        retry = Place()
        for key in keys:
            retry.put(pending, key)

        def again() -> None:
            # A new image may have come first.
            if self._retries.pop(retry, None) is not None:
                self._route(retry.listed())

        timer = self._retries[retry] = TimerCallback(again)
        self._timer.add(timer, pending.retry_ms(keys), monotonic_ms())

    def _try_later(self, pending: PendingMarkers, keys: list[TopicPartition]) -> None:
        later = Place()
        for key in keys:
            later.put(pending, key)
        self._timer.add(TimerCallback(lambda: self._route(later.listed())), LATER_MS, monotonic_ms())

    def _written(self, pending: PendingMarkers, keys: list[TopicPartition]) -> None:
        """Tell the coordinator about partitions that have their marker, or need none."""
        markers = pending.markers
        for key in keys:
            pending.remove(key)
        if not pending.places:
            self._forget(pending)
        self._coordinators.perform_on(
            markers.coordinator_partition,
            lambda shard, now: shard.markers_written(
                now, markers.transactional_id, markers.producer_id, markers.producer_epoch, keys
            ),
            leader_epoch=markers.coordinator_epoch,
        )

    def _fenced(self, pending: PendingMarkers) -> None:
        markers = pending.markers
        self._give_up(pending)
        self._coordinators.perform_on(
            markers.coordinator_partition,
            lambda shard, now: shard.markers_fenced(
                now, markers.transactional_id, markers.producer_id, markers.producer_epoch
            ),
            leader_epoch=markers.coordinator_epoch,
        )

    def _give_up(self, pending: PendingMarkers) -> None:
        for key in list(pending.places):
            pending.remove(key)
        self._forget(pending)

    def _forget(self, pending: PendingMarkers) -> None:
        pending.has_ended = True
        of_shard = self._pending.get(pending.markers.coordinator_partition, {})
        if of_shard.get(pending.markers.transactional_id) is pending:
            del of_shard[pending.markers.transactional_id]
            if not of_shard:
                del self._pending[pending.markers.coordinator_partition]


def _codes(response: WriteTxnMarkersResponse) -> dict[tuple[int, TopicPartition], ErrorCode]:
    """Return the error of each partition of each producer."""
    return {
        (producer.producer_id, TopicPartition(topic.name, row.partition_index)): ErrorCode.of(row.error_code)
        for producer in response.markers
        for topic in producer.topics
        for row in topic.partitions
    }
