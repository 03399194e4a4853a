"""PartitionHost: what a partition needs of the node that it is on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kcli.broker.isr_upkeep import IsrChange


class PartitionHost(Protocol):
    """The node, as its partitions know it."""

    @property
    def max_lag_ms(self) -> int:
        """How long an in-sync replica may be behind (`replica.lag.time.max.ms`)."""
        ...

    def touch(self, key: tuple[str, int]) -> None:
        """Something happened to a partition that others may wait for."""
        ...

    def clock_ms(self) -> int:
        """Return a time that only goes forward."""
        ...

    def broker_epoch_of(self, node_id: int) -> int | None:
        """Return the epoch of a node that may be in sync, None for one that may not."""
        ...

    def submit(self, change: IsrChange) -> None:
        """Ask the controller for other in-sync replicas."""
        ...
