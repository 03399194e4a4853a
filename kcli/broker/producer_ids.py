"""ProducerIds: one node's supply of producer ids (class `RPCProducerIdManager`, KIP-730)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class ProducerIds:
    """Gives out ids one by one; `allocate` reserves (first id, how many) in the metadata log."""

    __slots__ = ("_allocate", "_end", "_next")

    def __init__(self, allocate: Callable[[], tuple[int, int]]) -> None:
        self._allocate = allocate
        self._next = self._end = 0

    def take(self) -> int:
        """Return an id that was never given out before. Raises `KafkaError` when no block can be reserved."""
        if self._next == self._end:
            first, size = self._allocate()
            self._next, self._end = first, first + size
        producer_id = self._next
        self._next += 1
        return producer_id
