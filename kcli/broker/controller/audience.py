"""Audience: who is told of every change of the metadata, in the order of the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from kcli.broker.metadata_image import MetadataDelta, MetadataImage

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
