"""DelayedDelete: a DeleteRecords that waits until every replica that is alive has moved its log start.

Until then a replica that became leader could show the records again (class `DelayedDeleteRecords`). Each
partition starts with REQUEST_TIMED_OUT and keeps it unless its low watermark gets there in time; the leader's
own log start has moved in any case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.purgatory import DelayedOperation
from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kcli.broker.partition import PartitionId
    from kcli.broker.replica_manager import ReplicaManager
    from kcli.protocol.messages.delete_records import DeleteRecordsPartitionResult, DeleteRecordsResponse


class PendingDelete:
    """One partition of the request: complete when its low watermark is at `required_offset`."""

    __slots__ = ("key", "required_offset", "result")

    def __init__(self, key: PartitionId, required_offset: int, result: DeleteRecordsPartitionResult) -> None:
        self.key = key
        self.required_offset = required_offset
        self.result = result
        result.error_code = ErrorCode.REQUEST_TIMED_OUT


class DelayedDelete(DelayedOperation):
    """A response that is ready but for its pending partitions."""

    __slots__ = ("_pending", "_replica_manager", "_response")

    def __init__(
        self, replica_manager: ReplicaManager, response: DeleteRecordsResponse, pending: list[PendingDelete]
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

    def finish(self) -> DeleteRecordsResponse:
        self.settle()
        return self._response

    def _settle(self, pending: PendingDelete) -> bool:
        result = pending.result
        try:
            low_watermark = self._replica_manager.leader(*pending.key).low_watermark
        except KafkaError as error:
            result.error_code, result.low_watermark = error.code, -1
            return True
        result.low_watermark = low_watermark
        if low_watermark < pending.required_offset:
            return False
        result.error_code = ErrorCode.NONE
        return True
