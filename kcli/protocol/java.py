"""Rules of Java's that Kafka's formats and tools depend on: how texts are hashed and ordered."""

from __future__ import annotations


def string_hash(text: str) -> int:
    """Return Java's `String.hashCode()` as an unsigned 32-bit number: it runs over UTF-16 units."""
    result = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        result = (31 * result + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return result


def java_order(text: str) -> bytes:
    """Return the sort key under which texts stand as Java compares them: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")
