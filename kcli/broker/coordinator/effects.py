"""Effects: what a coordinator shard wants done, as values.

A shard takes an event (a request, a timer, a change of the metadata) and returns effects; the runtime
performs them in order. Hard state (offsets, stored generations, assignments) changes only in `replay` of a
record that is in the log, so a failed append needs no undo.

    def sync_group(self, now: Now, token: Token, request: SyncGroupRequest, ...) -> list[Effect]:
        ...
        return [Append((group.record(...),), then=lambda now, error: self._stored(now, ..., error))]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from kcli.protocol.error_codes import KafkaError
    from kcli.protocol.records.control_records import TransactionMarker
    from kcli.storage.producers.producer_guards import ProducerGuard


class Now(NamedTuple):
    """One moment on two clocks, in milliseconds.

    `ms` is monotonic and serves deadlines. `wall_ms` is the time of day and is what records store.
    """

    ms: int
    wall_ms: int


class Token:
    """Identifies a request that waits for its response; a shard replies to it exactly once."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CoordinatorRecord:
    """A record of an internal topic: a key and a value of `coordinator_records`; None deletes.

    `version` is that of the value, None for the one that Apache Kafka writes.
    """

    key: Any
    value: Any
    version: int | None = None


class BatchProducer(NamedTuple):
    """The transactional producer in whose name a batch is written.

    `guard` is that of its transaction in the shard's partition, None if the transaction is open there.
    """

    producer_id: int
    producer_epoch: int
    guard: ProducerGuard | None = None


@dataclass(frozen=True, slots=True)
class Append:
    """Write records as one batch, which belongs to a transaction if it has a `producer`.

    Once they are in the log, each is passed to the shard's `replay`. Once they are committed, `then(now,
    None)` is called and its effects are performed. If the write fails, or leadership is lost before the
    commit, it is `then(now, error)`; after a failed write nothing was replayed.

    `settled(now)` is called after `then`, once the high watermark has passed the batch, however late: a
    batch whose commit timed out can still be committed. It is not called if the shard is closed before.
    """

    records: tuple[CoordinatorRecord, ...]
    then: Callable[[Now, KafkaError | None], list[Effect]] | None = None
    settled: Callable[[Now], list[Effect]] | None = None
    producer: BatchProducer | None = None


@dataclass(frozen=True, slots=True)
class Marker:
    """Write the end of a producer's transaction into the shard's own partition.

    Once it is in the log, the shard's `replay_end` is called; `then` is that of `Append`.
    """

    marker: TransactionMarker
    then: Callable[[Now, KafkaError | None], list[Effect]]


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a request at once; the response is dropped if the client has disconnected."""

    token: Token
    response: Any


@dataclass(frozen=True, slots=True)
class Schedule:
    """Call the shard's `expire(now, key)` after `delay_ms`; replaces the timer of `key`.

    The shard checks its state then: a timer that fires early, or for a deleted object, changes nothing.
    """

    key: Hashable
    delay_ms: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel the timer of `key`, if it runs."""

    key: Hashable


@dataclass(frozen=True, slots=True)
class Send:
    """Pass a message to the node, outside of the coordinator."""

    message: Any


Effect = Append | Marker | Reply | Schedule | Cancel | Send
