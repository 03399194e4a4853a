"""A test runtime for a shard of transactions: its log, timers and clock are lists and numbers.

Records are encoded into the log, so that a restart reads what a file would hold.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from kcli.broker.config.transaction_definitions import TransactionConfig
from kcli.broker.coordinator.effects import Append, Effect, Now, Reply, Schedule, Send, Token
from kcli.broker.coordinator.transaction.messages import DropMarkers, Markers, TransitionEnded
from kcli.broker.coordinator.transaction.transaction import Producer, Transaction
from kcli.broker.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.coordinator_records import (
    TransactionLogKey,
    decode_transaction_record,
    encode_key,
    encode_value,
)
from kcli.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kcli.protocol.topics import TopicPartition, by_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

START_MS = 1_700_000_000_000
ID = "tx"
A, B = TopicPartition("a", 0), TopicPartition("b", 1)
FIRST_PRODUCER_ID = 1000


class Call(Token):
    """One request, and its response."""

    __slots__ = ("responses",)

    def __init__(self) -> None:
        self.responses: list[Any] = []


class VirtualTransactions:
    """`append_error` makes writes fail; while `holds` is set, what is written is not committed.

    A test sees `messages`, and the response of a request: a value, the code of an error, or None for a
    request that waits.
    """

    def __init__(self, *, level: int = 2, config: TransactionConfig | None = None) -> None:
        self.level = level
        self.config = config or TransactionConfig()
        self.wall_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.messages: list[Any] = []
        self.timers: dict[Hashable, int] = {}
        self.append_error: ErrorCode | None = None
        self.holds = False
        self.held: list[Append] = []
        self.batches: list[int] = []
        """The number of records of each batch."""
        self.has_ids = True
        self.epoch = 0
        self._ids = itertools.count(FIRST_PRODUCER_ID)
        self.shard = self._new_shard()

    def _new_shard(self) -> TransactionCoordinator:
        return TransactionCoordinator(
            7, self.epoch, self.config, level=lambda: self.level, new_id=self._new_id
        )

    def _new_id(self) -> int:
        if not self.has_ids:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return next(self._ids)

    @property
    def now(self) -> Now:
        return Now(self.wall_ms, self.wall_ms)

    # requests

    def ask(self, event: Callable[[Now, Token], list[Effect]]) -> Any:
        call = Call()
        try:
            self.perform(event(self.now, call))
        except KafkaError as error:
            assert not call.responses
            return error.code
        return self.response(call)

    def response(self, call: Call) -> Any:
        if not call.responses:
            return None
        (response,) = call.responses
        return response.code if isinstance(response, KafkaError) else response

    def init(self, pair: tuple[int, int] | None = None, *, name: str = ID, timeout_ms: int = 60_000) -> Any:
        expected = None if pair is None else Producer(*pair)
        return self.ask(
            lambda now, call: self.shard.init_producer(
                now, call, name, timeout_ms=timeout_ms, expected=expected
            )
        )

    def add(
        self,
        producer: tuple[int, int],
        *partitions: TopicPartition,
        name: str = ID,
        version: int = 2,
        verify: bool = False,
    ) -> Any:
        """Add partitions; the codes as a list, or one of all."""
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=producer[0],
            producer_epoch=producer[1],
            verify_only=verify,
            topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=indexes)
                for topic, indexes in by_topic(partitions).items()
            ],
        )
        codes = self.ask(
            lambda now, call: self.shard.add_partitions(now, call, transaction, client_version=version)
        )
        if codes is None:
            return None
        assert set(codes) == set(partitions)
        distinct = set(codes.values())
        return distinct.pop() if len(distinct) == 1 else [codes[each] for each in partitions]

    def end(self, producer: tuple[int, int], commit: bool = True, *, name: str = ID, version: int = 2) -> Any:
        return self.ask(
            lambda now, call: self.shard.end_transaction(
                now, call, name, Producer(*producer), is_commit=commit, client_version=version
            )
        )

    # what the node does

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Reply(token, response):
                    assert isinstance(token, Call)
                    token.responses.append(response)
                case Append():
                    self._append(effect)
                case Schedule(key, delay_ms):
                    self.timers[key] = self.wall_ms + delay_ms
                case Send(message):
                    self.messages.append(message)
                case _:
                    raise AssertionError(effect)

    def _append(self, append: Append) -> None:
        if self.append_error is not None and append.records:
            assert append.then is not None
            self.perform(append.then(self.now, KafkaError(self.append_error)))
            return
        if append.records:
            self.batches.append(len(append.records))
        for record in append.records:
            value = None if record.value is None else encode_value(record.value, record.version)
            self.log.append((encode_key(record.key), value))
            self.shard.replay(record.key, record.value, len(self.log) - 1)
        if self.holds or self.held:
            self.held.append(append)
        else:
            self._commit(append)

    def _commit(self, append: Append) -> None:
        if append.then is not None:
            self.perform(append.then(self.now, None))
        if append.settled is not None:
            self.perform(append.settled(self.now))

    def time_out_held(self) -> None:
        """Tell whoever waits for a commit that it takes too long."""
        for append in self.held:
            if append.then is not None:
                self.perform(append.then(self.now, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)))

    def settle_held(self) -> None:
        """Commit what was timed out."""
        self.holds = False
        held, self.held = self.held, []
        for append in held:
            if append.settled is not None:
                self.perform(append.settled(self.now))

    def commit_held(self) -> None:
        self.holds = False
        held, self.held = self.held, []
        for append in held:
            self._commit(append)

    def take_markers(self) -> list[Markers]:
        """Return the markers that were sent since."""
        taken = [each for each in self.messages if isinstance(each, Markers)]
        self.messages = [each for each in self.messages if not isinstance(each, Markers)]
        return taken

    def ended(self) -> list[str]:
        """Return the ids whose transitions have ended since."""
        found = [each.transactional_id for each in self.messages if isinstance(each, TransitionEnded)]
        self.messages = [each for each in self.messages if not isinstance(each, TransitionEnded)]
        return found

    def write(self, markers: Markers, *partitions: TopicPartition) -> None:
        """Report partitions that have their marker, by default all."""
        self.perform(
            self.shard.markers_written(
                self.now,
                markers.transactional_id,
                markers.producer_id,
                markers.producer_epoch,
                partitions or markers.partitions,
            )
        )

    def write_all(self) -> None:
        for markers in self.take_markers():
            self.write(markers)

    def pass_time(self, ms: int) -> None:
        """Let timers fire in their order."""
        end = self.wall_ms + ms
        while self.timers:
            key = min(self.timers, key=lambda key: self.timers[key])
            if self.timers[key] > end:
                break
            self.wall_ms = max(self.wall_ms, self.timers.pop(key))
            self.perform(self.shard.expire(self.now, key))
        self.wall_ms = end

    def sweep(self) -> None:
        self.perform(self.shard.forget_expired(self.now))

    def restart(self, *, committed: bool = True) -> None:
        """Unload the shard, and load it in a new epoch."""
        self.perform(self.shard.unloaded(self.now))
        assert self.messages[-1] == DropMarkers(7)
        self.messages.clear()
        self.timers.clear()
        self.held.clear()
        self.epoch += 1
        self.holds = not committed
        self.shard = self._new_shard()
        for offset, (key, value) in enumerate(self.log):
            decoded = decode_transaction_record(key, value)
            self.shard.replay(decoded.key, decoded.value, offset)
        self.perform(self.shard.loaded(self.now))

    def preset(self, transaction: Transaction) -> None:
        """Put a record of an id into the log."""
        key = TransactionLogKey(transactional_id=transaction.transactional_id)
        self.log.append((encode_key(key), encode_value(transaction.to_value(1), 1)))
        self.shard.replay(key, transaction.to_value(1), len(self.log) - 1)

    def of(self, name: str = ID) -> Transaction | None:
        """Return an id as the shard has it."""
        return next((each for each in self.shard.transactions() if each.transactional_id == name), None)

    def values(self) -> list[Any]:
        """Return the values of the log, None for a tombstone."""
        return [decode_transaction_record(*each).value for each in self.log]

    def versions(self) -> list[int]:
        """Return the versions of the values of the log."""
        return [decode_transaction_record(*each).value_version for each in self.log]
