"""Producer ids: the controller allocates blocks, brokers give out single ids (KIP-730).

A block is in the log before its first id is used, so no id is given twice. The rest of a block is lost when
its broker stops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.broker.controller.result import ControllerResult
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.metadata_records import ProducerIdsRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.broker.metadata.metadata_image import MetadataImage

BLOCK_SIZE = 1000
_LAST_PRODUCER_ID = 2**63 - 1


class ProducerIdBlock(NamedTuple):
    """The ids from `first` to `first + size - 1`."""

    first: int
    size: int


def allocate_producer_ids(
    image: MetadataImage, *, node_id: int, broker_epoch: int
) -> ControllerResult[ProducerIdBlock]:
    """Allocate the next block to a broker."""
    first = image.next_producer_id
    if first > _LAST_PRODUCER_ID - BLOCK_SIZE:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids are used up")
    record = ProducerIdsRecord(
        broker_id=node_id, broker_epoch=broker_epoch, next_producer_id=first + BLOCK_SIZE
    )
    return ControllerResult((record,), ProducerIdBlock(first, BLOCK_SIZE))


def skip_producer_ids(
    image: MetadataImage, *, node_id: int, broker_epoch: int, first: int
) -> ControllerResult[None]:
    """Let the next block begin at `first` or later, because adopted data uses the ids below."""
    if image.next_producer_id >= first:
        return ControllerResult((), None)
    record = ProducerIdsRecord(broker_id=node_id, broker_epoch=broker_epoch, next_producer_id=first)
    return ControllerResult((record,), None)


class ProducerIds:
    """One node's supply of ids (class `RPCProducerIdManager`); `allocate` returns (first id, how many)."""

    def __init__(self, allocate: Callable[[], tuple[int, int]]) -> None:
        self._allocate = allocate
        self._next = self._end = 0

    def take(self) -> int:
        """Return a new id. Raises `KafkaError` if no block can be allocated."""
        if self._next == self._end:
            first, size = self._allocate()
            self._next, self._end = first, first + size
        producer_id = self._next
        self._next += 1
        return producer_id
