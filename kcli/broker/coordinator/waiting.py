"""What waits in a coordinator: a client for its answer, a shard for a timer, a batch for its replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.broker.coordinator.effects import Token
from kcli.broker.waiting.purgatory import DelayedOperation
from kcli.broker.waiting.timer import TimerTask
from kcli.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from kcli.broker.coordinator.effects import Effect, Now
    from kcli.broker.coordinator.shard_host import ShardHost
    from kcli.protocol.error_codes import KafkaError


class Answer(DelayedOperation, Token):
    """Whoever waits for the answer to one request. It is there at once, or a connection parks on it.

    Nothing limits the wait: a shard answers every token. A client that goes away is forgotten, and its
    answer with it.
    """

    __slots__ = ("_shape", "response")

    def __init__(self, shape: Callable[[Any], Any] | None) -> None:
        super().__init__()
        self._shape = shape
        self.response: Any = None

    def give(self, response: object) -> None:
        """Take the answer; all but the first are too late."""
        if self.ended:
            return
        self.ended = True
        self.response = response
        self.tell()

    def finish(self) -> Any:  # noqa: ANN401 - whatever the shard replied
        return self.response if self._shape is None else self._shape(self.response)


class ShardTimer(TimerTask):
    """One timer of a shard."""

    __slots__ = ("_host", "key")

    def __init__(self, host: ShardHost[Any], key: Hashable) -> None:
        super().__init__()
        self._host = host
        self.key = key

    def fall_due(self) -> None:
        self._host.expire(self)


class PendingAppend(DelayedOperation):
    """A batch that is written and not committed yet, and who waits for it.

    `is_flushed` is false while `flush.messages` wants it on the disk first.
    """

    __slots__ = ("_host", "is_flushed", "required_offset", "then")

    def __init__(
        self,
        host: ShardHost[Any],
        required_offset: int,
        then: Callable[[Now, KafkaError | None], list[Effect]],
    ) -> None:
        super().__init__()
        self._host = host
        self.required_offset = required_offset
        self.then = then
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
