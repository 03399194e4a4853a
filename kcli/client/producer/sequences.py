"""Sequences: the sequence numbers of an idempotent producer, per partition (KIP-98, KIP-360, KIP-679).

Batches of a partition are numbered when they are first drained; a retry keeps its bytes and its number. The
broker accepts a batch only right after the one before: a numbered batch that failed for good leaves a gap.

- While other numbers are unsettled, no new batch of the partition is drained (`is_unresolved`).
- Once they are settled and a gap remains, or the broker answers "out of order" to the batch that is next in
  line, the partition restarts: next epoch, numbers from 0, and batches to be sent again get new numbers.
- After epoch 32767 the broker gives a new producer id.

Numbers may change only while no request with batches of the partition is on the wire.

A transactional producer gets its epochs from the coordinator alone: after a gap, nothing of the partition is
drained until the transaction has ended and `start_over` sets the next epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.client.producer.producer_batch import NO_SEQUENCE

if TYPE_CHECKING:
    from kcli.client.producer.producer_batch import ProducerBatch
    from kcli.protocol.topics import TopicPartition

MAX_EPOCH = 32767
SEQUENCE_MASK = 0x7FFFFFFF


class PartitionSequences:
    """One partition: producer id and epoch, the next number, and its unsettled batches in order."""

    __slots__ = ("epoch", "is_unresolved", "last_acked", "needs_restart", "next_sequence", "on_wire",
                 "producer_id", "unsettled")  # fmt: skip

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.next_sequence = 0
        self.last_acked = -1
        self.unsettled: list[ProducerBatch] = []
        self.on_wire = 0
        self.is_unresolved = False
        self.needs_restart = False


class Sequences:
    """The producer id and epoch, and every partition's numbers."""

    def __init__(self, *, is_transactional: bool = False) -> None:
        self.producer_id = -1
        self.epoch = -1
        self._is_transactional = is_transactional
        self._partitions: dict[TopicPartition, PartitionSequences] = {}

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id >= 0

    @property
    def last_epoch_is_used(self) -> bool:
        """Return whether a partition that restarts needs a new producer id."""
        return self.epoch >= MAX_EPOCH and any(state.needs_restart for state in self._partitions.values())

    @property
    def has_gaps(self) -> bool:
        """Return whether numbered batches failed, so that the broker refuses those that would follow."""
        return any(state.is_unresolved or state.needs_restart for state in self._partitions.values())

    def start_over(self, producer_id: int, epoch: int) -> None:
        """Set a pair in which no batch was numbered yet; late answers to older batches count no more."""
        self.producer_id = producer_id
        self.epoch = epoch
        self._partitions.clear()

    def adopt(self, producer_id: int, epoch: int) -> None:
        """Set a producer id from the broker. Partitions keep their own until they restart."""
        self.producer_id = producer_id
        self.epoch = epoch
        for state in self._partitions.values():
            if state.needs_restart:
                self._restart_if_settled(state)

    def may_drain(self, batch: ProducerBatch) -> bool:
        """Return whether a partition's head batch may be sent now."""
        state = self._partitions.get(batch.partition)
        if state is None:
            return self.has_producer_id
        if state.needs_restart:
            return False
        if batch.has_sequence:
            return state.unsettled[0] is batch
        # A broker that does not know the producer id accepts any first number: a second batch could overtake
        # the first.
        return not state.is_unresolved and not (state.unsettled and state.last_acked < 0)

    def number(self, batch: ProducerBatch) -> None:
        """Number a drained batch, unless it has its number; count it as on the wire."""
        state = self._partitions.get(batch.partition)
        if state is None:
            state = self._partitions[batch.partition] = PartitionSequences(self.producer_id, self.epoch)
        if not batch.has_sequence:
            if not state.unsettled:
                self._modernize(state)
            self._assign(state, batch)
            state.unsettled.append(batch)
        state.on_wire += 1

    def came_back(self, batch: ProducerBatch) -> None:
        """Note that a request with this batch is no longer on the wire: answered, lost or never sent."""
        state = self._partitions.get(batch.partition)
        if state is not None and not (self._is_transactional and self._is_older(batch, state)):
            state.on_wire -= 1
            self._settle(state)

    def succeeded(self, batch: ProducerBatch) -> None:
        state = self._partitions.get(batch.partition)
        if state is None or self._is_older(batch, state):
            return
        state.last_acked = (batch.base_sequence + batch.count - 1) & SEQUENCE_MASK
        if batch in state.unsettled:
            state.unsettled.remove(batch)

    def failed(self, batch: ProducerBatch) -> None:
        """Note that a numbered batch failed for good: a gap, unless the broker turns out to have it."""
        state = self._partitions.get(batch.partition)
        if state is not None and batch in state.unsettled:
            state.unsettled.remove(batch)
            state.is_unresolved = True
            self._settle(state)

    def out_of_order(self, batch: ProducerBatch) -> bool:
        """Note that the broker lacks an earlier batch: restart if all earlier ones are settled.

        Returns whether they are.
        """
        state = self._partitions.get(batch.partition)
        if state is None or not state.unsettled or state.unsettled[0] is not batch:
            return False
        state.needs_restart = True
        return True

    def was_split(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Replace a split batch by its parts, which share its numbers."""
        state = self._partitions.get(batch.partition)
        if state is not None and batch in state.unsettled:
            index = state.unsettled.index(batch)
            state.unsettled[index : index + 1] = parts

    @staticmethod
    def _is_older(batch: ProducerBatch, state: PartitionSequences) -> bool:
        """Return whether a batch was numbered before the partition restarted."""
        return (batch.producer_id, batch.producer_epoch) != (state.producer_id, state.epoch)

    def _settle(self, state: PartitionSequences) -> None:
        if state.on_wire:
            return
        if state.is_unresolved and not state.unsettled:
            state.is_unresolved = False
            # There is no gap if a late response said that the failed batch was written.
            state.needs_restart |= (state.last_acked + 1) & SEQUENCE_MASK != state.next_sequence
        if state.needs_restart:
            self._restart_if_settled(state)

    def _restart_if_settled(self, state: PartitionSequences) -> None:
        if state.on_wire or not self._next_epoch(state):
            return
        state.needs_restart = state.is_unresolved = False
        state.producer_id, state.epoch = self.producer_id, self.epoch
        state.next_sequence = 0
        state.last_acked = -1
        for batch in state.unsettled:
            batch.base_sequence = NO_SEQUENCE
            self._assign(state, batch)

    def _next_epoch(self, state: PartitionSequences) -> bool:
        """Use an epoch that the partition has not used; return False if that needs a new producer id."""
        if (state.producer_id, state.epoch) == (self.producer_id, self.epoch):
            if self._is_transactional or self.epoch >= MAX_EPOCH:
                return False
            self.epoch += 1
        return True

    def _modernize(self, state: PartitionSequences) -> None:
        """Move an idle partition to the newest epoch, as a partition seen for the first time."""
        if (state.producer_id, state.epoch) != (self.producer_id, self.epoch):
            state.producer_id, state.epoch = self.producer_id, self.epoch
            state.next_sequence = 0
            state.last_acked = -1

    def _assign(self, state: PartitionSequences, batch: ProducerBatch) -> None:
        batch.producer_id, batch.producer_epoch = state.producer_id, state.epoch
        batch.base_sequence = state.next_sequence
        state.next_sequence = (state.next_sequence + batch.count) & SEQUENCE_MASK
