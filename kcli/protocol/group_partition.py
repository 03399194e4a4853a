"""The partition of the coordinators' topic that keeps a group or a transaction, by the hash of its name."""

from __future__ import annotations


def string_hash(text: str) -> int:
    """Return Java's `String.hashCode()` as an unsigned 32-bit number: it runs over UTF-16 units."""
    result = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        result = (31 * result + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return result


def partition_for(name: str, count: int) -> int:
    """Return the partition, of `count`, that holds a group or a transactional id.

    Java takes the absolute value of a signed hash, and 0 for the one that has none (`Utils.abs`).
    """
    value = string_hash(name)
    if value > 0x8000_0000:
        return (0x1_0000_0000 - value) % count
    return 0 if value == 0x8000_0000 else value % count
