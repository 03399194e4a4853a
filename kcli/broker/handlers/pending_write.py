"""PendingWrite: one partition of an acks=all write, until its records are on every in-sync replica."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kcli.broker.replication.partition import PartitionId
    from kcli.broker.replication.replica_manager import ReplicaManager
    from kcli.protocol.messages.produce import PartitionProduceResponse


class PendingWrite:
    """Settled when the high watermark reaches `required_offset`, or never can."""

    __slots__ = ("key", "required_offset", "row")

    def __init__(self, key: PartitionId, required_offset: int, row: PartitionProduceResponse) -> None:
        self.key = key
        self.required_offset = required_offset
        self.row = row
        row.error_code = ErrorCode.REQUEST_TIMED_OUT

    def settle(self, manager: ReplicaManager) -> bool:
        """Write into the row how it ended; return whether it has."""
        try:
            code = manager.partition(*self.key).replication_error(self.required_offset)
        except KafkaError as error:
            code = error.code
        if code is None:
            return False
        self.row.error_code = code
        if code != ErrorCode.NONE:
            self.row.base_offset = -1
        return True
