"""ShardHost: one shard on the node that leads its partition; it performs the shard's effects in order.

An append goes into the partition's log as one batch and is replayed at once; its `then` is called when the
high watermark has passed it, with one replica at once. A closed host performs only replies and sends: appends
fail with NOT_COORDINATOR.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kcli.broker.coordinator.effects import Append, Cancel, Marker, Reply, Schedule, Send, Token
from kcli.broker.replication.partition import ACKS_ALL
from kcli.broker.waiting.purgatory import DelayedOperation
from kcli.broker.waiting.timer import TimerTask
from kcli.protocol.compression.codecs import Codec
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.coordinator_records import encode_key, encode_value
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.record import NO_PRODUCER_ID
from kcli.protocol.schema.declaration import EncodeError
from kcli.storage.producers.producer_state import AppendOrigin

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from kcli.broker.coordinator.effects import Effect, Now
    from kcli.broker.metadata.metadata_image import MetadataDelta
    from kcli.broker.replication.partition import Partition
    from kcli.broker.waiting.purgatory import Purgatory

    Then = Callable[[Now, KafkaError | None], list[Effect]]
    Settled = Callable[[Now], list[Effect]]


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """The configuration of a coordinator's topic.

    `partitions` counts only until the topic exists. With `keeps_partition_count` another number of partitions
    than the first that the node has seen stops the coordinator, because names would have other shards.
    `sweep_interval_ms` is how often every shard is swept.
    """

    partitions: int = 50
    keeps_partition_count: bool = False
    load_buffer_bytes: int = 5 << 20
    commit_timeout_ms: int = 5000
    codec: Codec = Codec.NONE
    sweep_interval_ms: int = 600_000


class Shard(Protocol):
    """The pure state of one partition of an internal topic; `runtime.ask` calls its other methods."""

    def replay(self, key: Any, value: Any, offset: int = -1, producer_id: int = -1) -> None:  # noqa: ANN401
        """Apply a record of its topic that is in the log, in the log's order; the value None deletes.

        With a producer id it belongs to a transaction, whose end `replay_end` tells.
        """

    def replay_end(self, producer_id: int, is_commit: bool) -> None:
        """Apply the marker that ends the transaction of a producer, which may have no records here."""

    def loaded(self, now: Now) -> list[Effect]:
        """Begin: the whole log has been replayed."""

    def unloaded(self, now: Now) -> list[Effect]:
        """End: answer all parked requests. Appends fail from now on."""

    def expire(self, now: Now, key: Hashable) -> list[Effect]:
        """Handle a timer."""

    def image_changed(self, now: Now, delta: MetadataDelta) -> list[Effect]:
        """React to a change of the metadata."""


class CoordinatorResponse(DelayedOperation, Token):
    """The response to one request: there at once, or a connection parks on it.

    The wait has no timeout: a shard answers every token. If the client disconnects, the response is dropped.
    """

    __slots__ = ("_shape", "response")

    def __init__(self, shape: Callable[[Any], Any] | None) -> None:
        super().__init__()
        self._shape = shape
        self.response: Any = None

    def give(self, response: object) -> None:
        """Set the response; only the first call counts."""
        if self.ended:
            return
        self.ended = True
        self.response = response
        self.tell()

    def finish(self) -> Any:  # noqa: ANN401 - whatever the shard replied
        return self.response if self._shape is None else self._shape(self.response)


class ShardTimer(TimerTask):
    __slots__ = ("_host", "key")

    def __init__(self, host: ShardHost[Any], key: Hashable) -> None:
        super().__init__()
        self._host = host
        self.key = key

    def fall_due(self) -> None:
        self._host.expire(self)


class PendingAppend(DelayedOperation):
    """A batch that is not committed yet; `is_flushed` is false if `flush.messages` requires a flush."""

    __slots__ = ("_host", "is_flushed", "required_offset", "settled", "then")

    def __init__(
        self, host: ShardHost[Any], required_offset: int, then: Then | None, settled: Settled | None = None
    ) -> None:
        super().__init__()
        self._host = host
        self.required_offset = required_offset
        self.then = then
        self.settled = settled
        self.is_flushed = True

    def try_complete(self, key: Hashable) -> bool:
        if not self.is_flushed or not self._host.is_next(self):
            return False
        code = self._host.partition.replication_error(self.required_offset)
        if code is None:
            return False
        self._host.settle(self, code)
        return True

    def fall_due(self) -> None:
        if not self.ended:
            super().fall_due()
            self._host.settle(self, ErrorCode.REQUEST_TIMED_OUT)


class LateAppend(DelayedOperation):
    """A batch whose `then` got a time-out, and that may still be committed."""

    __slots__ = ("_host", "_pending")

    def __init__(self, host: ShardHost[Any], pending: PendingAppend) -> None:
        super().__init__()
        self._host = host
        self._pending = pending

    def try_complete(self, key: Hashable) -> bool:
        pending = self._pending
        if self._host.is_closed:
            return True
        code = self._host.partition.replication_error(pending.required_offset)
        if not pending.is_flushed or code not in _COMMITTED:
            return False
        self._host.settle_late(self, pending)
        return True

    def fall_due(self) -> None:
        if not self.ended:
            super().fall_due()
            self._host.await_longer(self, self._pending)


S = TypeVar("S", bound=Shard)

_LATE_MS = 3_600_000
"""After so long a batch that is not committed yet is parked again, which changes nothing."""

_COMMITTED = frozenset({ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
"""The results of a batch below the high watermark."""

SWEEP_GAP_MS = 10
"""The distance between the sweeps of neighbouring shards, so that they do not all run at once."""

_SWEEP = object()
"""The key of the host's own timer."""

_log = logging.getLogger(__name__)

_COORDINATOR_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The coordinator's errors for the partition's errors (Kafka class `CoordinatorOperationExceptionHelper`)."""


class ShardHost(Generic[S]):
    """A shard with its timers, and its batches that are not committed yet."""

    __slots__ = (
        "_clock", "_codec", "_commit_timeout_ms", "_flush", "_late", "_pending", "_purgatory", "_send",
        "_sweep", "_sweep_interval_ms", "_timers", "is_closed", "is_loaded", "leader_epoch", "partition",
        "shard",
    )  # fmt: skip

    def __init__(
        self,
        shard: S,
        partition: Partition,
        *,
        purgatory: Purgatory,
        clock: Callable[[], Now],
        settings: CoordinatorSettings,
        flush: Callable[[PendingAppend], None],
        sweep: Callable[[S, Now], list[Effect]],
        send: Callable[[Any], None],
    ) -> None:
        self.shard = shard
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        """That of the moment at which this node became the leader: the shard's epoch."""
        self.is_loaded = False
        self.is_closed = False
        self._purgatory = purgatory
        self._clock = clock
        self._codec = settings.codec
        self._commit_timeout_ms = settings.commit_timeout_ms
        self._sweep_interval_ms = settings.sweep_interval_ms
        self._flush = flush
        self._sweep = sweep
        self._send = send
        self._timers: dict[Hashable, ShardTimer] = {}
        self._pending: dict[PendingAppend, None] = {}
        self._late: dict[LateAppend, None] = {}

    def begin(self) -> None:
        """Begin to serve: the whole log has been replayed."""
        self.is_loaded = True
        now = self._clock()
        self.perform(self.shard.loaded(now), now)
        self._schedule(_SWEEP, self._sweep_interval_ms + self.partition.index * SWEEP_GAP_MS, now)

    def tell(self, delta: MetadataDelta) -> None:
        now = self._clock()
        self.perform(self.shard.image_changed(now, delta), now)

    def expire(self, timer: ShardTimer) -> None:
        """Pass a timer to the shard, unless it was cancelled since it fell due."""
        if self._timers.get(timer.key) is timer:
            del self._timers[timer.key]
            now = self._clock()
            if timer.key is _SWEEP:
                self._schedule(_SWEEP, self._sweep_interval_ms, now)
                self.perform(self._sweep(self.shard, now), now)
            else:
                self.perform(self.shard.expire(now, timer.key), now)

    def unsettled(self) -> CoordinatorResponse | None:
        """Return an operation that ends once the whole log is committed; None if it is.

        The reply is None, or the `KafkaError` that prevented the commit.
        """
        log = self.partition.log
        if not self._pending and log.high_watermark >= log.log_end_offset:
            return None
        response = CoordinatorResponse(None)
        self._await_commit(log.log_end_offset, lambda now, error: [Reply(response, error)])
        return response

    def is_next(self, pending: PendingAppend) -> bool:
        """Return whether no batch before `pending` waits: batches are settled in order."""
        return next(iter(self._pending)) is pending

    def settle(self, pending: PendingAppend, code: ErrorCode) -> None:
        """Call `then` of a batch with the result of its replication, and `settled` if it is committed."""
        if self._pending.pop(pending, False) is None:
            if self._pending:
                self._purgatory.touch(self.partition.key)
            now = self._clock()
            if pending.then is not None:
                self.perform(pending.then(now, _error(code)), now)
            if pending.settled is None or self.is_closed:
                return
            if code in _COMMITTED:
                self.perform(pending.settled(now), now)
            else:
                self.await_late(pending)

    def await_late(self, pending: PendingAppend) -> None:
        """Wait on for the commit of a batch whose `then` has been called."""
        late = LateAppend(self, pending)
        self._late[late] = None
        self._purgatory.park(late, [self.partition.key], _LATE_MS)

    def await_longer(self, late: LateAppend, pending: PendingAppend) -> None:
        """Wait on after `late`, whose time is up."""
        del self._late[late]
        self.await_late(pending)

    def settle_late(self, late: LateAppend, pending: PendingAppend) -> None:
        del self._late[late]
        if pending.settled is not None:
            now = self._clock()
            self.perform(pending.settled(now), now)

    def close(self) -> None:
        """End the shard: answer all waiting requests and cancel all timers."""
        if self.is_closed:
            return
        self.is_closed = True
        for timer in self._timers.values():
            self._purgatory.timer.cancel(timer)
        self._timers.clear()
        now = self._clock()
        pending, self._pending = self._pending, {}
        for each in pending:
            self._purgatory.drop(each)
            if each.then is not None:
                self.perform(each.then(now, KafkaError(ErrorCode.NOT_COORDINATOR)), now)
        for late in self._late:
            self._purgatory.drop(late)
        self._late.clear()
        if self.is_loaded:
            self.perform(self.shard.unloaded(now), now)

    def perform(self, effects: Iterable[Effect], now: Now) -> None:
        for effect in effects:
            match effect:
                case Reply(token, response):
                    assert isinstance(token, CoordinatorResponse)
                    token.give(response)
                case Append():
                    self._append(effect, now)
                case Marker():
                    self._append_marker(effect, now)
                case Schedule(key, delay_ms):
                    self._schedule(key, delay_ms, now)
                case Cancel(key):
                    self._cancel(key)
                case Send(message):
                    self._send(message)

    def _schedule(self, key: Hashable, delay_ms: int, now: Now) -> None:
        self._cancel(key)
        if not self.is_closed:
            timer = self._timers[key] = ShardTimer(self, key)
            # Never at once: the timer's task handles it.
            self._purgatory.timer.add(timer, max(delay_ms, 1), now.ms)

    def _cancel(self, key: Hashable) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            self._purgatory.timer.cancel(timer)

    def _append(self, append: Append, now: Now) -> None:
        try:
            offset = self._write(append, now)
        except KafkaError as error:
            self._not_written(append, error, now)
            return
        producer_id = NO_PRODUCER_ID if append.producer is None else append.producer.producer_id
        for record in append.records:
            self.shard.replay(record.key, record.value, offset, producer_id)
            offset += 1
        if append.then is not None or append.settled is not None:
            self._call_when_committed(offset, append.then, append.settled, now)

    def _append_marker(self, effect: Marker, now: Now) -> None:
        marker, then = effect.marker, effect.then
        try:
            self._check_writable()
            offset = self.partition.append_marker(marker, now_ms=now.wall_ms).last_offset
        except KafkaError as error:
            self.perform(then(now, as_coordinator_error(error)), now)
            return
        self.shard.replay_end(marker.producer_id, marker.is_commit)
        self._call_when_committed(offset + 1, then, None, now)

    def _call_when_committed(
        self, required_offset: int, then: Then | None, settled: Settled | None, now: Now
    ) -> None:
        partition = self.partition
        code = partition.replication_error(required_offset)
        if code is None or partition.log.must_flush or self._pending:
            self._await_commit(required_offset, then, settled)
            return
        if then is not None:
            self.perform(then(now, _error(code)), now)
        if settled is not None and code in _COMMITTED:
            self.perform(settled(now), now)

    def _await_commit(self, required_offset: int, then: Then | None, settled: Settled | None = None) -> None:
        pending = PendingAppend(self, required_offset, then, settled)
        self._pending[pending] = None
        self._purgatory.park(pending, [self.partition.key], self._commit_timeout_ms)
        if self.partition.log.must_flush:
            pending.is_flushed = False
            self._flush(pending)

    def _write(self, append: Append, now: Now) -> int:
        """Write records as one batch; return the first offset. Raises `KafkaError`."""
        self._check_writable()
        partition = self.partition
        if not append.records:
            return partition.log.log_end_offset
        validated = partition.log.validator.validate(
            self._batch(append, now), now_ms=now.wall_ms, origin=AppendOrigin.COORDINATOR
        )
        guard = None if append.producer is None else append.producer.guard
        info = partition.append_validated(validated, acks=ACKS_ALL, now_ms=now.wall_ms, guard=guard)
        return info.first_offset

    def _check_writable(self) -> None:
        if self.is_closed:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the coordinator has moved")
        if self.partition.writing is not None:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "another write to the partition is under way")

    def _batch(self, append: Append, now: Now) -> bytearray:
        builder = RecordBatchBuilder(codec=self._codec)
        producer = append.producer
        if producer is not None:
            builder.producer_id, builder.producer_epoch = producer.producer_id, producer.producer_epoch
            builder.is_transactional = True
        try:
            for record in append.records:
                value = None if record.value is None else encode_value(record.value, record.version)
                builder.append(now.wall_ms, encode_key(record.key), value)
        except EncodeError as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, error.message) from error
        return builder.build()

    def _not_written(self, append: Append, error: KafkaError, now: Now) -> None:
        count = len(append.records)
        if append.then is not None:
            self.perform(append.then(now, as_coordinator_error(error)), now)
        elif error.code == ErrorCode.MESSAGE_TOO_LARGE and count > 1:
            # No request waits for the batch, so it may be split.
            middle = count // 2
            self._append(replace(append, records=append.records[:middle]), now)
            self._append(replace(append, records=append.records[middle:]), now)
        elif not self.is_closed:
            topic, index = self.partition.key
            _log.error("could not write %d records to %s-%d: %s", count, topic, index, error.message)


def as_coordinator_error(error: KafkaError) -> KafkaError:
    """Return the error that clients of a coordinator get for a partition's error."""
    code = _COORDINATOR_ERRORS.get(error.code)
    return error if code is None else KafkaError(code, error.message)


def _error(code: ErrorCode) -> KafkaError | None:
    return None if code == ErrorCode.NONE else as_coordinator_error(KafkaError(code))
