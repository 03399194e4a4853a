"""DistinctCounter: how many different keys there are, in memory that does not grow with them.

Up to `MOST_EXACT` keys it knows each by its hash. Then it goes over to linear counting: every hash sets one
of `SLOTS` bits, and the share of bits that are still clear tells how many hashes there were: to a hundredth
of a percent up to ten million keys, to one percent up to three hundred million (Whang and others, 1990).
"""

from __future__ import annotations

from math import log

MOST_EXACT = 100_000
SLOTS = 1 << 26

_MASK = SLOTS - 1


class DistinctCounter:
    """Counts different keys."""

    __slots__ = ("_bits", "_hashes")

    def __init__(self) -> None:
        self._hashes: set[int] = set()
        self._bits: bytearray | None = None

    def add(self, key: bytes) -> None:
        """Take note of a key."""
        number = hash(key)
        if self._bits is None:
            self._hashes.add(number)
            if len(self._hashes) > MOST_EXACT:
                self._begin_estimating()
        else:
            slot = number & _MASK
            self._bits[slot >> 3] |= 1 << (slot & 7)

    def _begin_estimating(self) -> None:
        self._bits = bytearray(SLOTS >> 3)
        for number in self._hashes:
            slot = number & _MASK
            self._bits[slot >> 3] |= 1 << (slot & 7)
        self._hashes.clear()

    @property
    def is_exact(self) -> bool:
        """Whether the count is no estimate."""
        return self._bits is None

    @property
    def count(self) -> int:
        """How many different keys there were."""
        if self._bits is None:
            return len(self._hashes)
        clear = SLOTS - int.from_bytes(self._bits, "little").bit_count()
        return round(-SLOTS * log(max(clear, 1) / SLOTS))
