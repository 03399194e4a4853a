"""ProducerStateManager: what each idempotent or transactional producer last wrote to one partition.

It keeps each producer's epoch, its last five batches and the first offset of its open transaction. From these
it follows whether a batch continues the producer's sequence, repeats a batch written earlier, or comes from a
fenced producer (KIP-98, KIP-360).

`check` examines the batches of one append without changing the state; `publish` of what it returns applies
them after the write. `producer_snapshot` stores the state on disk.

A leader that verifies transactions appends transactional data only inside of an open transaction, or with the
guard of one (`producer_guards`).

The first unstable offset is the start of the oldest transaction that is open, or whose marker is still above
the high watermark (Kafka classes `ProducerStateManager`, `ProducerStateEntry`, `ProducerAppendInfo`).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_header import CONTROL_BIT, TRANSACTIONAL_BIT
from kcli.protocol.records.control_records import ControlRecordType, parse_control_key, parse_end_txn_marker
from kcli.protocol.records.record import NO_PRODUCER_EPOCH, NO_SEQUENCE
from kcli.storage.index.transaction_index import AbortedTransaction
from kcli.storage.producers.producer_entry import (
    MAX_SEQUENCE,
    NO_OFFSET,
    BatchMetadata,
    ProducerStateEntry,
)
from kcli.storage.producers.producer_guards import ProducerGuards

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kcli.protocol.records.control_records import EndTxnMarker
    from kcli.protocol.records.message_set import LegacyEntry
    from kcli.protocol.topics import TopicPartition
    from kcli.storage.producers.producer_guards import ProducerGuard


MAX_PRODUCER_EPOCH = 2**15 - 1
NO_TRANSACTION_VERSION = -1
EPOCH_RAISED_FROM = 2
"""The first `transaction.version` whose markers have a higher epoch than the records that they end."""
_SPECIAL_BITS = TRANSACTIONAL_BIT | CONTROL_BIT


class ProducerStateManager:
    """The producers of one partition, up to `map_end_offset`."""

    __slots__ = (
        "_ongoing",
        "_unreplicated",
        "guards",
        "loaded_offset",
        "map_end_offset",
        "producer_id_expiration_ms",
        "producers",
        "topic_partition",
        "verifies_transactions",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        *,
        producer_id_expiration_ms: int,
        verifies_transactions: bool = False,
    ) -> None:
        self.topic_partition = topic_partition
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self.verifies_transactions = verifies_transactions
        self.producers: dict[int, ProducerStateEntry] = {}
        self.guards = ProducerGuards()
        self.map_end_offset = 0
        self.loaded_offset = 0
        """Up to where a snapshot has told the state; `load` knows no transaction that ended below."""
        # The first offset of each transaction: to its producer, in ascending order; to its marker.
        self._ongoing: dict[int, int] = {}
        self._unreplicated: dict[int, int] = {}

    def begin_guard(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, is_tv2: bool, now_ms: int
    ) -> ProducerGuard | None:
        """Return the guard that a batch needs, None if its transaction is open here.

        Raises `KafkaError` INVALID_PRODUCER_EPOCH.
        """
        entry = self.producers.get(producer_id)
        if entry is not None:
            if producer_epoch < entry.producer_epoch:
                raise _older_epoch(producer_epoch, entry, self.topic_partition)
            if entry.has_open_transaction(producer_epoch):
                return None
        return self.guards.begin(producer_id, base_sequence, producer_epoch, is_tv2=is_tv2, now_ms=now_ms)

    def check(
        self,
        batches: Sequence[RecordBatch | LegacyEntry],
        origin: AppendOrigin,
        *,
        guard: ProducerGuard | None = None,
        transaction_version: int = 0,
    ) -> Continuation | ProducerAppends | BatchMetadata | None:
        """Return what to publish after the batches are written, or the batch that one of them repeats.

        None if no batch has a producer id. `guard` is that of a transactional batch, `transaction_version`
        that of a marker. Raises as `ProducerAppends.check` does.
        """
        if len(batches) == 1:
            batch = batches[0]
            if batch.producer_id < 0:
                return None
            entry = self.producers.get(batch.producer_id)
            if (
                entry is not None
                and isinstance(batch, RecordBatch)
                and not batch.attributes & _SPECIAL_BITS
                and entry.is_continued_by(batch.producer_epoch, batch.base_sequence)
            ):
                return Continuation(entry, batch)
        elif all(batch.producer_id < 0 for batch in batches):
            return None
        appends = ProducerAppends(self, guard, transaction_version)
        return appends.check(batches, origin) or appends

    def replay(self, batch: RecordBatch | LegacyEntry) -> Sequence[AbortedTransaction]:
        """Apply one batch of the log; return the transactions that it aborts. Raises `CorruptRecord`."""
        aborted: Sequence[AbortedTransaction] = ()
        if batch.producer_id >= 0:
            appends = ProducerAppends(self)
            appends.check((batch,), AppendOrigin.REPLICATION)
            aborted = appends.publish()
        self.map_end_offset = batch.last_offset + 1
        return aborted

    def update(self, append: ProducerAppendInfo) -> None:
        """Apply the batches of one producer after they were written."""
        new = append.entry
        current = self.producers.get(new.producer_id)
        if current is None:
            self.producers[new.producer_id] = new
        else:
            current.set_epoch(new.producer_epoch)
            current.batches.extend(new.batches)
            current.coordinator_epoch = new.coordinator_epoch
            current.current_txn_first_offset = new.current_txn_first_offset
            current.last_timestamp = new.last_timestamp
        for first_offset in append.started_transactions:
            is_last = not self._ongoing or next(reversed(self._ongoing)) < first_offset
            self._ongoing[first_offset] = new.producer_id
            if not is_last:  # A follower's append has batches of several producers.
                self._ongoing = dict(sorted(self._ongoing.items()))

    def complete(self, transaction: CompletedTransaction) -> None:
        """End a transaction; it stays unstable until the high watermark passes its marker."""
        del self._ongoing[transaction.first_offset]
        self._unreplicated[transaction.first_offset] = transaction.last_offset

    def last_stable_offset(self, transaction: CompletedTransaction) -> int:
        """Return the last stable offset after the end of `transaction`.

        A follower's append may have begun other transactions behind the end; readers must not take them for
        decided (Kafka's class `ProducerStateManager` does).
        """
        end = transaction.last_offset + 1
        for first_offset, producer_id in self._ongoing.items():
            if producer_id != transaction.producer_id:
                return min(first_offset, end)
        return end

    @property
    def first_unstable_offset(self) -> int | None:
        """The start of the oldest transaction open or ended above the high watermark, None without one."""
        if not self._ongoing and not self._unreplicated:
            return None
        first = next(iter(self._ongoing), None)
        if self._unreplicated:
            # Transactions end in any order, but few have ended since the high watermark moved last.
            oldest_ended = min(self._unreplicated)
            if first is None or oldest_ended < first:
                return oldest_ended
        return first

    def add_ended(self, other: ProducerStateManager) -> None:
        """Add the transactions whose markers another state of the same log has above the high watermark."""
        self._unreplicated |= other._unreplicated

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Drop the ended transactions whose markers are below the high watermark."""
        if self._unreplicated:
            self._unreplicated = {
                first: last for first, last in self._unreplicated.items() if last >= high_watermark
            }

    def log_start_moved(self, log_start_offset: int) -> None:
        """Drop the transactions that ended below the log start."""
        self.high_watermark_moved(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)

    def is_expired(self, entry: ProducerStateEntry, now_ms: int) -> bool:
        """Whether a producer without an open transaction has been silent too long."""
        idle_ms = now_ms - entry.last_timestamp
        return entry.current_txn_first_offset < 0 and idle_ms >= self.producer_id_expiration_ms

    def remove_expired(self, now_ms: int) -> int:
        """Remove the producers that have been silent too long; return how many."""
        expired = [
            producer_id for producer_id, entry in self.producers.items() if self.is_expired(entry, now_ms)
        ]
        for producer_id in expired:
            del self.producers[producer_id]
        if self.guards:
            self.guards.remove_expired(now_ms, self.producer_id_expiration_ms)
        return len(expired)

    def load(self, entries: list[ProducerStateEntry], *, end_offset: int, now_ms: int) -> None:
        """Replace the state by the entries of a snapshot, without those expired since."""
        self.clear(end_offset)
        for entry in entries:
            if not self.is_expired(entry, now_ms):
                self.producers[entry.producer_id] = entry
        open_ones = [entry for entry in self.producers.values() if entry.current_txn_first_offset >= 0]
        for entry in sorted(open_ones, key=lambda entry: entry.current_txn_first_offset):
            self._ongoing[entry.current_txn_first_offset] = entry.producer_id

    def clear(self, end_offset: int) -> None:
        """Make the state that of an empty log ending at `end_offset`."""
        self.producers.clear()
        self.guards.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self.map_end_offset = self.loaded_offset = end_offset


class AppendOrigin(Enum):
    """The source of an append, which decides the checks (Kafka class `AppendOrigin`)."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"


class CompletedTransaction(NamedTuple):
    """A transaction that a marker ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class ProducerAppendInfo:
    """The batches of one producer in one append: checked in order, kept until they are written.

    A client must continue the sequence of its epoch, or start at 0 with a new epoch; a producer unknown to
    the partition may start anywhere. An older epoch is refused. Replicated batches are not checked: their
    leader has checked them.
    """

    __slots__ = ("_current", "_guard", "_origin", "_topic_partition", "entry", "started_transactions")

    def __init__(
        self,
        topic_partition: TopicPartition,
        producer_id: int,
        current: ProducerStateEntry | None,
        origin: AppendOrigin,
        guard: ProducerGuard | None = None,
    ) -> None:
        self._topic_partition = topic_partition
        self._current = current
        self._origin = origin
        self._guard = guard
        self.started_transactions: list[int] = []
        self.entry = ProducerStateEntry(producer_id)
        if current is not None:
            self.entry.producer_epoch = current.producer_epoch
            self.entry.coordinator_epoch = current.coordinator_epoch
            self.entry.last_timestamp = current.last_timestamp
            self.entry.current_txn_first_offset = current.current_txn_first_offset

    def add_batch(self, batch: RecordBatch) -> None:
        """Check a data batch and remember it.

        Raises `KafkaError` INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER or INVALID_TXN_STATE.
        """
        entry, producer_epoch, first_offset = self.entry, batch.producer_epoch, batch.base_offset
        is_transactional = batch.is_transactional
        self._check_epoch(producer_epoch)
        if self._origin is AppendOrigin.CLIENT:
            self._check_sequence(producer_epoch, batch.base_sequence, first_offset)
        if entry.current_txn_first_offset >= 0 and not is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {entry.producer_id} wrote outside its open transaction: {self._topic_partition}",
            )
        entry.set_epoch(producer_epoch)
        entry.add(batch.last_sequence, first_offset, batch.last_offset, batch.max_timestamp)
        if is_transactional and entry.current_txn_first_offset < 0:
            entry.current_txn_first_offset = first_offset
            self.started_transactions.append(first_offset)

    def add_marker(
        self,
        marker: EndTxnMarker,
        *,
        producer_epoch: int,
        offset: int,
        timestamp: int,
        transaction_version: int,
    ) -> CompletedTransaction | None:
        """Check a transaction marker and remember it; return the transaction it ends, if one is open.

        Raises `KafkaError` INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED or UNKNOWN_SERVER_ERROR.
        """
        entry = self.entry
        self._check_epoch(producer_epoch)
        if self._origin is not AppendOrigin.REPLICATION:
            self._check_marker(marker, producer_epoch, offset, transaction_version)
        completed = None
        if entry.current_txn_first_offset >= 0:
            is_aborted = marker.control_type is ControlRecordType.ABORT
            completed = CompletedTransaction(
                entry.producer_id, entry.current_txn_first_offset, offset, is_aborted
            )
        entry.set_epoch(producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.current_txn_first_offset = NO_OFFSET
        entry.last_timestamp = timestamp
        return completed

    def _check_marker(
        self, marker: EndTxnMarker, producer_epoch: int, offset: int, transaction_version: int
    ) -> None:
        """Check what a leader must: the coordinator, and with version 2 that the epoch was raised.

        A marker that has the known epoch ends no later transaction. It passes as a repetition if none is
        open, and with the highest epoch, which cannot be raised (KAFKA-19999). A marker without
        any version is refused.
        """
        entry = self.entry
        if transaction_version == NO_TRANSACTION_VERSION:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "a marker needs a transaction version")
        if (
            transaction_version >= EPOCH_RAISED_FROM
            and producer_epoch == entry.producer_epoch
            and entry.current_txn_first_offset >= 0
            and producer_epoch < MAX_PRODUCER_EPOCH
        ):
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a marker with epoch {producer_epoch} ends no transaction of this epoch of producer "
                f"{entry.producer_id}: {self._topic_partition} at offset {offset}",
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {marker.coordinator_epoch} of producer {entry.producer_id} is older than "
                f"{entry.coordinator_epoch}: {self._topic_partition}",
            )

    def _check_epoch(self, producer_epoch: int) -> None:
        if producer_epoch < self.entry.producer_epoch and self._origin is not AppendOrigin.REPLICATION:
            raise _older_epoch(producer_epoch, self.entry, self._topic_partition)

    def _check_sequence(self, producer_epoch: int, base_sequence: int, offset: int) -> None:
        entry, current, guard = self.entry, self._current, self._guard
        if guard is not None:
            # A producer with an epoch for each transaction begins each with sequence 0.
            must_begin = guard.raises_epochs and (current is None or not current.batches)
            highest = 0 if must_begin else guard.lowest_sequence
            if base_sequence > highest:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"sequence {base_sequence} of producer {entry.producer_id} comes before {highest}: "
                    f"{self._topic_partition} at offset {offset}",
                )
        if producer_epoch != entry.producer_epoch:
            in_order = base_sequence == 0 or entry.producer_epoch == NO_PRODUCER_EPOCH
            expected = 0
        else:
            if entry.batches:
                last_sequence = entry.batches[-1].last_sequence
            elif current is not None and producer_epoch == current.producer_epoch:
                last_sequence = current.last_sequence
            else:
                last_sequence = NO_SEQUENCE
            expected = 0 if last_sequence == MAX_SEQUENCE else last_sequence + 1
            # Any start is valid without a known epoch, as after retention deleted all its records.
            unknown = not entry.batches and (current is None or current.producer_epoch == NO_PRODUCER_EPOCH)
            in_order = unknown or base_sequence == expected
        if not in_order:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"sequence {base_sequence} of producer {entry.producer_id} epoch {producer_epoch}, expected "
                f"{expected}: {self._topic_partition} at offset {offset}",
            )


class Continuation:
    """A batch that continues its producer's sequence, as nearly every one does."""

    __slots__ = ("_batch", "_entry")

    def __init__(self, entry: ProducerStateEntry, batch: RecordBatch) -> None:
        self._entry = entry
        self._batch = batch

    def publish(self) -> Sequence[AbortedTransaction]:
        """Apply the batch after it was written; it aborts no transaction."""
        batch = self._batch
        self._entry.add(batch.last_sequence, batch.base_offset, batch.last_offset, batch.max_timestamp)
        return ()


class ProducerAppends:
    """The batches of one append, checked against their producers and published after the write."""

    __slots__ = ("_appends", "_completed", "_guard", "_state", "_transaction_version", "_transactional")

    def __init__(
        self,
        state: ProducerStateManager,
        guard: ProducerGuard | None = None,
        transaction_version: int = 0,
    ) -> None:
        self._state = state
        self._guard = guard
        self._transaction_version = transaction_version
        self._appends: dict[int, ProducerAppendInfo] = {}
        self._completed: list[CompletedTransaction] = []
        self._transactional: list[RecordBatch] = []

    def check(
        self, batches: Iterable[RecordBatch | LegacyEntry], origin: AppendOrigin
    ) -> BatchMetadata | None:
        """Check the batches with a producer id; return the earlier batch that one of them repeats, if any.

        Raises `KafkaError` as `ProducerAppendInfo` does, INVALID_TXN_STATE too for transactional data without
        an open transaction or its guard, and `CorruptRecord` for a malformed control batch.
        """
        for batch in batches:
            producer_id = batch.producer_id
            if producer_id < 0 or not isinstance(batch, RecordBatch):
                continue
            known = self._state.producers.get(producer_id)
            if origin is AppendOrigin.CLIENT and known is not None:
                duplicate = known.find_duplicate(
                    batch.producer_epoch, batch.base_sequence, batch.last_sequence
                )
                if duplicate is not None:
                    return duplicate
            if batch.is_transactional:
                self._transactional.append(batch)
                if origin is not AppendOrigin.REPLICATION and not batch.is_control:
                    self._check_transaction(batch, known)
            append = self._appends.get(producer_id)
            if append is None:
                append = self._appends[producer_id] = ProducerAppendInfo(
                    self._state.topic_partition,
                    producer_id,
                    known,
                    origin,
                    self._state.guards.get(producer_id),
                )
            if batch.is_control:
                self._add_marker(append, batch)
            else:
                append.add_batch(batch)
        return None

    def _check_transaction(self, batch: RecordBatch, known: ProducerStateEntry | None) -> None:
        producer_id, producer_epoch, state = batch.producer_id, batch.producer_epoch, self._state
        if known is not None:
            if producer_epoch < known.producer_epoch:
                raise _older_epoch(producer_epoch, known, state.topic_partition)
            if known.has_open_transaction(producer_epoch):
                return
        has_guard = self._guard is not None and state.guards.get(producer_id) is self._guard
        if state.verifies_transactions and not has_guard:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"no transaction of producer {producer_id} epoch {producer_epoch} is open or verified: "
                f"{state.topic_partition}",
            )

    def _add_marker(self, append: ProducerAppendInfo, batch: RecordBatch) -> None:
        record = next(iter(batch.records()), None)
        if record is None:
            # Compaction leaves a control batch without its record for the epoch; the transaction is all gone.
            append.entry.set_epoch(batch.producer_epoch)
            append.entry.last_timestamp = batch.max_timestamp
            return
        if parse_control_key(record.key) in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
            transaction = append.add_marker(
                parse_end_txn_marker(record),
                producer_epoch=batch.producer_epoch,
                offset=batch.base_offset,
                timestamp=record.timestamp,
                transaction_version=self._transaction_version,
            )
            if transaction is not None:
                self._completed.append(transaction)

    def publish(self) -> Sequence[AbortedTransaction]:
        """Apply the batches after they were written; return the transactions that they abort."""
        for append in self._appends.values():
            self._state.update(append)
        if self._state.guards:
            self._remove_guards()
        aborted = []
        for transaction in self._completed:
            if transaction.is_aborted:
                producer_id, first_offset, last_offset, _ = transaction
                stable = self._state.last_stable_offset(transaction)
                aborted.append(AbortedTransaction(producer_id, first_offset, last_offset, stable))
            self._state.complete(transaction)
        return aborted

    def _remove_guards(self) -> None:
        guards = self._state.guards
        for batch in self._transactional:
            if batch.is_control:
                guards.marker_appended(batch.producer_id, batch.producer_epoch)
            else:
                guards.batch_appended(batch.producer_id)


def _older_epoch(
    producer_epoch: int, known: ProducerStateEntry, topic_partition: TopicPartition
) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"epoch {producer_epoch} of producer {known.producer_id} is older than {known.producer_epoch}: "
        f"{topic_partition}",
    )
