"""DelayedResponse: an answer that is ready but for partitions in which other replicas have yet to follow.

An acks=all write waits for the high watermark, a deletion of records for the low one. Each partition begins
with REQUEST_TIMED_OUT and keeps it unless it is settled in time; what was done to the leader's log stays in
any case (classes `DelayedProduce` and `DelayedDeleteRecords`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from kcli.broker.purgatory import DelayedOperation

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from kcli.broker.replication.partition import PartitionId
    from kcli.broker.replication.replica_manager import ReplicaManager

R = TypeVar("R")


class Pending(Protocol):
    """One partition of a request, and its part of the response."""

    @property
    def key(self) -> PartitionId:
        """The partition whose changes may settle it."""
        ...

    def settle(self, manager: ReplicaManager) -> bool:
        """Write into the response how it ended; return whether it has."""
        ...


class DelayedResponse(DelayedOperation, Generic[R]):
    """A response, and what of it is pending."""

    __slots__ = ("_manager", "_pending", "response")

    def __init__(self, manager: ReplicaManager, response: R, pending: Sequence[Pending]) -> None:
        super().__init__()
        self._manager = manager
        self.response = response
        self._pending = pending

    def try_complete(self, key: Hashable) -> bool:
        return self.settle()

    def settle(self) -> bool:
        """Settle what can be settled; return whether nothing is pending any more."""
        manager = self._manager
        self._pending = [pending for pending in self._pending if not pending.settle(manager)]
        return not self._pending

    def park(self, timeout_ms: int) -> None:
        """Wait until everything is settled, or the time is up."""
        keys = [pending.key for pending in self._pending]
        self._manager.purgatory.park(self, keys, max(0, timeout_ms))

    def finish(self) -> R:
        self.settle()
        return self.response


def once_settled(
    manager: ReplicaManager,
    response: R,
    *,
    pending: Sequence[Pending],
    timeout_ms: int,
    lets_pass: bool = False,
) -> R | DelayedResponse[R]:
    """Return a response if nothing of it is pending any more, else what waits for that, already parked."""
    delayed = DelayedResponse(manager, response, pending)
    delayed.lets_pass = lets_pass
    if delayed.settle():
        return response
    delayed.park(timeout_ms)
    return delayed
