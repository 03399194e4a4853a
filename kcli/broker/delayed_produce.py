"""DelayedProduce: an acks=all write that waits until its records are on every in-sync replica.

Each partition starts with REQUEST_TIMED_OUT and keeps it unless its high watermark passes in time; the
records stay where they are in any case (class `DelayedProduce`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.purgatory import DelayedOperation
from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kcli.broker.partition import PartitionId
    from kcli.broker.replica_manager import ReplicaManager
    from kcli.protocol.messages.produce import PartitionProduceResponse, ProduceResponse


class PendingWrite:
    """One partition of the request: complete when the high watermark reaches `required_offset`."""

    __slots__ = ("key", "required_offset", "response")

    def __init__(self, key: PartitionId, required_offset: int, response: PartitionProduceResponse) -> None:
        self.key = key
        self.required_offset = required_offset
        self.response = response
        response.error_code = ErrorCode.REQUEST_TIMED_OUT


class DelayedProduce(DelayedOperation):
    """A response that is ready but for its pending partitions."""

    __slots__ = ("_pending", "_replica_manager", "_response")

    def __init__(
        self, replica_manager: ReplicaManager, response: ProduceResponse, pending: list[PendingWrite]
    ) -> None:
        super().__init__()
        self._replica_manager = replica_manager
        self._response = response
        self._pending = pending

    def try_complete(self, key: Hashable) -> bool:
        """Settle the partition that something happened to; return whether all are settled."""
        return self.settle()

    def settle(self) -> bool:
        """Settle what can be settled; return whether nothing is pending any more."""
        self._pending = [pending for pending in self._pending if not self._settle(pending)]
        return not self._pending

    def finish(self) -> ProduceResponse:
        self.settle()
        return self._response

    def _settle(self, pending: PendingWrite) -> bool:
        try:
            partition = self._replica_manager.partition(*pending.key)
        except KafkaError as error:
            code: ErrorCode | None = error.code
        else:
            code = partition.replication_error(pending.required_offset)
        if code is None:
            return False
        response = pending.response
        response.error_code = code
        if code != ErrorCode.NONE:
            response.base_offset = -1
        return True
