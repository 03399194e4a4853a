"""Accumulator: a queue of batches per partition, between the tasks that send records and the sender.

Appending is synchronous: a record goes into the last batch of its queue, or into a new one whose memory the
caller has reserved. A caller that waited for memory must try the last batch again before it opens another,
because another task may have opened one; otherwise concurrent callers leave half-empty batches.

A queue's head is ready when it is full, has another behind it, is older than `linger.ms`, when callers wait
for memory, or when a flush or close wants all batches out. A head that is sent again waits for its backoff
first, unless the partition has a new leader (Kafka class `RecordAccumulator`).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

from kcli.client.producer.producer_batch import Delivery, DeliveryRun, ProducerBatch
from kcli.protocol.compression.codecs import Codec
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.topics import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kcli.client.config import ProducerConfig
    from kcli.client.network.metadata import ClusterMetadata, PartitionMetadata


BATCH_OVERHEAD = 61
RECORD_OVERHEAD = 36
"""A batch's header, and a record's fields besides key, value and headers at their longest."""

RATIO_IMPROVING = 0.005
RATIO_WORSENING = 0.05
RATIO_MARGIN = 1.05


@dataclass(slots=True)
class ReadyCheck:
    """Nodes with something to send, when to check again, and queue heads without a known leader."""

    nodes: set[int] = field(default_factory=set)
    next_check: float = math.inf
    leaderless: list[ProducerBatch] = field(default_factory=list)


class Accumulator:
    """The queues of one producer. Times are `trio.current_time()` seconds."""

    def __init__(self, config: ProducerConfig, budget: MemoryBudget) -> None:
        self.budget = budget
        self.topics: dict[str, dict[int, deque[ProducerBatch]]] = {}
        # In order of creation, but for the parts of split batches.
        self.incomplete: dict[ProducerBatch, None] = {}
        self.muted: set[TopicPartition] = set()
        self.flushing = 0
        self.is_closed = False
        self.may_drain: Callable[[ProducerBatch], bool] = lambda batch: True
        self.on_drain: Callable[[ProducerBatch], None] = lambda batch: None
        self._batch_size = config.batch_size
        self._linger = config.linger_ms / 1000
        self._codec = Codec[config.compression_type.upper()]
        self._level = config.compression_level
        self._is_transactional = bool(config.transactional_id)
        self._ratios: dict[str, float] = {}
        self._active: dict[TopicPartition, deque[ProducerBatch]] = {}
        self._last_drained: dict[int, TopicPartition] = {}
        self._drain_count = 0

    def append(
        self,
        topic: str,
        partition: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        size: int,
    ) -> Delivery | None:
        """Append a record of at most `size` bytes to the last batch of its queue; None if it does not fit."""
        queues = self.topics.get(topic)
        queue = queues.get(partition) if queues is not None else None
        if not queue:
            return None
        batch = queue[-1]
        builder = batch.builder
        if builder is None or batch.drain_number >= 0 or builder.estimated_size + size > batch.limit:
            return None
        builder.append(timestamp, key, value, headers)
        index = batch.count
        batch.count = index + 1
        return Delivery(batch, index, timestamp)

    def append_values(
        self, topic: str, partition: int, timestamp: int, values: Sequence[bytes], start: int
    ) -> DeliveryRun | None:
        """Append values from index `start` on to the last batch of a queue; None if none fits."""
        queues = self.topics.get(topic)
        queue = queues.get(partition) if queues is not None else None
        if not queue or queue[-1].builder is None or queue[-1].drain_number >= 0:
            return None
        return queue[-1].append_values(timestamp, values, start)

    def open_batch(self, topic: str, partition: int, now: float, reserved: int) -> ProducerBatch:
        """Add an empty batch to a queue; the caller has reserved its memory."""
        queues = self.topics.setdefault(topic, {})
        queue = queues.get(partition)
        if queue is None:
            queue = queues[partition] = deque()
        target = TopicPartition(topic, partition)
        builder = RecordBatchBuilder(
            codec=self._codec, level=self._level, is_transactional=self._is_transactional
        )
        batch = ProducerBatch(target, builder, now, reserved)
        batch.limit = self._batch_size
        if self._codec is not Codec.NONE:
            batch.limit = int(self._batch_size / (self._ratios.get(topic, 1.0) * RATIO_MARGIN))
        queue.append(batch)
        self._active[target] = queue
        self.incomplete[batch] = None
        return batch

    def needed_memory(self, size: int) -> int:
        """Return the memory of a batch that starts with a record of `size` bytes."""
        return max(self._batch_size, BATCH_OVERHEAD + size)

    def is_full(self, batch: ProducerBatch) -> bool:
        """Return whether a batch takes no more records."""
        builder = batch.builder
        return builder is None or batch.drain_number >= 0 or builder.estimated_size >= batch.limit

    def all_full(self, topic: str, partition: int) -> bool:
        """Return whether every queued batch of a partition is full."""
        queue = self.topics.get(topic, {}).get(partition)
        return not queue or self.is_full(queue[-1])

    def ready(self, cluster: ClusterMetadata, now: float) -> ReadyCheck:
        check = ReadyCheck()
        everything = self.is_closed or self.flushing > 0 or self.budget.has_waiters
        for partition, queue in self._active.items():
            leader = cluster.leader_of(partition)
            if leader is None:
                check.leaderless.append(queue[0])
                continue
            head = queue[0]
            if partition in self.muted or not self.may_drain(head):
                continue
            due = self._due(head, queue, leader, everything)
            if due <= now:
                check.nodes.add(leader.leader)
            else:
                check.next_check = min(check.next_check, due)
        return check

    def _due(
        self, head: ProducerBatch, queue: deque[ProducerBatch], leader: PartitionMetadata, everything: bool
    ) -> float:
        if head.attempts:
            return -math.inf if leader.leader_epoch > head.leader_epoch >= 0 else head.retry_at
        if everything or len(queue) > 1 or self.is_full(head):
            return -math.inf
        return head.created_at + self._linger

    def drain(self, node_id: int, cluster: ClusterMetadata, max_size: int, now: float) -> list[ProducerBatch]:
        """Take the ready heads of the queues that a node leads, together at most `max_size` bytes.

        It starts after the partition drained last for this node, so that none starves. The first batch is
        taken whatever its size.
        """
        led = sorted(self._led_by(node_id, cluster))
        last = self._last_drained.get(node_id)
        start = bisect_right(led, last) if last is not None else 0
        everything = self.is_closed or self.flushing > 0 or self.budget.has_waiters
        batches: list[ProducerBatch] = []
        total = 0
        for partition in led[start:] + led[:start]:
            queue = self._active[partition]
            head = queue[0]
            leader = cluster.leader_of(partition)
            if leader is None or partition in self.muted or not self.may_drain(head):
                continue
            if self._due(head, queue, leader, everything) > now:
                continue
            size = self._written_size(head)
            if batches and total + size > max_size:
                break
            total += size
            self._take(partition, queue, leader)
            batches.append(head)
            self._last_drained[node_id] = partition
        return batches

    def heads(self, node_id: int, cluster: ClusterMetadata) -> list[ProducerBatch]:
        """Return the first batch of each queue that a node leads."""
        return [self._active[partition][0] for partition in self._led_by(node_id, cluster)]

    def _led_by(self, node_id: int, cluster: ClusterMetadata) -> list[TopicPartition]:
        return [
            partition
            for partition in self._active
            if (leader := cluster.leader_of(partition)) is not None and leader.leader == node_id
        ]

    def _take(
        self, partition: TopicPartition, queue: deque[ProducerBatch], leader: PartitionMetadata
    ) -> None:
        batch = queue.popleft()
        if not queue:
            del self._active[partition]
        if batch.drain_number < 0:
            batch.drain_number = self._drain_count
            self._drain_count += 1
        batch.leader_epoch = leader.leader_epoch
        self.on_drain(batch)

    def _written_size(self, batch: ProducerBatch) -> int:
        if batch.data is not None or self._codec is Codec.NONE:
            return batch.size
        return int(batch.size * self._ratios.get(batch.partition.topic, 1.0) * RATIO_MARGIN)

    def observe_ratio(self, topic: str, uncompressed: int, compressed: int) -> None:
        """Update the compression ratio of a topic: quickly if it is worse, slowly if it is better."""
        if self._codec is Codec.NONE or not uncompressed:
            return
        observed = compressed / uncompressed
        known = self._ratios.get(topic, 1.0)
        if observed > known:
            self._ratios[topic] = max(known + RATIO_WORSENING, observed)
        else:
            self._ratios[topic] = max(known - RATIO_IMPROVING, observed)

    def put_back(self, batch: ProducerBatch) -> None:
        """Return a drained batch to its queue, in the order of first drains."""
        partition = batch.partition
        queue = self.topics.setdefault(partition.topic, {}).setdefault(partition.partition, deque())
        before = sum(1 for queued in queue if queued.drain_number >= 0 and queued.place < batch.place)
        queue.insert(before, batch)
        self._active[partition] = queue

    def split(self, batch: ProducerBatch, now: float) -> list[ProducerBatch]:
        """Replace a batch that the broker finds too large by smaller ones; return them."""
        self._ratios[batch.partition.topic] = 1.0
        limit = min(self._batch_size, batch.size // 2)
        parts = batch.split(limit, self._codec, self._level, now)
        self.incomplete.pop(batch, None)
        for part in parts:
            self.incomplete[part] = None
            self.put_back(part)
        return parts

    def settled(self, batch: ProducerBatch) -> None:
        """Remove a settled batch and release its memory."""
        self.incomplete.pop(batch, None)
        if batch.reserved:
            self.budget.release(batch.reserved)
            batch.reserved = 0

    def remove(self, batch: ProducerBatch) -> None:
        queue = self._active.get(batch.partition)
        if queue is not None and batch in queue:
            queue.remove(batch)
            if not queue:
                del self._active[batch.partition]

    @property
    def queued_partitions(self) -> Iterable[TopicPartition]:
        """Return the partitions that have batches to send."""
        return self._active.keys()

    def queued(self) -> list[ProducerBatch]:
        """Return the batches that are not in a request, those of a partition in order."""
        return [batch for queue in self._active.values() for batch in queue]

    def queue_sizes(self) -> Iterator[tuple[str, dict[int, int]]]:
        """Yield the lengths of the queues of each topic that has queued batches."""
        for topic in {partition.topic for partition in self._active}:
            yield topic, {index: len(queue) for index, queue in self.topics[topic].items()}


class _Waiter:
    __slots__ = ("collected", "granted", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.collected = 0
        self.granted = trio.Event()


class MemoryBudget:
    """The memory of unsent and unanswered records: `total` bytes, of which `available` are free.

    Waiters form a strict queue: its head collects released bytes until it has enough, so that large requests
    cannot starve. A waiter that is cancelled returns what it has collected (Kafka class `BufferPool`, without
    its recycled buffers).
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.available = total
        self._waiters: deque[_Waiter] = deque()

    @property
    def has_waiters(self) -> bool:
        """Return whether a caller waits for memory, which makes every batch sendable."""
        return bool(self._waiters)

    def reserve_nowait(self, size: int) -> bool:
        """Take `size` bytes if they are free and no caller waits; return whether they were taken."""
        if self._waiters or size > self.available:
            return False
        self.available -= size
        return True

    async def reserve(self, size: int) -> None:
        """Take `size` bytes, at most `total`, waiting behind earlier callers."""
        if size > self.total:
            raise ValueError(f"{size} bytes never fit into {self.total}")
        waiter = _Waiter(size)
        self._waiters.append(waiter)
        self._feed()
        try:
            await waiter.granted.wait()
        except BaseException:
            if not waiter.granted.is_set():
                self._waiters.remove(waiter)
            self.release(waiter.collected)
            raise

    def release(self, size: int) -> None:
        self.available += size
        self._feed()

    def _feed(self) -> None:
        while self._waiters and self.available:
            head = self._waiters[0]
            part = min(self.available, head.size - head.collected)
            self.available -= part
            head.collected += part
            if head.collected < head.size:
                return
            self._waiters.popleft()
            head.granted.set()
