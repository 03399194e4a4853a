"""The order in which a Java `HashMap` lists its keys.

Some of Kafka's tools print maps as they come. To print the same text, kcli orders the same way: by bucket,
which is the key's hash, folded, modulo a table that doubles whenever it is three quarters full.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from kcli.protocol.topics import string_hash

Key = TypeVar("Key")

SMALLEST_TABLE = 16


def partition_hash(topic_partition: tuple[str, int]) -> int:
    """Return `TopicPartition.hashCode()` as an unsigned 32-bit number."""
    topic, partition = topic_partition
    return (31 * (31 + partition) + string_hash(topic)) & 0xFFFFFFFF


def hash_map_order(keys: Collection[Key], hash_code: Callable[[Key], int]) -> list[Key]:
    """Return `keys`, given in the order they are put, as a `HashMap` of default size lists them."""
    return _by_bucket(keys, hash_code, len(keys))


def computed_map_order(
    keys: Collection[Key], hash_code: Callable[[Key], int], *, asked_again: bool
) -> list[Key]:
    """Return `keys` as a `HashMap` lists them that was filled by `computeIfAbsent`.

    That puts a key in front of its bucket, and lets the table grow when it is called the next time only:
    `asked_again` says whether it was called after the last key was put.
    """
    return _by_bucket(list(keys)[::-1], hash_code, len(keys) - (not asked_again))


def _by_bucket(keys: Collection[Key], hash_code: Callable[[Key], int], size: int) -> list[Key]:
    table = SMALLEST_TABLE
    while size > table * 3 // 4:
        table *= 2

    def bucket(key: Key) -> int:
        code = hash_code(key)
        return (code ^ code >> 16) & (table - 1)

    return sorted(keys, key=bucket)
