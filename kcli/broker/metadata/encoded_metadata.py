"""EncodedMetadata: a cache of encoded pieces of responses that change only with the metadata.

A piece belongs to the `TopicImage` or `MetadataImage` that it was encoded from. Images never change, so the
piece is valid while that very object is the current one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.metadata.metadata_image import TopicImage

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

MAX_ENTRIES = 50_000


class EncodedMetadata:
    """A cache of encoded pieces, each with its source."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, tuple[object, bytes]] = {}

    def get(self, key: Hashable, source: object) -> bytes | None:
        """Return the piece under `key` if `source` is its source."""
        entry = self._entries.get(key)
        return entry[1] if entry is not None and entry[0] is source else None

    def put(self, key: Hashable, source: object, encoded: bytes) -> bytes:
        """Keep a piece encoded from `source`; return it."""
        if len(self._entries) >= MAX_ENTRIES:
            self._entries.clear()
        self._entries[key] = (source, encoded)
        return encoded

    def forget_topics(self, topic_ids: Collection[bytes]) -> None:
        entries = self._entries
        gone = [
            key
            for key, (source, _) in entries.items()
            if isinstance(source, TopicImage) and source.topic_id in topic_ids
        ]
        for key in gone:
            del entries[key]

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        """Drop all pieces: something else that they depend on has changed."""
        self._entries.clear()
