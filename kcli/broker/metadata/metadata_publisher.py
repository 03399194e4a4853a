"""MetadataFeeds: what each node is told of the metadata: every change, in order.

A node that hears nothing for a while, because it is paused or cut off from the controller's node, delays
nobody: when it hears again it takes over the newest image, with everything that changed meanwhile as one
delta. A change that a node makes while it takes one over is delivered after it, to all.

Audience: who is told of every change of the metadata, in the order of the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from kcli.broker.metadata.metadata_image import EMPTY_IMAGE, MetadataDelta, MetadataImage, delta_between


class Listener(Protocol):
    """Who is told: a node."""

    node_id: int
    image: MetadataImage

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take over an image."""
        ...


class MetadataFeeds:
    """The nodes that are told. `hears` says whether a node can be told now; `failed` gets what one raises."""

    def __init__(self, *, hears: Callable[[int], bool], failed: Callable[[int, Exception], None]) -> None:
        self.latest: MetadataImage = EMPTY_IMAGE
        self._hears = hears
        self._failed = failed
        self._listeners: dict[int, Listener] = {}
        self._pending: deque[tuple[MetadataImage, MetadataDelta | None]] = deque()
        self._is_delivering = False

    def add(self, listener: Listener) -> None:
        """Tell a node of every change from now on; it has taken over `latest` itself."""
        self._listeners[listener.node_id] = listener

    def remove(self, node_id: int) -> None:
        """Tell a node nothing more."""
        self._listeners.pop(node_id, None)

    def deliver(self, image: MetadataImage, delta: MetadataDelta | None = None) -> None:
        """Tell everyone who hears of a new image and, where that is known, of what has changed."""
        self._pending.append((image, delta))
        if self._is_delivering:
            return
        self._is_delivering = True
        try:
            while self._pending:
                former, (self.latest, delta) = self.latest, self._pending.popleft()
                for listener in list(self._listeners.values()):
                    self._tell(listener, delta if listener.image is former else None)
        finally:
            self._is_delivering = False

    def catch_up(self) -> None:
        """Tell everyone who hears again what they have missed."""
        if not self._is_delivering and any(
            listener.image is not self.latest and self._hears(listener.node_id)
            for listener in self._listeners.values()
        ):
            self.deliver(self.latest)

    def _tell(self, listener: Listener, delta: MetadataDelta | None) -> None:
        if listener.image is self.latest or not self._hears(listener.node_id):
            return
        try:
            listener.apply(delta or delta_between(listener.image, self.latest), self.latest)
        except Exception as error:
            # It is that node's failure, and neither the controller's nor the other nodes'.
            self._failed(listener.node_id, error)


Subscriber = Callable[[MetadataImage, MetadataDelta], None]


class Audience:
    """The subscribers. A change that one of them causes while it is told is told to all afterwards."""

    def __init__(self) -> None:
        self._subscribers: list[Subscriber] = []
        self._untold: deque[tuple[MetadataImage, MetadataDelta]] = deque()
        self._is_telling = False

    def add(self, subscriber: Subscriber) -> None:
        """Tell `subscriber` of every change from now on."""
        self._subscribers.append(subscriber)

    def remove(self, subscriber: Subscriber) -> None:
        """Tell `subscriber` of no more changes."""
        self._subscribers.remove(subscriber)

    def tell(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Tell of a change: before this returns, but for changes that a subscriber has caused."""
        self._untold.append((image, delta))
        if self._is_telling:
            return
        self._is_telling = True
        try:
            while self._untold:
                change = self._untold.popleft()
                for subscriber in tuple(self._subscribers):
                    subscriber(*change)
        finally:
            self._is_telling = False
