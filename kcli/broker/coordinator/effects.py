"""Effects: what a coordinator shard wants done, as values.

A shard takes an event (a request, a timer, a change of the metadata) and returns effects; the runtime
performs them in order. What is hard state (offsets, generations that were stored, assignments) changes only
in `replay` of a record that is in the log, so an append that fails needs no undo.

    def sync_group(self, now: Now, token: Token, request: SyncGroupRequest, ...) -> list[Effect]:
        ...
        return [Append((group_record,), then=lambda now, error: self._assignment_stored(now, ..., error))]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from kcli.protocol.error_codes import KafkaError


class Now(NamedTuple):
    """One moment on two clocks, in milliseconds.

    `ms` is monotonic: deadlines and what is measured against them. `wall_ms` is the time of day: what is
    stored.
    """

    ms: int
    wall_ms: int


class Token:
    """Whoever waits for the answer to one request. A shard keeps it, compares it, and replies to it once."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CoordinatorRecord:
    """A record of an internal topic: a key and a value of `protocol.coordinator_records`, None to delete."""

    key: Any
    value: Any


@dataclass(frozen=True, slots=True)
class Append:
    """Write records as one batch.

    Once they are in the log each is given to the shard's `replay`; once they are committed `then(now, None)`
    is called, and its effects are performed. If they cannot be written, or leadership is lost before they are
    committed, it is `then(now, error)`, and after a failed write nothing was replayed.
    """

    records: tuple[CoordinatorRecord, ...]
    then: Callable[[Now, KafkaError | None], list[Effect]] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a request, at once. A client that is gone by then is no error."""

    token: Token
    response: Any


@dataclass(frozen=True, slots=True)
class Schedule:
    """Call the shard's `expire(now, key)` after `delay_ms`, instead of whatever was scheduled for `key`.

    The shard judges anew by then: a timer that fires early, or for something gone, changes nothing.
    """

    key: Hashable
    delay_ms: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Forget the timer of `key`, if there is one."""

    key: Hashable


Effect = Append | Reply | Schedule | Cancel
