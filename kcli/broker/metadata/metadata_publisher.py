"""MetadataPublisher: brings every change of the metadata to the nodes and the observers, in order.

A node that is paused or cut off from the controller does not delay the others: once it is reachable again it
applies the newest image, with all missed changes as one delta. A change that is made during a delivery is
delivered after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from kcli.broker.metadata.metadata_image import EMPTY_IMAGE, MetadataDelta, MetadataImage, delta_between

Observer = Callable[[MetadataImage, MetadataDelta], None]


class FollowingNode(Protocol):
    """A node that acts on an image."""

    node_id: int
    image: MetadataImage

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take over an image."""


def _raise(_: int, error: Exception) -> None:
    raise error


class MetadataPublisher:
    """Publishes to the nodes that are reachable; `failed` gets the error of a node's `apply`."""

    def __init__(
        self,
        *,
        is_reachable: Callable[[int], bool] = lambda _: True,
        failed: Callable[[int, Exception], None] = _raise,
    ) -> None:
        self.latest: MetadataImage = EMPTY_IMAGE
        self._is_reachable = is_reachable
        self._failed = failed
        self._nodes: dict[int, FollowingNode] = {}
        self._observers: list[Observer] = []
        self._pending: deque[tuple[MetadataImage, MetadataDelta | None]] = deque()
        self._is_delivering = False

    def add(self, node: FollowingNode) -> None:
        """Publish to a node from now on; it has applied `latest` itself."""
        self._nodes[node.node_id] = node

    def remove(self, node_id: int) -> None:
        self._nodes.pop(node_id, None)

    def observe(self, observer: Observer) -> None:
        """Call `observer` with each change from now on, after the nodes."""
        self._observers.append(observer)

    def publish(self, image: MetadataImage, delta: MetadataDelta | None = None) -> None:
        """Deliver a new image; without a delta nodes compute their own, and observers are not called."""
        self._pending.append((image, delta))
        if self._is_delivering:
            return
        self._is_delivering = True
        try:
            while self._pending:
                former, (self.latest, delta) = self.latest, self._pending.popleft()
                for node in list(self._nodes.values()):
                    self._deliver(node, delta if node.image is former else None)
                if delta is not None:
                    for observer in tuple(self._observers):
                        observer(self.latest, delta)
        finally:
            self._is_delivering = False

    def catch_up(self) -> None:
        """Bring the latest image to nodes that missed it and are reachable again."""
        if not self._is_delivering and any(
            node.image is not self.latest and self._is_reachable(node.node_id)
            for node in self._nodes.values()
        ):
            self.publish(self.latest)

    def _deliver(self, node: FollowingNode, delta: MetadataDelta | None) -> None:
        if node.image is self.latest or not self._is_reachable(node.node_id):
            return
        try:
            node.apply(delta or delta_between(node.image, self.latest), self.latest)
        except Exception as error:
            # It is the failure of that node, not of the controller.
            self._failed(node.node_id, error)
