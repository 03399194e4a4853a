"""EncodedMetadata: pieces of responses that change only with the metadata, encoded once.

An entry belongs to the object it was made from, a `TopicImage` or a whole `MetadataImage`; images never
change, so the entry is good for as long as that very object is the current one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.metadata.metadata_image import TopicImage

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

MAX_ENTRIES = 50_000


class EncodedMetadata:
    """A cache of encoded pieces, each with the object it came from."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[Hashable, tuple[object, bytes]] = {}

    def get(self, key: Hashable, source: object) -> bytes | None:
        """Return the piece under `key` if it was made from `source` itself."""
        entry = self._entries.get(key)
        return entry[1] if entry is not None and entry[0] is source else None

    def put(self, key: Hashable, source: object, encoded: bytes) -> bytes:
        """Keep a piece made from `source`; return it."""
        if len(self._entries) >= MAX_ENTRIES:
            self._entries.clear()
        self._entries[key] = (source, encoded)
        return encoded

    def forget_topics(self, topic_ids: Collection[bytes]) -> None:
        """Drop the pieces of topics that are no more."""
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
        """Forget everything: what the pieces depend on besides their source has changed."""
        self._entries.clear()
