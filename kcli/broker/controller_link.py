"""ControllerLink: how a node reaches the controller, which may be on a node that it cannot reach.

Every call asks anew: the office moves, and links are cut. Whoever cannot reach it gets NOT_CONTROLLER, and
asks again after its own backoff.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.broker.controller.controller import Controller
    from kcli.broker.controller_office import ControllerOffice
    from kcli.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse


class ControllerLink:
    """The way from node `node_id` to the controller."""

    __slots__ = ("_office", "node_id")

    def __init__(self, node_id: int, office: ControllerOffice) -> None:
        self.node_id = node_id
        self._office = office

    def current(self) -> Controller:
        """Return the controller. Raises `KafkaError` NOT_CONTROLLER if there is none, or none in reach."""
        return self._office.reached_from(self.node_id)

    @property
    def controller_id(self) -> int:
        """The node that is known to be the controller, -1 if none is."""
        holder = self._office.holder
        return -1 if holder is None else holder

    def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Have a leader change its in-sync replicas. Raises `KafkaError` as `current` does."""
        return self.current().alter_partition(request)
