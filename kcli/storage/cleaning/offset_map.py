"""OffsetMap: the last offset of each key in the dirty part of a log.

Keys up to `SHORT_KEY_BYTES` are held as they are, longer ones as a BLAKE2b digest one byte longer, so that
no key equals another's digest. An entry counts for `ENTRY_BYTES` and its key (Kafka class
`SkimpyOffsetMap`).
"""

from __future__ import annotations

from hashlib import blake2b

from kcli.protocol.records.record_filter import KeyForm

SHORT_KEY_BYTES = 24
ENTRY_BYTES = 120
"""The table's share of an entry, the objects of key and offset, and the growth of the table."""

_DIGEST_BYTES = SHORT_KEY_BYTES + 1


def digest_of(key: bytes) -> bytes:
    """Return what a map holds in place of a long key."""
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()


def stored_key(key: bytes) -> bytes:
    """Return what a map holds for a key."""
    return key if len(key) <= SHORT_KEY_BYTES else digest_of(key)


KEY_FORM = KeyForm(SHORT_KEY_BYTES, digest_of)


class OffsetMap:
    """Stored key -> offset, in at most `max_bytes`; all keys of the first batch fit in any case."""

    __slots__ = ("end", "max_bytes", "offsets", "room")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.room = max_bytes
        self.offsets: dict[bytes, int] = {}
        self.end = 0
        """The offset up to which all records are mapped; the map says nothing of later ones."""

    @property
    def utilization(self) -> float:
        """How full the map is, 0 to 1."""
        return min((self.max_bytes - self.room) / max(self.max_bytes, 1), 1.0)
