"""ProducerGuards: the transactions whose first batch on a partition waits for the word of their coordinator.

Before a leader appends the first transactional batch of a producer, it asks the transaction's coordinator
whether the partition belongs to the transaction (KIP-890). Meanwhile a marker may end that transaction, and
the word of the coordinator would be worth nothing: the batch would begin a transaction that nobody ends. So
the leader takes a guard before it asks, and appends only while that guard is still there.

| event | the guard of the producer |
|---|---|
| a batch waits for the coordinator | is made, or takes over its epoch or sequence |
| a transactional batch is appended | goes: the open transaction protects the next batches |
| a marker is appended | goes, unless its producer has begun the next transaction, with the marker's epoch |
| the replica stops leading, or the guard is as old as a silent producer | goes |

The lowest sequence keeps the order of a producer's batches: if the first of them is refused and sent again, a
later one must not be appended before it (Kafka classes `VerificationGuard` and `VerificationStateEntry`).
"""

from __future__ import annotations


class ProducerGuard:
    """One guard; requests prove with the object itself that they have it.

    `raises_epochs` tells that the producer gets a new epoch with every transaction (`transaction.version` 2).
    """

    __slots__ = ("lowest_sequence", "producer_epoch", "raises_epochs", "since_ms")

    def __init__(self, sequence: int, producer_epoch: int, *, raises_epochs: bool, since_ms: int) -> None:
        self.lowest_sequence = sequence
        self.producer_epoch = producer_epoch
        self.raises_epochs = raises_epochs
        self.since_ms = since_ms


class ProducerGuards:
    """The guards of one log by producer id. They are in memory only."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[int, ProducerGuard] = {}

    def __len__(self) -> int:
        return len(self._guards)

    def get(self, producer_id: int) -> ProducerGuard | None:
        return self._guards.get(producer_id)

    def begin(
        self, producer_id: int, base_sequence: int, producer_epoch: int, *, is_tv2: bool, now_ms: int
    ) -> ProducerGuard:
        """Return the guard for a batch that waits for the coordinator."""
        guard = self._guards.get(producer_id)
        if guard is None:
            guard = self._guards[producer_id] = ProducerGuard(
                base_sequence, producer_epoch, raises_epochs=is_tv2, since_ms=now_ms
            )
        elif producer_epoch > guard.producer_epoch:
            guard.producer_epoch, guard.lowest_sequence = producer_epoch, base_sequence
        elif producer_epoch == guard.producer_epoch and base_sequence < guard.lowest_sequence:
            guard.lowest_sequence = base_sequence
        return guard

    def batch_appended(self, producer_id: int) -> None:
        self._guards.pop(producer_id, None)

    def marker_appended(self, producer_id: int, producer_epoch: int) -> None:
        guard = self._guards.get(producer_id)
        if guard is not None and not (guard.raises_epochs and guard.producer_epoch == producer_epoch):
            del self._guards[producer_id]

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        """Remove the guards that were taken `expiration_ms` ago or earlier."""
        for producer_id, guard in list(self._guards.items()):
            if now_ms - guard.since_ms >= expiration_ms:
                del self._guards[producer_id]

    def clear(self) -> None:
        self._guards.clear()
