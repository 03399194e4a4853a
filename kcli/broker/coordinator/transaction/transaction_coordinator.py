"""TransactionCoordinator: the transactional ids of one partition of `__transaction_state` (Kafka classes
`TransactionCoordinator`, `TransactionStateManager`).

Pure: events in, effects out. Each step of an id is one record. A step is seen by `replay` as soon as the
record is in the log, but it counts only once the record is committed: until then the id has a `Transition`,
and all but reading requests get CONCURRENT_TRANSACTIONS. From the decision to end a transaction to the record
that completes it there is one transition:

    Prepare... committed -> Markers sent -> every partition has its marker -> Complete... committed

Markers are sent only for what is committed: a decision that is lost with its leader must have left none.

Times are wall-clock times; a clock that is set back only postpones what is due.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

from kcli.broker.coordinator.effects import Append, CoordinatorRecord, Reply, Schedule, Send
from kcli.broker.coordinator.transaction import decisions
from kcli.broker.coordinator.transaction.messages import DropMarkers, Markers, TransitionEnded
from kcli.broker.coordinator.transaction.transaction import (
    NO_PARTITIONS,
    TV2,
    Producer,
    Transaction,
    check_transition,
)
from kcli.broker.coordinator.transaction.transaction_states import ONGOING, PREPARE_COMMIT
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.coordinator_records import TransactionLogKey
from kcli.protocol.messages.describe_transactions import TopicData
from kcli.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from kcli.protocol.topics import TopicPartition, by_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from kcli.broker.config.transaction_definitions import TransactionConfig
    from kcli.broker.coordinator.effects import Effect, Now, Token
    from kcli.broker.metadata.metadata_image import MetadataDelta
    from kcli.protocol.internal.coordinator_records import TransactionLogValue
    from kcli.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnTransaction

    Then = Callable[[Now, KafkaError | None], list[Effect]]
    Settled = Callable[[Now], list[Effect]]

COMPLETE_RETRY_MS = 500
"""How long after a failed write of Complete... it is tried again."""

TOMBSTONES_BYTES = 16 << 10
"""The most ids that are forgotten in one batch, in bytes of their names (or one, if it is longer)."""

TOMBSTONE_BATCHES = 2
"""The most batches of forgotten ids in one turn of the event loop."""

TURN_WRITES = 300
"""About the most records and markers that one turn of the event loop writes, where nothing else bounds it."""

_TIMEOUTS = "timeouts"
_EXPIRATION = "expiration"
_MARKERS = "markers"
_NEXT_TURN_MS = 10


class Transition:
    """An id on its way to another value.

    `record` is what was written last, and `after` what it means, None for a forgotten id; `is_written` tells
    whether it is in the log. `added` are the partitions that are in a transaction only once the record is
    committed. `remaining` are those that lack their marker; None while no markers are sent.
    """

    __slots__ = ("added", "after", "is_written", "record", "remaining")

    def __init__(
        self,
        record: CoordinatorRecord,
        after: Transaction | None,
        added: frozenset[TopicPartition] = NO_PARTITIONS,
    ) -> None:
        self.added = added
        self.remaining: set[TopicPartition] | None = None
        self.begin(record, after)

    def begin(self, record: CoordinatorRecord, after: Transaction | None) -> None:
        """Write a record."""
        self.record = record
        self.after = after
        self.is_written = False


class TransactionCoordinator:
    """The shard of a partition. `coordinator_epoch` is the leader epoch in which its node opened it.

    `level` returns the cluster's level of `transaction.version`; `new_id` returns a new producer id.
    """

    def __init__(
        self,
        partition: int,
        coordinator_epoch: int,
        config: TransactionConfig,
        *,
        level: Callable[[], int],
        new_id: Callable[[], int],
    ) -> None:
        self.partition = partition
        self.coordinator_epoch = coordinator_epoch
        self._config = config
        self._level = level
        self._new_id = new_id
        self._transactions: dict[str, Transaction] = {}
        self._ongoing: dict[str, None] = {}
        self._transitions: dict[str, Transition] = {}
        self._looks_for_timeouts = False
        self._timed_out: deque[str] = deque()
        """The ids that are yet to be aborted, of those that had timed out when the check began."""
        self._prepared: deque[Transaction] = deque()
        """The transactions that had ended when the shard was loaded, whose markers are yet to be sent."""

    def reconfigure(self, config: TransactionConfig) -> None:
        """Take over another configuration."""
        self._config = config

    # requests that read

    def transactions(self) -> Iterable[Transaction]:
        """Return all ids as the log has them."""
        return self._transactions.values()

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """Return an id as the log has it, without the partitions that have their marker.

        Raises `KafkaError` TRANSACTIONAL_ID_NOT_FOUND.
        """
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        transition = self._transitions.get(transactional_id)
        partitions: Iterable[TopicPartition] = transaction.partitions
        if transition is not None and transition.remaining is not None:
            partitions = transition.remaining
        return DescribedTransaction(
            transactional_id=transactional_id,
            transaction_state=transaction.state.label,
            transaction_timeout_ms=transaction.timeout_ms,
            transaction_start_time_ms=transaction.start_ms,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.epoch,
            topics=[
                TopicData(topic=topic, partitions=indexes)
                for topic, indexes in by_topic(sorted(partitions)).items()
            ],
        )

    # requests that write

    def init_producer(
        self,
        now: Now,
        token: Token,
        transactional_id: str,
        *,
        timeout_ms: int,
        expected: Producer | None,
    ) -> list[Effect]:
        """Begin a producer's session; the response is its `Producer`, or a `KafkaError`.

        Raises `KafkaError` if there is nothing to write.
        """
        if not 0 < timeout_ms <= self._config.max_timeout_ms:
            raise KafkaError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"the timeout must be above 0 and at most {self._config.max_timeout_ms} ms: {timeout_ms}",
            )
        self._check_settled(transactional_id)
        before = self._transactions.get(transactional_id)
        if before is None:
            after = decisions.new_transaction(
                transactional_id, timeout_ms, now_ms=now.wall_ms, new_id=self._new_id
            )
        else:
            after = decisions.init_producer(
                before,
                expected,
                timeout_ms,
                level=self._level(),
                now_ms=now.wall_ms,
                new_id=self._new_id,
            )
        if not after.state.is_prepared:
            return self._write(before, after, _answer(token, after.producer), self._end_with(after))
        again = KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, "the open transaction is being aborted")
        return self._prepare(before, after, _answer(token, again))

    def add_partitions(
        self, now: Now, token: Token, transaction: AddPartitionsToTxnTransaction, *, client_version: int
    ) -> list[Effect]:
        """Add partitions to a transaction, or verify them; the response has an error code of each."""
        partitions = [
            TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions
        ]
        try:
            return self._add(now, token, transaction, partitions, client_version)
        except KafkaError as error:
            return [Reply(token, dict.fromkeys(partitions, error.code))]

    def _add(
        self,
        now: Now,
        token: Token,
        transaction: AddPartitionsToTxnTransaction,
        partitions: list[TopicPartition],
        client_version: int,
    ) -> list[Effect]:
        transactional_id = transaction.transactional_id
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        before = self._transactions.get(transactional_id)
        producer = Producer(transaction.producer_id, transaction.producer_epoch)
        if transaction.verify_only:
            transition = self._transitions.get(transactional_id)
            added = NO_PARTITIONS if transition is None else transition.added
            return [Reply(token, decisions.verify_partitions(before, producer, partitions, added=added))]
        if before is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        self._check_settled(transactional_id)
        after = decisions.add_partitions(
            before, producer, frozenset(partitions), client_version=client_version, now_ms=now.wall_ms
        )
        if after is None:
            return [Reply(token, dict.fromkeys(partitions, ErrorCode.NONE))]

        def then(now: Now, error: KafkaError | None) -> list[Effect]:
            code = ErrorCode.NONE if error is None else error.code
            return [Reply(token, dict.fromkeys(partitions, code))]

        effects = self._write(before, after, then, self._end_with(after))
        return [*effects, *self._look_for_timeouts()]

    def end_transaction(
        self,
        now: Now,
        token: Token,
        transactional_id: str,
        producer: Producer,
        *,
        is_commit: bool,
        client_version: int,
    ) -> list[Effect]:
        """Commit or abort a transaction; the response is the producer that goes on, or a `KafkaError`.

        Raises `KafkaError` if there is nothing to write.
        """
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        before = self._transactions.get(transactional_id)
        if client_version >= TV2:
            if before is not None:
                self._check_settled(transactional_id)
            after = decisions.end_tv2(
                before, producer, is_commit=is_commit, now_ms=now.wall_ms, new_id=self._new_id
            )
        else:
            before = decisions.check_end_tv1(before, producer)
            self._check_settled(transactional_id)
            after = decisions.end_tv1(before, is_commit=is_commit, now_ms=now.wall_ms)
        if after is None:
            assert before is not None
            return [Reply(token, before.producer)]
        next_producer = decisions.complete(after, now_ms=now.wall_ms).producer
        return self._prepare(before, after, _answer(token, next_producer))

    # markers

    def markers_written(
        self,
        now: Now,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
    ) -> list[Effect]:
        """Note partitions that have their marker, or need none; the last one completes the transaction."""
        transition = self._marking(transactional_id, producer_id, producer_epoch)
        if transition is None:
            return []
        assert transition.remaining is not None
        transition.remaining.difference_update(partitions)
        return [] if transition.remaining else self._complete(now, transactional_id, transition)

    def markers_fenced(
        self, now: Now, transactional_id: str, producer_id: int, producer_epoch: int
    ) -> list[Effect]:
        """Give a transaction up: a partition has seen a newer coordinator or producer, who ends it.

        It stays as it is here, until this node stops to coordinate it.
        """
        transition = self._marking(transactional_id, producer_id, producer_epoch)
        if transition is not None:
            transition.remaining = None
        return []

    def _marking(self, transactional_id: str, producer_id: int, producer_epoch: int) -> Transition | None:
        """Return the transition of an id whose markers are being written for this producer."""
        transition = self._transitions.get(transactional_id)
        if transition is None or not transition.remaining or transition.after is None:
            return None
        return transition if transition.after.producer == (producer_id, producer_epoch) else None

    # life

    def replay(self, key: Any, value: Any, offset: int = -1, producer_id: int = -1) -> None:  # noqa: ANN401
        """Apply a record of the topic."""
        assert isinstance(key, TransactionLogKey)
        self._replay(key.transactional_id, value)

    def _replay(self, transactional_id: str, value: TransactionLogValue | None) -> None:
        transition = self._transitions.get(transactional_id)
        transaction = None
        if transition is not None and transition.record.value is value:
            transition.is_written = True
            transaction = transition.after
        elif value is not None:
            transaction = Transaction.from_value(transactional_id, value)
        if transaction is None:
            self._transactions.pop(transactional_id, None)
        else:
            self._transactions[transactional_id] = transaction
        if transaction is not None and transaction.state is ONGOING:
            self._ongoing[transactional_id] = None
        else:
            self._ongoing.pop(transactional_id, None)

    def replay_end(self, producer_id: int, is_commit: bool) -> None:
        """Ignore a marker: transactions write nothing into this topic."""

    def loaded(self, now: Now) -> list[Effect]:
        """Send the markers of transactions whose end was decided, once the log is committed."""
        for transaction in self._transactions.values():
            if transaction.state.is_prepared:
                transition = Transition(self._record(transaction), transaction)
                transition.is_written = True
                self._transitions[transaction.transactional_id] = transition
                self._prepared.append(transaction)
        effects = self._look_for_timeouts()
        if self._prepared:
            effects.append(Append((), settled=self._send_next_markers))
        return effects

    def _send_next_markers(self, now: Now) -> list[Effect]:
        """Send the markers of the next transactions that were prepared when the shard was loaded."""
        effects: list[Effect] = []
        left = TURN_WRITES
        while self._prepared and left > 0:
            transaction = self._prepared.popleft()
            effects += self._send_markers(now, self._transitions[transaction.transactional_id])
            left -= _writes_for(transaction)
        if self._prepared:
            effects.append(Schedule(_MARKERS, _NEXT_TURN_MS))
        return effects

    def unloaded(self, now: Now) -> list[Effect]:
        """End: the next leader sends the markers."""
        return [Send(DropMarkers(self.partition))]

    def image_changed(self, now: Now, delta: MetadataDelta) -> list[Effect]:
        return []

    # time

    def expire(self, now: Now, key: Hashable) -> list[Effect]:
        match key:
            case "timeouts":
                return self._abort_timed_out(now)
            case "expiration":
                return self.forget_expired(now)
            case "markers":
                return self._send_next_markers(now)
            case ("complete", str(transactional_id)):
                transition = self._transitions.get(transactional_id)
                if transition is not None and transition.remaining == set() and not transition.is_written:
                    return self._complete(now, transactional_id, transition)
        return []

    def _look_for_timeouts(self) -> list[Effect]:
        """Look at the open transactions after a while, if there are any."""
        if self._looks_for_timeouts or not (self._ongoing or self._transitions):
            return []
        self._looks_for_timeouts = True
        return [Schedule(_TIMEOUTS, self._config.timeout_check_interval_ms)]

    def _abort_timed_out(self, now: Now) -> list[Effect]:
        effects: list[Effect] = []
        due = self._timed_out
        if not due:
            due.extend(each for each in self._ongoing if self._is_timed_out(each, now))
        left = TURN_WRITES
        while due and left > 0:
            transactional_id = due.popleft()
            if not self._is_timed_out(transactional_id, now):
                continue
            before = self._transactions[transactional_id]
            try:
                after = decisions.fence(before, level=self._level(), now_ms=now.wall_ms, new_id=self._new_id)
            except KafkaError:
                # Without a producer id to go on with, the transaction is looked at again.
                continue
            effects += self._prepare(before, after, _no_answer)
            left -= _writes_for(after)
        if due:
            return [*effects, Schedule(_TIMEOUTS, _NEXT_TURN_MS)]
        self._looks_for_timeouts = False
        return [*effects, *self._look_for_timeouts()]

    def _is_timed_out(self, transactional_id: str, now: Now) -> bool:
        transaction = self._transactions.get(transactional_id)
        return (
            transaction is not None
            and transactional_id not in self._transitions
            and decisions.is_timed_out(transaction, now.wall_ms)
        )

    def forget_expired(self, now: Now) -> list[Effect]:
        """Write tombstones for ids that have been idle for too long."""
        batches = list(islice(self._expired_batches(now), TOMBSTONE_BATCHES))
        last = len(batches) - 1
        return [
            self._forget(batch, goes_on=number == last == TOMBSTONE_BATCHES - 1)
            for number, batch in enumerate(batches)
        ]

    def _expired_batches(self, now: Now) -> Iterator[list[str]]:
        batch: list[str] = []
        size = 0
        for transactional_id, transaction in list(self._transactions.items()):
            if transactional_id in self._transitions or not decisions.is_expired(
                transaction, now.wall_ms, self._config.id_expiration_ms
            ):
                continue
            if batch and size + len(transactional_id) > TOMBSTONES_BYTES:
                yield batch
                batch, size = [], 0
            batch.append(transactional_id)
            size += len(transactional_id)
        if batch:
            yield batch

    def _forget(self, transactional_ids: list[str], *, goes_on: bool) -> Effect:
        """Write tombstones; if it `goes_on`, look for more soon after they are committed."""
        transitions = {}
        for each in transactional_ids:
            tombstone = CoordinatorRecord(TransactionLogKey(transactional_id=each), None)
            transitions[each] = self._transitions[each] = Transition(tombstone, None)

        def end(now: Now) -> list[Effect]:
            return [effect for each in transactional_ids for effect in self._end(each)]

        def settled(now: Now) -> list[Effect]:
            return [*end(now), *([Schedule(_EXPIRATION, _NEXT_TURN_MS)] if goes_on else [])]

        def then(now: Now, error: KafkaError | None) -> list[Effect]:
            is_written = transitions[transactional_ids[0]].is_written
            return [] if error is None or is_written else end(now)

        return Append(tuple(each.record for each in transitions.values()), then, settled)

    # transitions

    def _check_settled(self, transactional_id: str) -> None:
        if transactional_id in self._transitions:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)

    def _write(
        self, before: Transaction | None, after: Transaction, then: Then, settled: Settled
    ) -> list[Effect]:
        """Begin a transition: write a value."""
        check_transition(before, after)
        added = after.partitions if before is None else after.partitions - before.partitions
        transition = Transition(self._record(after), after, added)
        self._transitions[after.transactional_id] = transition

        def replied(now: Now, error: KafkaError | None) -> list[Effect]:
            effects = then(now, error)
            if error is not None and not transition.is_written:
                effects += self._end(after.transactional_id)
            return effects

        return [Append((transition.record,), replied, settled)]

    def _record(self, after: Transaction) -> CoordinatorRecord:
        # Version 0 has no client version. Kafka cannot write a record of a TV2 client while the level is 0.
        version = 1 if self._level() > 0 or after.client_version > 0 else 0
        key = TransactionLogKey(transactional_id=after.transactional_id)
        return CoordinatorRecord(key, after.to_value(version), version)

    def _end_with(self, after: Transaction) -> Settled:
        return lambda now: self._end(after.transactional_id)

    def _end(self, transactional_id: str) -> list[Effect]:
        """End a transition: what has waited for it may be tried again."""
        del self._transitions[transactional_id]
        return [Send(TransitionEnded(transactional_id))]

    def _prepare(self, before: Transaction | None, after: Transaction, then: Then) -> list[Effect]:
        """Decide the end of a transaction, and send markers once the decision is committed."""

        def send(now: Now) -> list[Effect]:
            return self._send_markers(now, self._transitions[after.transactional_id])

        return self._write(before, after, then, send)

    def _send_markers(self, now: Now, transition: Transition) -> list[Effect]:
        after = transition.after
        assert after is not None
        transition.remaining = set(after.partitions)
        if not transition.remaining:
            return self._complete(now, after.transactional_id, transition)
        return [
            Send(
                Markers(
                    coordinator_partition=self.partition,
                    coordinator_epoch=self.coordinator_epoch,
                    transactional_id=after.transactional_id,
                    producer_id=after.producer_id,
                    producer_epoch=after.epoch,
                    is_commit=after.state is PREPARE_COMMIT,
                    transaction_version=after.client_version,
                    partitions=tuple(sorted(after.partitions)),
                )
            )
        ]

    def _complete(self, now: Now, transactional_id: str, transition: Transition) -> list[Effect]:
        before = self._transactions[transactional_id]
        after = decisions.complete(before, now_ms=now.wall_ms)
        check_transition(before, after)
        transition.begin(self._record(after), after)

        def then(now: Now, error: KafkaError | None) -> list[Effect]:
            if error is None or transition.is_written:
                return []
            # If this node coordinates the id no longer, the shard's timers end with it.
            return [Schedule(("complete", transactional_id), COMPLETE_RETRY_MS)]

        return [Append((transition.record,), then, self._end_with(after))]


def _writes_for(prepared: Transaction) -> int:
    """Return how many records and markers the end of a transaction causes."""
    return 2 + len(prepared.partitions)


def _answer(token: Token, response: object) -> Then:
    return lambda now, error: [Reply(token, response if error is None else error)]


def _no_answer(now: Now, error: KafkaError | None) -> list[Effect]:
    return []
